/** Open an image file: by a button, or by dropping it anywhere on the view. It goes to this machine's server only. */
import { api, shared } from "../api.js";
import { h } from "../dom.js";
import { keepUpload } from "../visit.js";

/**
 * @param {HTMLElement} host where files can be dropped
 * @param {{run: string, onopen: () => void, onfail: (error: Error) => void, onstart: () => void}} options
 */
export function opener(host, { run, onopen, onfail, onstart }) {
  const input = h("input", {
    type: "file",
    class: "hidden",
    id: "file",
    accept: "image/*,.dcm,.tif,.tiff",
    tabindex: "-1",
    "aria-hidden": "true",
    onchange: () => input.files[0] && send(input.files[0]),
  });
  const button = h("button", { type: "button", onclick: () => input.click() }, "Open an image file…");
  const veil = h("div", { class: "veil", hidden: true, "aria-hidden": "true" }, "Drop the image here");

  /** @param {File} file */
  async function send(file) {
    onstart();
    try {
      const about = await api.about();
      if (file.size > about.upload.bytes)
        throw new Error(
          `${file.name} has ${(file.size / 1e6).toFixed(1)} MB; the limit is ${(about.upload.bytes / 1e6).toFixed(0)} MB.`,
        );
      keepUpload(run, file, await api.upload(run, file));
      onopen();
    } catch (error) {
      onfail(/** @type {Error} */ (error));
    } finally {
      input.value = "";
    }
  }

  if (shared) return { button: null, veil: null }; // a file that was sent has no model to look at others
  let depth = 0;
  host.addEventListener("dragenter", (event) => {
    event.preventDefault();
    depth += 1;
    veil.hidden = false;
  });
  host.addEventListener("dragleave", () => {
    depth -= 1;
    if (depth <= 0) {
      depth = 0;
      veil.hidden = true;
    }
  });
  host.addEventListener("dragover", (event) => event.preventDefault());
  host.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    veil.hidden = true;
    const [file] = event.dataTransfer?.files ?? [];
    if (file) send(file);
  });
  return { button: h("span", {}, button, input), veil };
}

/** The prediction that an address names: `split/row`, or `upload` for a file of this visit. @param {string} run @param {string | undefined} image @param {any} uploaded */
export async function predictionOf(run, image, uploaded, { maps = true } = {}) {
  if (image === "upload") {
    if (!uploaded)
      throw new Error("This link is to a file that was opened in another browser. Open the file again, or pick an image.");
    return uploaded.prediction;
  }
  const [split, row] = String(image).split("/");
  return maps ? api.prediction(run, split, row) : api.predictionAlone(run, split, row);
}

/** Ask for it before it is needed; what is wrong with it is told when it is. @param {...any} given */
export const ahead = (...given) => {
  predictionOf(given[0], given[1], given[2]).catch(() => {});
};
