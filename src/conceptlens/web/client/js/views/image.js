/** View 2: one image, what the model says of it, and why: contributions, maps, patches. */
import { format, here, note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { shares } from "../charts/shares.js";
import { h, put } from "../dom.js";
import { saveCanvas, saveJSON } from "../download.js";
import { Maps } from "../maps.js";
import { contributions } from "../parts/contributions.js";
import { card, failure, loading, missing, viewHead } from "../parts/frame.js";
import { gallery } from "../parts/gallery.js";
import { mapPanel } from "../parts/map_panel.js";
import { ahead, opener, predictionOf } from "../parts/opener.js";
import { patchFacts } from "../parts/patch.js";
import { readings } from "../parts/readings.js";
import { shortcut } from "../shortcuts.js";
import { image as lastImage, keepImage, upload } from "../visit.js";

/** @param {HTMLElement} host @param {Record<string, string>} params */
export async function imageView(host, params, { card: runCard }) {
  const { run } = params;
  const start = params.image ?? lastImage(run);
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
  let head = null;
  let shown = null;
  let panel = null;
  let asked = 0;
  const story = h("div", { class: "story" }, loading("Looking at the image…"));
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
      "The model's prediction for one image and its reasons: what each concept adds to or subtracts from the class logit, and maps of where it looked.",
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

  async function show(image) {
    const mine = (asked += 1);
    if (!image) {
      put(story, missing("No image", "Pick an image above, or open a file."));
      return;
    }
    keepImage(run, image);
    note({ image });
    whatIf.href = format("what-if", { run, image });
    try {
      const prediction = await predictionOf(run, image, upload(run));
      if (mine !== asked) return;
      draw(image, prediction);
    } catch (error) {
      if (mine === asked) put(story, failure(error));
    }
  }

  function draw(image, prediction) {
    const state = here().params;
    const maps = new Maps(prediction);
    const first = prediction.deciding[0] ?? 0;
    const concept = state.concept !== undefined && prediction.concepts[state.concept] ? Number(state.concept) : first;
    const patchCard = h("div", {});
    const pickConcept = (k) => {
      note({ concept: k });
      panel.setConcept(k);
      reasons.setPicked(k);
    };
    const hover = (k) => {
      panel.preview(k);
    };
    const pickPatch = (patch) => {
      note({ patch: patch ?? "" });
      put(
        patchCard,
        patch === null
          ? h(
              "p",
              { class: "note" },
              "Click a patch of the image, or move over it with the arrow keys, to see its code, slots and concepts.",
            )
          : patchFacts({ run, prediction, maps, patch, onconcept: pickConcept }),
      );
    };
    panel = mapPanel({
      run,
      image,
      prediction,
      maps,
      concept,
      kind: state.map,
      opacity: state.opacity ? Number(state.opacity) : 0.65,
      onchange: note,
      onpatch: pickPatch,
      onhoverpatch: (patch) => reasons.link(patch === null ? null : maps.strongestAt(patch)),
    });
    const reasons = contributions({
      prediction,
      head,
      by: state.by || "groups",
      all: state.all === "1",
      of: state.of ?? null,
      minus: state.minus || null,
      picked: concept,
      onpick: pickConcept,
      onhover: hover,
      onchange: note,
    });
    const patch =
      state.patch !== undefined && state.patch !== "" && maps.grid && Number(state.patch) < maps.grid[0] * maps.grid[1]
        ? Number(state.patch)
        : null;
    put(
      story,
      card(
        "Prediction",
        { tools: verdict(prediction) },
        h(
          "div",
          { class: "two" },
          h("div", {}, cautions(prediction), h("p", { class: "sentence" }, capital(prediction.sentence))),
          shares(prediction.classes.map((each) => ({ ...each, said: prediction.predicted.includes(each.name) }))),
        ),
      ),
      h(
        "div",
        { class: "stack" },
        card(
          "Maps",
          {
            note: `${maps.evidence.size ? "Evidence: blue patches add to the concept's logit, striped orange ones take away." : "Brighter patches have larger values."} A map shows where a score comes from, not whether that place shows what the name means.`,
          },
          panel,
        ),
        maps.grid ? card("A patch", {}, patchCard) : null,
      ),
      h(
        "div",
        { class: "stack" },
        prediction.concepts.length === 0
          ? missing(
              "No concepts",
              "This method predicts the class from the whole image. It has no concepts that could explain the class or be corrected.",
            )
          : null,
        prediction.concepts.length === 0
          ? null
          : card(
              "Why",
              {
                note: "The same reasons as in the sentence, in the same order: what sets the class apart from the second likeliest, compared with the average image. Blue speaks for the class, striped orange against it. All bars together make the total.",
              },
              reasons,
            ),
        prediction.concepts.length === 0
          ? null
          : card(
              "Concepts",
              { note: "One line for each concept group. The class is predicted from these alone, unless a bypass is named." },
              readings(prediction, whole.groups, { onpick: pickConcept, onhover: hover }),
            ),
      ),
    );
    shown = { prediction, reasons };
    panel.setPatch(patch);
    pickPatch(patch);
    announce(`${prediction.image.id}: ${prediction.sentence}`);
  }

  shortcut("j", "next image", () => strip.step(1));
  shortcut("k", "previous image", () => strip.step(-1));
  shortcut("m", "next kind of map", () => panel?.nextKind());
  shortcut("/", "filters", () => host.querySelector("#filter-show")?.focus());
  const listed = strip.load();
  head = await asking;
  await Promise.all([listed, start ? show(start) : null]);
  if (!start) await show(strip.first());
  strip.mark(params.image ?? lastImage(run) ?? strip.first());
  strip.look();
  return {};
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** One badge for an image: unlike the training images, or the classes that cannot be excluded. */
function cautions({ cautions: told, unlike_training: unlike }) {
  return told?.length ? h("p", { class: `tag ${unlike ? "warn" : ""}`, title: told.slice(1).join(". ") }, capital(told[0])) : null;
}

function verdict(prediction) {
  const said = prediction.predicted.join(", ") || "none";
  if (!prediction.truth) return h("span", { class: "tag" }, said);
  const truth = prediction.truth.join(", ") || "none";
  return said === truth
    ? h("span", { class: "tag good" }, `✓ right: ${truth}`)
    : h("span", { class: "tag bad" }, `✕ it is ${truth}`);
}
