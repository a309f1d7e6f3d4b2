/**
 * How a shared file reaches its data: in itself. `conceptlens share RUN FILE.html` puts this module in the place
 * of transport.js. The answers are those that the server gave when the file was made; what follows from them, as another
 * filter of the images or what a class head says, is worked out here.
 */
import { announce } from "../announce.js";
import { nextQuestions, smallestFlip } from "./advice.js";
import { addCorrections, correctionsTable, savedCorrections } from "./corrections.js";
import { listImages } from "./images.js";

/** A block of the page by its id: JSON that no part of the page can run. @param {string} id */
const block = (id) => JSON.parse(document.getElementById(id)?.textContent || "{}");
const note = block("share-note"); // what is in this file
const answers = block("share-answers"); // address → base64 of gzip of {status, body}
const pictures = block("share-pictures"); // "split/row" → base64 of a WebP
const files = block("share-files"); // address → type and base64 of another picture or a table

try {
  if (!location.hash) history.replaceState(null, "", `#/${note.views[0]}`);
} catch {
  console.info("This preview stores no addresses."); // the first view is shown all the same
}

export const shared = true;
/** @param {string} view */
export const holds = (view) => note.views.includes(view);

/** What is not in this file, or was refused when it was made. */
export class ApiError extends Error {
  /** @param {number} status @param {{code?: string, message?: string, command?: string | null}} [refusal] */
  constructor(status, { code = "missing", message = "This is not in this file.", command = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.command = command;
  }
}

/** @param {string} what */
const absent = (what) =>
  new ApiError(404, {
    message: `${what} not in this file. The file holds a part of the run; its owner has all of it.`,
  });

const PICTURE = /^\/?(?:api\/v1\/)?runs\/[^/]+\/images\/(\w+\/\d+)\/(?:thumbnail|picture)$/;

/** A picture or a table as an address that needs no server; an empty one where it is not in this file. @param {string} address */
function pictureAt(address) {
  const found = PICTURE.exec(address);
  if (found) return pictures[found[1]] ? `data:image/webp;base64,${pictures[found[1]]}` : "data:,";
  const place = address.replace(/^\/?(?:api\/v1\/)?/, "");
  return Object.hasOwn(files, place) ? `data:${files[place]}` : "data:,";
}

/** @param {string} key @param {any} value */
const revive = (key, value) => (typeof value === "string" && value.startsWith("/api/v1/") ? pictureAt(value) : value);

/** @param {string} text */
async function unpacked(text) {
  if (typeof DecompressionStream === "undefined")
    throw new ApiError(0, { message: "This browser is too old for this file. Use a browser from 2023 or later." });
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** An answer as the server gave it. @param {string} path */
async function told(path, what = "This is") {
  if (!Object.hasOwn(answers, path)) throw absent(what);
  const { status, body } = JSON.parse(await unpacked(answers[path]), revive);
  if (status >= 400) throw new ApiError(status, body.error);
  return body;
}

/** The prediction of an image; maps that were not made when the file was cannot be made now. @param {string} path @param {string | null} gradcam */
async function prediction(path, gradcam) {
  const found = await told(path, "This image is");
  const column = Number(gradcam);
  if (gradcam && Number.isInteger(column) && !found.maps.gradcam?.of.includes(column)) throw absent("This map is");
  return found;
}

/** @param {string} path @param {RequestInit} [options] */
export async function ask(path, options = {}) {
  const [place, query = ""] = path.split(/\?(.*)/s);
  const words = new URLSearchParams(query);
  const [, run, rest = ""] = /^runs\/([^/]+)(?:\/(.*))?$/.exec(place) ?? [];
  const folder = `runs/${run}`;
  if (options.method === "POST") {
    if (typeof options.body !== "string") throw absent("A model that looks at other images is");
    const body = JSON.parse(options.body);
    if (rest === "corrections")
      return addCorrections(
        body,
        await told(`${folder}/images/${body.image.split}/${body.image.row}/prediction`),
        (await told(folder)).groups,
      );
    const advise = { ask: nextQuestions, flip: smallestFlip }[rest];
    if (!advise) throw absent("This is");
    const [head, whole] = await Promise.all([told(`${folder}/head`), told(folder)]);
    return advise(head, whole.groups, body);
  }
  if (rest === "images") return listImages(await told(place), words);
  if (rest.endsWith("/prediction")) return prediction(place, words.get("gradcam"));
  if (rest === "history" && words.get("after"))
    return { ...(await told(place)), cursor: words.get("after"), lines: [] };
  if (rest === "corrections") return savedCorrections();
  return told(query && Object.hasOwn(answers, path) ? path : place);
}

/** The address of a picture or a file. @param {string} path */
export const file = (path) => (path.endsWith("/corrections.csv") ? correctionsTable() : pictureAt(path));

/** A link to a view that was not shared leads nowhere, and says so. */
document.addEventListener(
  "click",
  (event) => {
    const link = /** @type {HTMLAnchorElement | null} */ (event.target instanceof Element ? event.target.closest('a[href^="#/"]') : null);
    const [, view] = /^#\/([\w-]*)/.exec(link?.getAttribute("href") ?? "") ?? [];
    if (!link || !view || holds(view)) return;
    event.preventDefault();
    link.setAttribute("aria-disabled", "true");
    link.title = `The view “${view}” is not in this file.`;
    announce(link.title);
  },
  true,
);

/** A shared file reaches nobody. */
export const reach = () => Promise.reject(absent("This is"));
