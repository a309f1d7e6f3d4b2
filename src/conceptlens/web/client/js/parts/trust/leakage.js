/** Leakage: do scores carry class information beyond the concept labels? From `trust/leakage.json`. */
import { curves } from "../../charts/curves.js";
import { rows } from "../../charts/rows.js";
import { h } from "../../dom.js";
import { card } from "../frame.js";
import { natsNumber, natsUnit } from "../../plain.js";
import { count, fixed, known } from "../../words.js";
import { cell, good, line, more, p, reading, table, verdictLine, verdictTag } from "./words.js";
import { ofLeakage } from "./verdicts.js";

const SHOWN = 12; // concepts in the figure
const CEILING = "class from true labels (ceiling)";
/** @type {Record<string, string>} */
const WORDS = { bad: "leakage", good: "no leakage found", plain: "no test possible" };

/** @param {any} found */
export function leakage(found) {
  const said = ofLeakage(found);
  return [
    verdictLine(said, WORDS[said.verdict]),
    h("div", { class: "charts" }, accuracies(found), concepts(found), sparse(found)),
    card(
      "Every measure",
      {
        note: `${count(found.images)} ${found.split} images; shares from 0 to 1, with 95% intervals. Every probe is tested on images that it was not trained on.${found.permutations ? ` Permuted: the run's own scores, permuted among images with equal labels ${found.permutations} times.` : ""}`,
      },
      measures(found.findings),
    ),
  ];
}

/** @param {any[]} findings */
function measures(findings) {
  return h(
    "ul",
    { class: "findings" },
    findings.map((each) =>
      h(
        "li",
        { class: each.name.startsWith(" ") ? "inner" : null },
        h("span", { class: "name" }, each.name.trim()),
        h("span", { class: "num" }, reading(each.estimate, fixed)),
        h("span", { class: "mark" }, each.verdict ? verdictTag(each.verdict) : null),
        h("span", { class: "good-value" }, h("b", {}, "Good: "), lower(each.good)),
        each.chance
          ? h("span", { class: "note" }, `Permuted: ${reading(each.chance.permuted, fixed)}, p = ${p(each.chance.adjusted)}.`)
          : null,
      ),
    ),
  );
}

/** @param {string} text */
const lower = (text) => text.charAt(0).toLowerCase() + text.slice(1);

/** @param {any} found */
function accuracies(found) {
  const shown = found.findings.filter(
    (/** @type {any} */ each) => /^\s*(accuracy|class from|of a bottleneck)/.test(each.name) && !each.name.includes(", less"),
  );
  const ceiling = found.findings.find((/** @type {any} */ each) => each.name === CEILING)?.estimate.value;
  return card(
    "Accuracies beside the ceiling",
    { note: "The accuracy of the model and of small probes, with the scores as they are and with changed scores." },
    rows(
      shown.map((/** @type {any} */ each) => ({ name: each.name.trim(), marks: [each.estimate] })),
      {
        label: "Accuracies of leakage tests",
        bounds: [
          { name: "label → class ceiling", value: ceiling },
          { name: "chance", value: found.chance, faint: true },
        ],
        within: [0, 1],
        read: fixed,
        axis: (value) => `${Number(value.toPrecision(3))}`,
      },
    ),
    good(
      "soft scores are not to the right of the ceiling, shuffled scores are at chance, and with half of the concepts wrong the accuracy is as low as with labels alone.",
    ),
  );
}

/** @param {any} found */
function concepts(found) {
  const order = [...found.concepts].filter((each) => known(each.beyond_label.value));
  order.sort((a, b) => b.beyond_label.value - a.beyond_label.value);
  if (!order.length) return null;
  return card(
    "Concepts with most information beyond their label",
    { note: `Class information of a score among images with the same label, in ${natsUnit()}.` },
    rows(
      order
        .slice(0, SHOWN)
        .map((each) => ({ name: each.concept, marks: [each.beyond_label], range: each.chance?.permuted.interval })),
      {
        label: "Information about the class beyond the own label",
        bounds: [{ name: "nothing", value: 0, faint: true }],
        range: order.some((each) => each.chance) ? "permuted scores" : null,
        read: natsNumber,
        axis: natsNumber,
      },
    ),
    good("0, or within the gray bar. Among images with the same label, the score should not separate the classes."),
    more(
      `All ${order.length} concepts`,
      table(
        "Information of every concept",
        ["Concept", "Score", "Label", "Beyond label"],
        order.map((each) =>
          line(each.concept, cell(each.score, natsNumber), cell(each.label, natsNumber), cell(each.beyond_label, natsNumber)),
        ),
      ),
    ),
  );
}

function sparse(/** @type {{effective: any, findings: any}} */ { effective, findings }) {
  const path = Object.entries(effective.path)
    .map(([nec, estimate]) => [Number(nec), estimate.value, estimate.interval])
    .sort((a, b) => a[0] - b[0]);
  const random = findings.find((/** @type {any} */ each) => each.name === "accuracy of random mixtures at NEC 5")?.estimate;
  if (!path.length)
    return effective.why ? card("With few concepts", {}, h("p", { class: "note" }, effective.why)) : null;
  return card(
    "With few concepts",
    { note: "Accuracy of a new class head that may use only this many concepts for a class (NEC)." },
    curves([{ name: "sparse heads", place: 0, points: path }], {
      label: "Accuracy against concepts used",
      x: "concepts for a class",
      bounds: [
        { name: "full head", value: effective.full.value },
        { name: "own head pruned to 5", value: effective.pruned?.value, faint: true, dash: "10 3 2 3" },
        { name: "random mixtures at 5", value: random?.value, faint: true },
      ],
      read: fixed,
    }),
    good("close to the full head from the start. Then few concepts decide, and random mixtures are far less accurate."),
  );
}
