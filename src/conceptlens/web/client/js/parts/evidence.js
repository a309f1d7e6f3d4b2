/** Evidence in words: what patches add to a concept's logit or take away, and what has no place. */
import { h } from "../dom.js";
import { amount, plain, unit } from "../plain.js";
import { percent } from "../words.js";

export const PLACELESS = "No map: this value says that something is absent, and an absence has no position in the image.";

/** How a concept's map and what has no place make its logit. @param {Answers.Prediction} prediction @param {any} k */
export function sumWords(prediction, k) {
  const [logit, unplaced] = [prediction.concepts[k].score, /** @type {number[]} */ (prediction.maps.unplaced)[k]];
  const total = logit - unplaced;
  const share = Math.abs(unplaced) / (Math.abs(total) + Math.abs(unplaced) || 1);
  const [placed, whole] = [total, logit].map((value) => amount(value).replace("+", ""));
  const rest = `${unplaced < 0 ? "−" : "+"} ${amount(Math.abs(unplaced)).replace("+", "")} (not placed, ${percent(share, 0)})`;
  return `Sum of the map ${placed} ${rest} = ${plain() ? `${whole} points` : `logit ${whole}`}.`;
}

/** How to read a kind of map; what it shows is said only of maps that passed their test. @param {string} kind @param {{captions?: Record<string, string>, failed?: Record<string, string>}} tests */
export function howToRead(kind, { captions = {}, failed = {} }) {
  if (kind === "none" || kind === "index") return "";
  const look =
    kind === "evidence"
      ? `Evidence: ${kind in failed ? "plain" : "blue"} patches add to the concept's ${plain() ? "points" : "logit"}, striped ${kind in failed ? "" : "orange "}ones subtract.`
      : "Brighter patches have larger values.";
  if (kind in failed) return `${look} This kind of map did not pass its test for this model. Do not read it as a reason.`;
  if (kind in captions) return `${look} This kind of map was not tested for this model.`;
  return `${look} A map shows where a score comes from, not whether that place shows what the name means.`;
}

/** The largest amount of a map, on either side of 0. @param {Float32Array} values */
export const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/** An amount in logits, with two digits that count. @param {number} value */
export function logits(value, most = Math.abs(value)) {
  const digits = most > 0 ? Math.min(5, Math.max(2, 1 - Math.floor(Math.log10(most)))) : 2;
  return amount(value, digits);
}

/** The concepts to which a patch adds most, and those from which it takes most. @param {any} maps @param {Answers.Prediction} prediction @param {any} patch @param {number} count */
function movedBy(maps, prediction, patch, count) {
  const found = prediction.concepts
    .map((each) => ({ each, value: maps.of("evidence", each.index)?.[patch] ?? 0 }))
    .sort((a, b) => b.value - a.value);
  return {
    adds: found.filter(({ value }) => value > 0).slice(0, count),
    takes: found
      .filter(({ value }) => value < 0)
      .reverse()
      .slice(0, count),
  };
}

/** The same as two lines for the tip of a patch. @param {any} maps @param {Answers.Prediction} prediction @param {any} patch */
export function movedWords(maps, prediction, patch) {
  const { adds, takes } = movedBy(maps, prediction, patch, 2);
  const list = (/** @type {any[]} */ rows) => rows.map((/** @type {{each: any, value: any}} */ { each, value }) => `${each.name} ${logits(value)}`).join(", ");
  return [adds.length ? `adds most to ${list(adds)}` : "", takes.length ? `subtracts most from ${list(takes)}` : ""].filter(
    Boolean,
  );
}

/** The same as chips that pick a concept. @param {any} maps @param {Answers.Prediction} prediction @param {number} patch @param {any} onconcept */
export function movedChips(maps, prediction, patch, onconcept) {
  const { adds, takes } = movedBy(maps, prediction, patch, 4);
  const chips = (/** @type {string} */ title, /** @type {any[]} */ rows) =>
    rows.length
      ? [
          h("h3", {}, title),
          h(
            "ul",
            { class: "chips" },
            rows.map((/** @type {{each: any, value: any}} */ { each, value }) =>
              h(
                "li",
                {},
                h(
                  "button",
                  { type: "button", class: "chip", onclick: () => onconcept(each.index) },
                  each.name,
                  h("span", { class: "note" }, ` ${logits(value)} ${unit()}`),
                ),
              ),
            ),
          ),
        ]
      : null;
  return [chips("Concepts to which this patch adds most", adds), chips("Concepts from which it subtracts most", takes)];
}
