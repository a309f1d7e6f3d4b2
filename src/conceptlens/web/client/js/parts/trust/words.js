/** How the numbers of trust are written: a value with its interval, what a good one is, a verdict. */
import { h, scrolling } from "../../dom.js";
import { inWords } from "../../plain.js";
import { fixed, known, percent, signed } from "../../words.js";

/** A change of a share, in points of percent. @param {number} value */
export const points = (value, digits = 1) => (known(value) ? `${signed(100 * value, digits)} pt` : "–");

/** The same on an axis. @param {number} value */
export const pointAxis = (value) => `${value > 0 ? "+" : ""}${Number((100 * value).toPrecision(3))}`.replace("-", "−");

/** "92.1% (90.0% to 94.2%)" @param {any} estimate */
export function reading(estimate, read = percent) {
  if (!known(estimate?.value)) return "–";
  const [low, high] = estimate.interval ?? [];
  return `${read(estimate.value)}${known(low) ? ` (${read(low)} to ${read(high)})` : ""}`;
}

/** The same as a cell of a table, the interval smaller. @param {any} estimate @param {(value: any) => string} [read] */
export function cell(estimate, read = percent) {
  const [low, high] = estimate?.interval ?? [];
  return h(
    "td",
    { class: "num" },
    known(estimate?.value) ? read(estimate.value) : "–",
    known(low) ? h("small", {}, ` ${read(low)} to ${read(high)}`) : null,
  );
}

/** What a good value is: one sentence under a figure. @param {...any} words */
export const good = (...words) => h("p", { class: "good-value" }, h("b", {}, "Good: "), ...words);

/** @type {Record<string, string>} */
const MARKS = { good: "✓ ", look: "? ", bad: "! ", plain: "", none: "? " };
/** @type {Record<string, string>} */
const SAYS = { good: "passed", look: "look closer", bad: "finding", plain: "measured", none: "not measured" };

/** A verdict: by color, by sign and in words. @param {string} verdict */
export const verdictTag = (verdict, words = SAYS[verdict]) =>
  h(
    "span",
    { class: `tag ${verdict === "good" ? "good" : verdict === "bad" ? "bad" : verdict === "look" ? "warn" : ""}` },
    `${MARKS[verdict] ?? ""}${words}`,
  );

/** A verdict and what it rests on, before everything else. @param {any} words */
export const verdictLine = (/** @type {import("./verdicts.js").Verdict} */ { verdict, says, means }, /** @type {string | undefined} */ words = undefined) =>
  h("p", { class: `verdict-line is-${verdict}` }, verdictTag(verdict, words), h("span", {}, verdictWords(means, says)));

/** What a verdict means, then the measures that it rests on. @param {string | undefined} means @param {string} says */
export const verdictWords = (means, says) => (means ? [means, h("small", { class: "measured" }, inWords(says))] : inWords(says));

/** A table that may be wider than the screen; heads stand over numbers, or as [head] over words. @param {string} label @param {any[]} head @param {any[]} body */
export function table(label, head, body) {
  return scrolling(
    label,
    {},
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((each, place) =>
            h("th", { scope: "col", class: place && !Array.isArray(each) ? "num" : null }, each),
          ),
        ),
      ),
      h("tbody", {}, body),
    ),
  );
}

/** @param {any} name @param {...any} cells */
export const line = (name, ...cells) => h("tr", {}, h("th", { scope: "row" }, name), cells);

/** What only some will want to see. @param {string} title @param {...any} children */
export const more = (title, ...children) => h("details", { class: "more-numbers" }, h("summary", {}, title), children);

/** Three or four large numbers. @param {any} entries */
export const facts = (entries) =>
  h(
    "dl",
    { class: "stats" },
    entries.map((/** @type {any} */ [name, value, about]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value), about ? h("dd", { class: "note" }, about) : null),
    ),
  );

/** @param {number | null | undefined} value */
export const p = (value) => (known(value) ? (value < 0.001 ? "< 0.001" : fixed(value)) : "–");
