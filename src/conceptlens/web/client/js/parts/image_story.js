/** What the model says of one image and why: the prediction, its maps, a patch, the reasons and the concepts. */
import { here, note } from "../address.js";
import { shares } from "../charts/shares.js";
import { h, put } from "../dom.js";
import { Maps } from "../maps.js";
import { plain } from "../plain.js";
import { contributions } from "./contributions.js";
import { card, missing } from "./frame.js";
import { mapPanel } from "./map_panel.js";
import { patchFacts } from "./patch.js";
import { readings } from "./readings.js";

/** @returns the cards, the panel of maps, the reasons, and `start`, to be called once the cards are on the page */
export function imageStory(/** @type {{run: string, image: any, prediction: Answers.Prediction, head: any, groups: Answers.GroupPart[]}} */ { run, image, prediction, head, groups }) {
  const state = here().params;
  const maps = new Maps(prediction);
  const first = prediction.deciding[0] ?? 0;
  const concept = state.concept !== undefined && prediction.concepts[Number(state.concept)] ? Number(state.concept) : first;
  const patchCard = h("div", {});
  const pickConcept = (/** @type {any} */ k) => {
    note({ concept: k });
    panel.setConcept(k);
    reasons.setPicked(k);
  };
  const hover = (/** @type {any} */ k) => {
    panel.preview(k);
  };
  const pickPatch = (/** @type {number | null} */ patch) => {
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
  const panel = mapPanel({
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
  const nodes = [
    h(
      "div",
      { class: "stack" },
      card(
        "Maps",
        {
          tools: panel.chooser,
        },
        panel,
      ),
      maps.grid ? card("A patch", {}, patchCard) : null,
    ),
    h(
      "div",
      { class: "stack" },
      card(
        "Prediction",
        { tools: verdict(prediction), note: prediction.image.id },
        h(
          "div",
          { class: "two" },
          h("div", {}, cautions(prediction), h("p", { class: "sentence" }, capital(prediction.sentence))),
          shares(prediction.classes.map((each) => ({ ...each, said: prediction.predicted.includes(each.name) }))),
        ),
      ),
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
              note: "The reasons of the sentence above, in the same order. Each bar shows how much a concept moves the decision towards the class and away from the second most likely one, compared with the average image. Blue is for the class, striped orange against it. The bars add up to the total."+ (plain() ? " Ten points multiply the odds by 2.7; seven double them." : ""),
            },
            reasons,
          ),
      prediction.concepts.length === 0
        ? null
        : card(
            "Concepts",
            { note: "One line for each concept group. The class is predicted from these alone, unless a bypass is listed." },
            readings(prediction, groups, { onpick: pickConcept, onhover: hover }),
          ),
    ),
  ];
  const start = () => {
    panel.setPatch(patch);
    pickPatch(patch);
  };
  return { nodes, panel, reasons, start };
}

/** @param {string} text */
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** One badge for an image: unlike the training images, or the classes that cannot be excluded. */
function cautions(/** @type {{cautions: any, unlike_training: any}} */ { cautions: told, unlike_training: unlike }) {
  return told?.length ? h("p", { class: `tag ${unlike ? "warn" : ""}`, title: told.slice(1).join(". ") }, capital(told[0])) : null;
}

/** @param {Answers.Prediction} prediction */
function verdict(prediction) {
  const said = prediction.predicted.join(", ") || "none";
  if (!prediction.truth) return h("span", { class: "tag" }, said);
  const truth = prediction.truth.join(", ") || "none";
  return said === truth
    ? h("span", { class: "tag good" }, `✓ right: ${truth}`)
    : h("span", { class: "tag bad" }, `✕ label: ${truth}`);
}
