/** Do maps show what the model used? Insertion, deletion, noise, shuffled weights, hidden parts; from `faithfulness.json`. */
import { rows } from "../../charts/rows.js";
import { h } from "../../dom.js";
import { card } from "../frame.js";
import { fixed, percent, plural } from "../../words.js";
import { MAPS } from "./localization.js";
import { cell, good, line, more, pointAxis, points, table, verdictLine } from "./words.js";
import { ofFaithfulness } from "./verdicts.js";

/** @type {Record<string, string>} */
const ORDERS = { own: "own map", gradcam: "Grad-CAM", center: "from the middle outwards", random: "random order" };
const CHECKS = [
  ["stability", "Alike under slight noise", "near 1, and above that with another image."],
  ["other_image", "Alike to another image's map", "near 0: a map that is the same for every image has not looked."],
  ["randomized", "Alike to the map of shuffled weights", "near 0: the map depends on what was learned."],
  ["random_encoder", "Alike to the map of a random encoder", "near 0: the map depends on what the encoder learned."],
  ["random_head", "Alike to the map of a random concept head", "near 0: the map depends on what the concepts learned."],
  ["agreement", "Own map and Grad-CAM", "high: two ways of looking tell the same."],
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
        "Patches put back and taken away",
        {
          note: `Mean probability of a concept while patches come back (insertion) or go (deletion) in a map's order; ${plural(found.images, "image")}, fill ${found.fill}.`,
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
        good("insertion above, deletion below those of a random order and of one from the middle outwards."),
        more(
          "Against a random order",
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
    { note: "Rank correlations of maps: 1 is the same order of patches, 0 is none." },
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
    "Hide the own part",
    { note: "How far a concept's probability moves when its own part is hidden, and when another part is." },
    rows(
      [
        { name: "own part hidden", marks: [found.own] },
        { name: "another part hidden", marks: [{ ...found.others, kind: 2 }] },
      ],
      { label: "Change of a concept's probability by hidden parts", read: points, axis: pointAxis },
    ),
    h("p", {}, `The own part moves it more than ${percent(found.wins?.value)} of the others; 50% is chance.`),
    good("the own part moves a concept clearly more than others do."),
  );
}
