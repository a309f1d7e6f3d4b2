/** What a study found: the sentence, two plots, the paper's table, agreement, and each rater. */
import { dots } from "../../charts/dots.js";
import { h, scrolling } from "../../dom.js";
import { pictureEntries, saveJSON, saveText } from "../../download.js";
import { card } from "../frame.js";
import { known, percent, plural } from "../../words.js";

/** @param {number} value */
const two = (value) => (known(value) ? value.toFixed(2) : "–");
/** @param {any} each */
const span = (each) => (known(each?.low) && known(each?.high) ? [each.low, each.high] : null);

/** @param {{analysis: any, table: any}} told */
export function result({ analysis, table }) {
  const found = analysis.result;
  return h(
    "div",
    { class: "stack study-result" },
    card(
      `${analysis.method} on ${analysis.data}`,
      {
        note: `Maps: ${analysis.map}. Control: ${analysis.control}. Intervals are 95%, over images. The study is closed: no more answers are taken.`,
      },
      h("p", { class: "sentence" }, sentence(found), leftOut(analysis.raters)),
      h("div", { class: "study-plots" }, ratings(found), choices(found)),
      h("p", { class: "note" }, chance(found.likert)),
    ),
    card(
      "The table",
      { note: "As Table 6 of the IVQ-CBM paper, with the control, chance and agreement beside it." },
      grid("Table of the study", table.head, table.rows),
    ),
    card(
      "Do raters agree?",
      { note: "Kappa: 1 is full agreement, 0 is chance. Ratings with quadratic weights; the mean over pairs, then each pair." },
      grid("Agreement", ["", "κ", "95%", "κ, linear weights", "Krippendorff's α"], agreement(found)),
    ),
    card(
      "Each rater",
      { note: "Raters who failed the attention checks are left out of the result. The way they rate the maps is never a reason for that." },
      grid("Raters one by one", RATER, analysis.raters.map(raterRow)),
    ),
  );
}

/** @param {any} found */
function sentence(found) {
  const { likert, choice } = found;
  if (!known(likert.true.value)) return "There are no ratings.";
  const told = [`${plural(found.raters.length, "rater")} gave the maps ${two(likert.true.value)} of 5`];
  if (known(likert.shuffled.value)) told.push(`and shuffled ones ${two(likert.shuffled.value)}`);
  const named = known(choice.value)
    ? ` They named the feature of ${percent(choice.value, 0)} of maps${known(found.chance) ? `; guessing would give ${percent(found.chance, 0)}` : ""}.`
    : "";
  return `${told.join(", ")}.${named}`;
}

/** @param {any[]} raters */
function leftOut(raters) {
  const out = raters.filter((each) => !each.passed).map((each) => each.rater);
  return out.length ? ` Not counted, because they failed the attention checks: ${out.join(", ")}.` : "";
}

/** @param {any} likert */
function chance(likert) {
  const told = [];
  if (known(likert.p)) told.push(`Permutation test of true against shuffled maps: p = ${likert.p.toFixed(4)}.`);
  if (known(likert.above)) told.push(`A true map is rated above a shuffled one with probability ${percent(likert.above, 0)}; 50% is chance.`);
  return told.join(" ");
}

/** @param {string} name @param {any} each */
const row = (name, each) => (known(each?.value) ? { name, value: each.value, interval: span(each) } : null);

function ratings(/** @type {{likert: any}} */ { likert }) {
  const rows = [row("own maps", likert.true), row("shuffled maps", likert.shuffled)].filter(Boolean);
  const read = (/** @type {number} */ value, digits = 2) => value.toFixed(digits);
  return plot("ratings", "Mean rating, 1 to 5", rows, { read, domain: [1, 5] });
}

function choices(/** @type {{choice: any, choice_shuffled: any, chance: any}} */ { choice, choice_shuffled: shuffled, chance: guess }) {
  const guessed = known(guess) ? { name: "guessing", value: guess, interval: null } : null;
  const rows = [row("own maps", choice), row("shuffled maps", shuffled), guessed].filter(Boolean);
  return plot("choices", "Features named correctly", rows, { read: (/** @type {number | null | undefined} */ value) => percent(value, 0), domain: [0, 1] });
}

/** @param {string} name @param {string} title @param {any[]} rows @param {any} options */
function plot(name, title, rows, options) {
  return h(
    "figure",
    { "data-plot": name },
    h("figcaption", {}, title),
    rows.length ? dots(rows, { label: title, ...options }) : h("p", { class: "note" }, "No answers."),
  );
}

/** A number, and its interval under it. @param {string} text */
function cell(text) {
  const [, value, interval] = text.match(/^(.*) (\[[-\d.%, ]+\])$/) ?? [null, text, null];
  return h("td", {}, value, interval ? h("span", { class: "note between" }, interval) : null);
}

/** @param {string} label @param {any[]} head @param {any[]} rows */
function grid(label, head, rows) {
  return scrolling(
    label,
    {},
    h(
      "table",
      { class: "study-table" },
      h("thead", {}, h("tr", {}, head.map((name) => (name ? h("th", { scope: "col" }, name) : h("td", {}))))),
      h(
        "tbody",
        {},
        rows.map((cells) => h("tr", {}, h("th", { scope: "row" }, cells[0]), cells.slice(1).map(cell))),
      ),
    ),
  );
}

/** @param {any} found */
function agreement(found) {
  return [
    ["ratings", found.likert_agreement],
    ["choices", found.choice_agreement],
  ].flatMap(([name, each]) => [
    [
      name,
      two(each.kappa),
      span(each) ? `${two(each.low)} to ${two(each.high)}` : "–",
      two(each.linear_kappa),
      two(each.alpha),
    ],
    ...Object.entries(each.pairs).map(([pair, value]) => [`${name}: ${pair}`, two(value), "–", "–", "–"]),
  ]);
}

const RATER = ["Rater", "Answered", "Own maps", "Shuffled", "Choices right", "Known, not guessed", "Attention", "Median time", "Counted", "Comment"];

/** @param {any} each */
const raterRow = (each) => [
  each.rater,
  `${each.answered} of ${each.of}`,
  two(each.true),
  two(each.shuffled),
  known(each.choice.value) ? `${percent(each.choice.value, 0)} (${each.choice.right}/${each.choice.n})` : "–",
  percent(each.skill, 0),
  each.checks,
  known(each.median_ms) ? `${(each.median_ms / 1000).toFixed(1)} s` : "–",
  each.passed ? "yes" : `no: ${each.why_not.join("; ")}`,
  each.comment || "–",
];

/** What of a result can be taken home. @param {any} told @param {HTMLElement} host @param {string} name @param {string} page */
export function resultDownloads(told, host, name, page) {
  const svg = (/** @type {string} */ which) => () => host.querySelector(`[data-plot="${which}"] svg`);
  return [
    ["Analysis (JSON)", () => saveJSON(told.analysis, `${name}-analysis`)],
    ["Table (Markdown)", () => saveText(told.table.markdown, `${name}-table.md`, "text/markdown")],
    ["Result as a page (HTML)", () => h("a", { href: page, download: `${name}-analysis.html` }).click()],
    ...pictureEntries("Ratings", svg("ratings"), `${name}-ratings`),
    ...pictureEntries("Choices", svg("choices"), `${name}-choices`),
  ];
}
