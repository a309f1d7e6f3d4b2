/** Do maps show what the model used? Insertion, deletion, noise, shuffled weights, hidden parts; from `faithfulness.json`. */
import { rows } from "../../charts/rows.js";
import { h } from "../../dom.js";
import { card } from "../frame.js";
import { fixed, percent, plural } from "../../words.js";
import { MAPS } from "./localization.js";
import { cell, good, line, more, pointAxis, points, table, verdictLine } from "./words.js";
import { ofFaithfulness } from "./verdicts.js";

/** @type {Record<string, string>} */
const ORDERS = { own: "own map", gradcam: "Grad-CAM", center: "from the center outwards", random: "random order" };
const CHECKS = [
  ["stability", "Similarity under slight noise", "near 1, and above the similarity to another image's map."],
  ["other_image", "Similarity to another image's map", "near 0. A map that is the same for every image does not depend on the image."],
  ["randomized", "Similarity to the map of shuffled weights", "near 0. The map then depends on what was learned."],
  ["random_encoder", "Similarity to the map of a random encoder", "near 0. The map then depends on what the encoder learned."],
  ["random_head", "Similarity to the map of a random concept head", "near 0. The map then depends on what the concept head learned."],
  ["agreement", "Similarity of own map and Grad-CAM", "high. Two ways of computing a map then agree."],
];

/** @param {any} found */
export function faithfulness(found) {
  const names = Object.keys(ORDERS).filter((key) => found.curves[key]);
  return [
    verdictLine(ofFaithfulness(found)),
    h(
      "div",
      { class: "charts" },
      card(
        "Adding and removing patches",
        {
          note: `Mean probability of a concept while patches are added (insertion) or removed (deletion) in the order of a map; ${plural(found.images, "image")}, fill ${found.fill}.`,
        },
        rows(
          names.map((key) => ({
            name: ORDERS[key],
            marks: [
              { ...found.curves[key].insertion, kind: 0 },
              { ...found.curves[key].deletion, kind: 1 },
            ],
          })),
          { label: "Insertion and deletion", kinds: ["insertion", "deletion"], within: [0, 1] },
        ),
        good("insertion is above, and deletion below, the curves of a random order and of an order from the center outwards."),
        more(
          "Compared with a random order",
          table(
            "Differences to a random order",
            ["Order", "Insertion", "Deletion"],
            Object.entries(found.against_random).map(([key, each]) =>
              line(ORDERS[key] ?? key, cell(each.insertion, points), cell(each.deletion, points)),
            ),
          ),
        ),
      ),
      checks(found),
      occlusion(found.occlusion),
    ),
  ];
}

/** @param {any} found */
function checks(found) {
  const shown = CHECKS.flatMap(([key, name, words]) =>
    Object.entries(found[key] ?? {}).map(([map, estimate]) => ({
      name: key === "agreement" ? name : `${name}: ${MAPS[map] ?? map}`,
      estimate,
      words,
    })),
  );
  if (!shown.length) return null;
  return card(
    "Can the map be believed?",
    { note: "Rank correlations of maps: 1 means the same order of patches, 0 means no relation." },
    h(
      "ul",
      { class: "findings" },
      shown.map(({ name, estimate, words }) =>
        h(
          "li",
          {},
          h("span", { class: "name" }, name),
          h("span", { class: "num" }, fixed(estimate.value)),
          h("span", { class: "good-value" }, `Good: ${words}`),
        ),
      ),
    ),
  );
}

/** @param {any} found */
function occlusion(found) {
  if (!found?.own) return null;
  return card(
    "Hiding the concept's part",
    { note: "How much a concept's probability changes when its own part is hidden, and when another part is hidden." },
    rows(
      [
        { name: "own part hidden", marks: [found.own] },
        { name: "another part hidden", marks: [{ ...found.others, kind: 2 }] },
      ],
      { label: "Change of a concept's probability by hidden parts", read: points, axis: pointAxis },
    ),
    h("p", {}, `Hiding the own part changes it more than hiding ${percent(found.wins?.value)} of the other parts; 50% is chance.`),
    good("hiding the own part changes a concept clearly more than hiding others."),
  );
}
