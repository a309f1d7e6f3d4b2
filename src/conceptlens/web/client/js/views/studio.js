/** The codebook studio: an image and its tokens, which of them make a concept, what happens when they change, bias. */
import { here, note } from "../address.js";
import { shared } from "../api.js";
import { h, put } from "../dom.js";
import { saveCanvas, saveJSON, savePNG, saveSVG } from "../download.js";
import { card, command, failure, missing, viewHead } from "../parts/frame.js";
import { imageSources } from "../parts/studio_images.js";
import { studioStage } from "../parts/studio_stage.js";
import { biasOk, written } from "../parts/studio_written.js";
import { shortcut } from "../shortcuts.js";
import { studio } from "../studio.js";
import { percent, plural } from "../words.js";

const ABOUT =
  "A generator draws images from tokens, each the index of a code. See which tokens make a concept, hide or change them, and see whether the generator is biased when no value is requested.";
const ABOUT_READ =
  "Each position of an image is encoded as a token, the index of a code. See which tokens make a concept, and what is predicted when some are hidden or changed.";
/** @param {HTMLElement} host @param {Record<string, string>} params @param {{card: any}} app */
export async function studioView(host, params, { card: folder }) {
  const { run } = params;
  const read = (/** @type {string} */ name) => (folder?.has.includes(name) ? studio.result(run, name).catch((error) => error) : null);
  const [about, tokens, bias] = await Promise.all([studio.about(run), read("tokens"), read("bias")]);
  const live = about.model.here && !shared;
  const there = about.images.length > 0 || live;
  let start = null; // as the address names it: a row, or `made:seed:condition`
  const tried = h("div", {});
  const stage = studioStage({ run, about, live, sets: tokens?.sets, params });
  const images = imageSources({
    about,
    live,
    onopen(name) {
      stage.forgetConcept();
      open(name);
    },
    onfile: openFile,
  });
  const more = written({ run, about, tokens, bias, params, concept: stage.concept(), onlink: stage.link });

  /** @param {string} name */
  async function open(name) {
    start = name;
    note({ image: name });
    images.mark(name);
    try {
      const [kind, seed, ...words] = name.split(":");
      const reading =
        kind === "made"
          ? await studio.generate(run, words.join(":"), Number(seed) || 0)
          : await studio.image(run, kind);
      if (start === name) stage.show(reading);
      put(tried);
    } catch (error) {
      if (start === name) put(tried, failure(error));
    }
  }

  /** @param {File} file */
  async function openFile(file) {
    start = "file";
    note({ image: "" });
    try {
      const reading = await studio.encode(run, file);
      stage.show({ ...reading, picture: reading.picture ?? URL.createObjectURL(file) }); // no decoder: the file itself
      put(tried);
    } catch (error) {
      put(tried, failure(error));
    }
  }

  const absent = about.model.here
    ? null
    : h(
        "section",
        { class: "notice", role: "note", id: "no-model" },
        h("b", {}, "The model of this study is not here: "),
        `${about.model.why}. What its commands wrote is shown; new images, hiding tokens and edits need the model.`,
      );

  put(
    host,
    viewHead("Codebook studio", about.source === "generated" ? ABOUT : ABOUT_READ, {
      downloads: [
        ["Image with its tokens (PNG)", () => stage.compose() && saveCanvas(stage.compose(), `${run}-tokens`)],
        ["Path of the edit (SVG)", () => stage.chart() && saveSVG(stage.chart(), `${run}-edit`)],
        biasOk(bias) ? ["Bias (SVG)", () => saveSVG(more.svg(), `${run}-bias`)] : null,
        biasOk(bias) ? ["Bias (PNG)", () => savePNG(more.svg(), `${run}-bias`)] : null,
        [
          "Everything shown (JSON)",
          () => saveJSON({ study: about, ...stage.data(), bias: biasOk(bias) ? bias : null }, `${run}-studio`),
        ],
      ].filter(Boolean),
    }),
    absent,
    h(
      "p",
      { class: "note study-line" },
      `${about.network} extractor of ${plural(about.concepts.length, "concept")}`,
      about.accuracy["top-1"] === undefined
        ? null
        : `, right for ${percent(about.accuracy["top-1"])} of held-out samples`,
      ` · ${about.source === "generated" ? "samples of" : `${about.source}, as tokens of`} ${about.model.name}`,
    ),
    there
      ? card(
          "Images",
          {},
          about.images.length
            ? images.strip
            : h("p", { class: "note" }, "No images were written yet. ", command(about.missing.images)),
          images.makers,
          tried,
        )
      : missing(
          "No images were written yet",
          "This writes some, with the importance of their tokens:",
          about.missing.images,
        ),
    there ? stage.node : null,
    h("div", { class: "stack studio-more" }, more.parts),
  );

  const first = params.image ?? images.first;
  if (first !== null && there) await open(first);
  stage.restore();

  const step = (/** @type {number} */ by) => {
    const at = about.images.findIndex((/** @type {any} */ each) => String(each.row) === here().params.image);
    const next = about.images[at + by];
    if (!next) return;
    stage.forgetConcept();
    open(String(next.row));
  };
  shortcut("j", "next image", () => step(1));
  shortcut("k", "previous image", () => step(-1));
  if (live) {
    shortcut("u", "undo the last edit", stage.undo);
    shortcut("m", "look, hide tokens, edit a region", stage.nextMode);
  }
  return { stop: stage.stop };
}
