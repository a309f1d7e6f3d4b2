/** The images that fit, counted: by class and prediction, by concept. A click on a count shows its images. */
import { h, scrolling, tableHead } from "../dom.js";
import { card } from "../parts/frame.js";
import { count } from "../words.js";
import { conceptCounts, confusedPairs, confusion } from "./filter.js";

const MOST = 40; // classes of a matrix that can be read
const PAIRS = 30;

/**
 * @param {import("./table.js").Table} table
 * @param {Uint8Array} fits
 * @param {(changes: Record<string, string>) => void} onfilter
 */
export function overview(table, fits, onfilter) {
  return h(
    "div",
    { class: "dataset-overview" },
    table.arrays.guess &&
      table.arrays.label &&
      (table.classes.length <= MOST ? matrix : pairs)(table, fits, onfilter),
    table.arrays.concept_probs ? bars(table, fits, onfilter) : null,
  );
}

/** @param {import("./table.js").Table} table @param {Uint8Array} fits @param {(changes: Record<string, string>) => void} onfilter */
function matrix(table, fits, onfilter) {
  const { classes } = table;
  const counts = confusion(table, fits);
  const rows = classes.map((truth, row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, truth),
      classes.map((guess, column) => {
        const number = counts[row * classes.length + column];
        const words = `${truth} predicted as ${guess}: ${count(number)}`;
        return h(
          "td",
          { class: `num ${row === column ? "same" : number ? "other" : ""}` },
          number
            ? h("button", { type: "button", class: "plain", "aria-label": words, onclick: () => onfilter({ truth, guess }) }, count(number))
            : h("span", { class: "note" }, "0"),
        );
      }),
    ),
  ); // prettier-ignore
  return card(
    "Classes",
    { note: "Rows are true classes, columns predictions. Click a number to see its images." },
    scrolling("Confusion matrix", {}, h("table", { class: "confusion" }, tableHead(["true class"], classes), h("tbody", {}, rows))),
  ); // prettier-ignore
}

/** The confusions of many classes: the pairs that are taken for one another most often. @param {import("./table.js").Table} table @param {Uint8Array} fits @param {(changes: Record<string, string>) => void} onfilter */
function pairs(table, fits, onfilter) {
  const { classes } = table;
  const found = confusedPairs(table, fits).slice(0, PAIRS);
  return card(
    "Classes",
    { note: "The classes that are confused most often. Click a number to see its images." },
    found.length
      ? scrolling("Confused classes", {}, h("table", { class: "confusion" }, tableHead(["true class", "predicted"], ["images"]), h("tbody", {}, found.map(([truth, guess, number]) => h("tr", {}, h("th", { scope: "row" }, classes[truth]), h("td", {}, classes[guess]), h("td", { class: "num other" }, h("button", { type: "button", class: "plain", "aria-label": `${classes[truth]} predicted as ${classes[guess]}: ${count(number)}`, onclick: () => onfilter({ truth: classes[truth], guess: classes[guess] }) }, count(number))))))))
      : h("p", { class: "note" }, "No class is confused with another."),
  );
} // prettier-ignore

/** @param {import("./table.js").Table} table @param {Uint8Array} fits @param {(changes: Record<string, string>) => void} onfilter */
function bars(table, fits, onfilter) {
  const counts = conceptCounts(table, fits);
  const most = Math.max(...counts, 1);
  return card(
    "Concepts",
    { note: "In how many of these images the model finds each concept. Click a bar to see them." },
    h(
      "ul",
      { class: "concept-bars" },
      table.concepts.map((name, concept) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "plain", "aria-label": `${name}: ${count(counts[concept])}`, onclick: () => onfilter({ concept: name }) },
            h("span", { class: "label" }, name),
            h("i", { style: { width: `${(100 * counts[concept]) / most}%` } }),
            h("span", { class: "num" }, count(counts[concept])),
          ),
        ),
      ),
    ),
  ); // prettier-ignore
}
