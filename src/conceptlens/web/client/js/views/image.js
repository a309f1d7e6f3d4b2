/** View 2: one image, what the model says of it, and why: contributions, maps, patches. */
import { format, note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { h, put } from "../dom.js";
import { saveCanvas, saveJSON } from "../download.js";
import { failure, loading, missing, viewHead } from "../parts/frame.js";
import { gallery } from "../parts/gallery.js";
import { placeOf } from "../parts/image_name.js";
import { imageStory } from "../parts/image_story.js";
import { ahead, opener, predictionOf } from "../parts/opener.js";
import { shortcut } from "../shortcuts.js";
import { image as lastImage, keepImage, upload } from "../visit.js";

/** @param {HTMLElement} host @param {Record<string, string>} params */
export async function imageView(host, params, /** @type {{card: Answers.RunCard}} */ { card: runCard }) {
  const { run } = params;
  const named = params.name && !params.image ? placeOf(run, params.split ?? "test", params.name) : null;
  named?.catch(() => {}); // told below
  const start = named ? null : (params.image ?? lastImage(run));
  // Without the head, only the decompositions that came with the prediction are shown.
  const asking = api.head(run).catch(() => null);
  if (start) ahead(run, start, upload(run));
  const whole = await api.run(run);
  if (!whole.classes) {
    put(
      host,
      viewHead("Image", "The model's prediction for one image and its reasons."),
      missing(
        "No model yet",
        "This run has no trained model.",
        `conceptlens resume ${runCard?.folder ?? run}`,
      ),
    );
    return {};
  }
  /** @type {any} */
  let head = null;
  /** @type {any} */
  let shown = null;
  /** @type {any} */
  let panel = null;
  let asked = 0;
  const story = h("div", { class: "story" }, loading("Predicting…"));
  const files = opener(host, {
    run,
    onstart: () => {
      put(story, loading("Reading the file…"));
    },
    onfail: (error) => put(story, failure(error)),
    onopen: () => {
      strip.mark(null);
      show("upload");
    },
  });
  const strip = gallery({
    run,
    whole,
    params,
    picked: params.image ?? null,
    onpick: (image) => show(image),
    onchange: (changes) => note(changes),
  });
  const whatIf = h("a", { class: "button" }, "Ask “what if”");
  put(
    host,
    viewHead(
      "Image",
      "What the model predicts for one image, what each concept adds to it, and maps.",
      {
        actions: [files.button, whatIf],
        downloads: [
          ["Image with its map (PNG)", () => panel && saveCanvas(panel.compose(), `${run}-${name()}-map`)],
          [
            "Contributions (SVG)",
            () =>
              shown &&
              import("../charts/sums_svg.js").then(({ saveSums }) =>
                saveSums(shown.reasons.data(), shown.prediction, `${run}-${name()}-contributions`, "svg"),
              ),
          ],
          [
            "Contributions (PNG)",
            () =>
              shown &&
              import("../charts/sums_svg.js").then(({ saveSums }) =>
                saveSums(shown.reasons.data(), shown.prediction, `${run}-${name()}-contributions`, "png"),
              ),
          ],
          ["Everything (JSON)", () => shown && saveJSON(shown.prediction, `${run}-${name()}`)],
        ],
      },
    ),
    strip,
    story,
    files.veil,
  );
  const name = () => (shown?.prediction.image.id ?? "image").replace(/[^\w.-]+/g, "-").replace(/\.\w+$/, "");

  /** @param {string | undefined} image */
  async function show(image) {
    const mine = (asked += 1);
    if (!image) {
      put(story, missing("No image", "Pick an image above, or open a file."));
      return;
    }
    keepImage(run, image);
    note({ image, name: "" });
    whatIf.href = format("what-if", { run, image });
    try {
      const prediction = await predictionOf(run, image, upload(run));
      if (mine !== asked) return;
      draw(image, prediction);
    } catch (error) {
      if (mine === asked) put(story, failure(error));
    }
  }

  /** @param {any} image @param {Answers.Prediction} prediction */
  function draw(image, prediction) {
    const told = imageStory({ run, image, prediction, head, groups: whole.groups });
    put(story, told.nodes);
    panel = told.panel;
    shown = { prediction, reasons: told.reasons };
    told.start();
    announce(`${prediction.image.id}: ${prediction.sentence}`);
  }

  shortcut("j", "next image", () => strip.step(1));
  shortcut("k", "previous image", () => strip.step(-1));
  shortcut("m", "next kind of map", () => panel?.nextKind());
  shortcut("/", "filters", () => /** @type {HTMLElement | null} */ (host.querySelector("#filter-show"))?.focus());
  const listed = strip.load();
  head = await asking;
  await Promise.all([listed, start ? show(start) : null]);
  if (named) await named.then(show, (error) => put(story, failure(error)));
  else if (!start) await show(strip.first());
  strip.mark(params.image ?? lastImage(run) ?? strip.first());
  strip.look();
  return {};
}
