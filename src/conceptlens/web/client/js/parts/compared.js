/** One block of a comparison as a table, and the tests behind it. Rows of different blocks never share a table. */
import { format } from "../address.js";
import { tableHead, h, scrolling } from "../dom.js";
import { known, percent, short } from "../words.js";

export const COLUMNS = [
  ["class.accuracy", "Accuracy"],
  ["class.balanced_accuracy", "Balanced acc."],
  ["class.macro_auc", "AUC"],
  ["concept.balanced_accuracy", "Concept bal. acc."],
  ["concept.auc", "Concept AUC"],
  ["concept.auc_within_class", "within a class"],
];
const NUMBERS = [
  ["rank.effective", "Effective rank"],
  ["effective_concepts", "Effective concepts"],
  ["seconds", "Seconds"],
];
/** @type {Record<string, string>} */
export const TOLD = {
  text: "Supervision: texts of the concepts.",
  "class-table": "Supervision: a class table.",
  "image-labels": "Supervision: concept labels of each training image.",
  "class-labels": "No supervision of concepts.",
};

/** @param {number} value */
const bare = (value) => (known(value) ? (100 * value).toFixed(1) : "–");
/** @param {any[]} columns @param {any[]} rows @param {string} part */
const shown = (columns, rows, part) => columns.filter(([key]) => rows.some((row) => row[part][key]));

/**
 * @param {any} block
 * @param {{name: string, primary: string, rows: any[], all: any[]}} options `all`: rows of all blocks, which share columns
 */
export function blockTable(block, { name, primary, rows, all }) {
  const measures = shown(COLUMNS, all, "measures");
  const numbers = shown(NUMBERS, all, "numbers");
  const title = COLUMNS.find(([key]) => key === primary)?.[1] ?? primary;
  return scrolling(
    `Table: ${name}`,
    {},
    h(
      "table",
      { class: "compared" },
      tableHead(["Method", `Verdict (${title})`], ["Trainings", ...[...measures, ...numbers].map(([, column]) => column)]),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            { class: row.control_of ? "control" : null },
            h("th", { scope: "row" }, rowName(row)),
            verdict(block.verdicts[row.name]),
            h("td", { class: "num" }, trainings(row)),
            measures.map(([key]) => measured(row.measures[key], block.best[key] === row.name)),
            numbers.map(([key]) => counted(row.numbers[key])),
          ),
        ),
      ),
    ),
  );
}

/** @param {any} row */
function rowName(row) {
  const link = h("a", { href: format("methods", { method: row.method }), title: `What is ${row.method}?` }, row.name);
  return [
    row.control_of ? ["↳ ", link] : link,
    row.bypass ? h("span", { class: "tag warn" }, `bypass: ${row.bypass}`) : null,
  ];
}

/** In words, as the comparison found it; it stands in front, where it is seen. @param {string} words */
const verdict = (words) => h("td", { class: words === "best" ? "verdict-cell best" : "verdict-cell" }, words ?? "–");

/** How often it was trained; each training that is served can be opened. @param {any} row */
function trainings(row) {
  if (!row.runs.length) return row.trainings;
  return h(
    "span",
    { class: "trainings" },
    row.runs.map((/** @type {string} */ run, /** @type {number} */ place) =>
      h(
        "a",
        { href: format("image", { run }), "aria-label": `Training ${place + 1} of ${row.name}`, title: run },
        place + 1,
      ),
    ),
  );
}

/** @param {any} found @param {boolean} best */
function measured(found, best) {
  if (!found) return h("td", { class: "num" }, "–");
  return h(
    "td",
    { class: `num ${best ? "best" : ""}` },
    bare(found.mean),
    best ? h("span", { class: "hidden" }, " (best of its block)") : null,
    found.interval
      ? h("small", {}, `${bare(found.interval[0])} to ${bare(found.interval[1])}`)
      : found.by_training.length > 1
        ? null
        : h("small", {}, "one training"),
  );
}

/** @param {any} found */
function counted(found) {
  if (!found) return h("td", { class: "num" }, "–");
  const digits = found.mean >= 100 ? 0 : 1;
  return h(
    "td",
    { class: "num" },
    found.mean.toFixed(digits),
    found.sd ? h("small", {}, `± ${found.sd.toFixed(digits)}`) : null,
  );
}

/** Every pair of a block on one measure, with both tests. @param {any} block @param {any} measure @param {string} name */
export function pairsTable(block, measure, name) {
  const pairs = [...block.comparisons, ...block.controls].filter((each) => each.measure === measure);
  if (!pairs.length) return null;
  const p = (/** @type {number} */ value) => (known(value) ? (value < 0.001 ? "< 0.001" : value.toFixed(3)) : "–");
  return h(
    "details",
    { class: "pairs" },
    h("summary", {}, `The tests: ${pairs.length} ${pairs.length === 1 ? "pair" : "pairs"}`),
    scrolling(
      `Pairs: ${name}`,
      {},
      h(
        "table",
        { class: "compared" },
        tableHead(["Pair"], ["Difference", "p by images", "p by seeds", "p, corrected", "Smallest detectable"]),
        h(
          "tbody",
          {},
          pairs.map((each) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, `${each.first} − ${each.second}`),
              h(
                "td",
                { class: `num ${each.different ? "best" : ""}` },
                known(each.difference) ? (100 * each.difference).toFixed(1).replace("-", "−") : "–",
                each.interval ? h("small", {}, `${bare(each.interval[0])} to ${bare(each.interval[1])}`) : null,
              ),
              [each.p_images, each.p_seeds, each.p].map((value) => h("td", { class: "num" }, p(value))),
              h("td", { class: "num" }, bare(each.detectable)),
            ),
          ),
        ),
      ),
    ),
  );
}

/** What an encoder knew before any training: it stands above the table. @param {any} before */
export function zeroShot(before) {
  const within = known(before.auc_within_class) ? ` (${percent(before.auc_within_class)} within a class)` : "";
  return h(
    "p",
    { class: "zero-shot" },
    `Before any training, ${before.encoder} with ${before.text} predicts concepts with an AUC of `,
    h("b", {}, percent(before.auc)),
    `${within}. A method that is no better has learned nothing about concepts.`,
  );
}

/** @param {any} data */
export const facts = (data) =>
  `${short(data.images).replace(/\.0+$/, "")} test images${data.units === data.images ? "" : ` of ${data.units} units (patients, lesions)`}, ${data.classes} classes.`;
