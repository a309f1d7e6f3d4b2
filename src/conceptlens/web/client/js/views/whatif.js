/** View 3: set concepts by hand and see the class follow. A linear head is evaluated here; the server confirms it. */
import { format, note } from "../address.js";
import { api } from "../api.js";
import { h, put } from "../dom.js";
import { saveCanvas, saveJSON } from "../download.js";
import { readEdits } from "../edits.js";
import { failure, loading, missing, viewHead } from "../parts/frame.js";
import { gallery } from "../parts/gallery.js";
import { ahead, opener, predictionOf } from "../parts/opener.js";
import { whatIf } from "../parts/what_if.js";
import { shortcut } from "../shortcuts.js";
import { image as lastImage, keepImage, upload } from "../visit.js";

const ABOUT =
  "Set a concept to another value and see how the class changes. The class is predicted from the concepts, so a person can correct a wrong concept.";

/** @param {HTMLElement} host @param {Record<string, string>} params */
export async function whatIfView(host, params, /** @type {{card: Answers.RunCard}} */ { card: runCard }) {
  const { run } = params;
  const first = params.image ?? lastImage(run);
  const asking = api.head(run);
  asking.catch(() => {}); // told below
  if (first) ahead(run, first, upload(run), { maps: false });
  const whole = await api.run(run);
  /** @type {any} */
  let head;
  try {
    head = await asking;
  } catch (error) {
    put(host, viewHead("What if", ABOUT), missing("What if is not possible here", /** @type {any} */ (error).message, /** @type {any} */ (error).command));
    return {};
  }
  /** @type {any} */
  let session = null;
  let asked = 0;
  const body = h("div", { class: "whatif" }, loading("Predicting…"));
  const files = opener(host, {
    run,
    onstart: () => put(body, loading("Reading the file…")),
    onfail: (error) => put(body, failure(error)),
    onopen: () => {
      strip.mark(null);
      show("upload", []);
    },
  });
  const strip = gallery({
    run,
    whole,
    params,
    picked: params.image ?? null,
    onpick: (image) => show(image, []),
    onchange: (changes) => note(changes),
  });
  const back = h("a", { class: "button" }, "Maps of this image");
  put(
    host,
    viewHead("What if", ABOUT, {
      actions: [files.button, back],
      downloads: [
        ["Before and after (JSON)", () => session && saveJSON(session.data(), `${run}-what-if`)],
        ["Image (PNG)", () => session && saveCanvas(session.view.compose(), `${run}-image`)],
      ],
    }),
    strip,
    body,
    files.veil,
  );

  /** @param {string | undefined} image @param {string[]} edits */
  async function show(image, edits) {
    const mine = (asked += 1);
    session?.stop();
    session = null;
    if (!image) {
      put(body, missing("No image", "Pick an image above, or open a file."));
      return;
    }
    keepImage(run, image);
    note({ image, edits: edits.join("\n") });
    back.href = format("image", { run, image });
    try {
      const prediction = await predictionOf(run, image, upload(run), { maps: false });
      if (mine === asked)
        session = whatIf({ body, run, image, prediction, whole, head, edits, folder: runCard?.folder ?? run });
    } catch (error) {
      if (mine === asked) put(body, failure(error));
    }
  }

  shortcut("u", "undo", () => session?.undo());
  shortcut("j", "next image", () => strip.step(1));
  shortcut("k", "previous image", () => strip.step(-1));
  await Promise.all([strip.load(), first ? show(first, readEdits(params.edits)) : null]);
  if (!first) await show(strip.first(), readEdits(params.edits));
  strip.mark(params.image ?? lastImage(run) ?? strip.first());
  strip.look();
  return { stop: () => session?.stop() };
}
