/** What the commands of a study wrote besides: an edit, a search, masking by judges, pairs. */
import { lines } from "../charts/lines.js";
import { h, scrolling, tableHead } from "../dom.js";
import { source } from "../studio.js";
import { fixed, percent, plural, signed } from "../words.js";
import { card } from "./frame.js";

/** @param {any} about @param {string} name @param {any} alt */
const sheet = (about, name, alt) =>
  about.pictures[name] ? h("img", { src: source(about.pictures[name]), alt, class: "sheet", loading: "lazy" }) : null;

/** @param {string} label @param {string[]} heads @param {any[]} rows */
const table = (label, heads, rows) =>
  scrolling(
    label,
    {},
    h(
      "table",
      {},
      tableHead(heads),
      h(
        "tbody",
        {},
        rows.map((/** @type {any} */ row) =>
          h(
            "tr",
            {},
            row.map((/** @type {any} */ value) => h("td", {}, value)),
          ),
        ),
      ),
    ),
  );

/** @param {any} about @param {any} found */
function edit(about, found) {
  return card(
    `The written edit, towards ${found.target}`,
    {
      note: `${fixed(found.probability_before)} → ${fixed(found.probability_after)} by the extractor; ${plural(found.changed.length, "token")} of ${found.region.length} changed.`,
    },
    sheet(about, "edit", `Before, along the way, after: an edit towards ${found.target}`),
    lines([{ name: found.target, points: found.path.map((/** @type {any} */ each) => [each.step, each.probability]) }], {
      label: `Probability of ${found.target} along the edit`,
      x: "step",
      height: 180,
      read: percent,
      domain: [0, 1],
    }),
    (found.judges ?? []).map((/** @type {any} */ each) =>
      h("p", { class: "note" }, `Judge ${each.judge}: ${fixed(each.before)} → ${fixed(each.after)}`),
    ),
  );
}

/** @param {any} about @param {any} found */
function search(about, found) {
  const points = (/** @type {any[]} */ path) => path.map((/** @type {any} */ value, /** @type {number} */ place) => [found.steps[place], value]);
  return card(
    `Tokens that could make ${found.concept}`,
    {
      note: `Searched in the whole codebook. Most chosen: ${found.chosen
        .slice(0, 10)
        .map((/** @type {any} */ each) => `${each.token} (${each.count}×)`)
        .join(", ")}.`,
    },
    sheet(about, "search", `Images before and after the search for ${found.concept}`),
    lines(
      found.path.slice(0, 8).map((/** @type {any[]} */ path, /** @type {number} */ place) => ({ name: `search ${place + 1}`, points: points(path) })),
      { label: `Probability of ${found.concept}`, x: "step", height: 180, read: percent, domain: [0, 1] },
    ),
  );
}

/** @param {any} about @param {any} found */
function masking(about, found) {
  const points = (/** @type {any} */ curve, /** @type {string} */ kind) => curve.counts.map((/** @type {number} */ count, /** @type {number} */ place) => [count, curve[kind][place]]);
  return card(
    "Do these tokens matter to independent judges?",
    {
      note: `Independent judges look at ${plural(found.images, "image")} while tokens are hidden (${found.fill}). Important tokens should hurt more than random ones: the lower their line, the better the explanation.`,
    },
    lines(
      found.curves.slice(0, 8).map((/** @type {any} */ curve) => ({
        name: `${curve.order}, ${short(curve.judge)}`,
        points: points(curve, "deletion"),
      })),
      { label: "Mean probability as tokens are hidden", x: "tokens hidden", height: 220, read: percent },
    ),
    table(
      "Judges' predictions with hidden tokens",
      ["Judge", "Hidden", "Tokens an image", "Accuracy", "Change", "Probability", "Change"],
      found.sets.map((/** @type {any} */ row) => [
        short(row.judge),
        row.tokens,
        row.hidden.toFixed(1),
        fixed(row.accuracy),
        signed(row.accuracy_change, 3),
        fixed(row.probability),
        signed(row.probability_change, 3),
      ]),
    ),
  );
}

/** @param {any} about @param {any} found */
function pairs(about, found) {
  return card(
    "Edited into each other",
    {
      note: "Images of one concept are edited towards its partner and judged by independent classifiers: the original should fall and the target rise.",
    },
    table(
      "Judges' predictions after edits",
      ["Judge", "How", "Original", "Change", "Target", "Change", "Images"],
      found.rows.map((/** @type {any} */ row) => [
        short(row.judge),
        row.method,
        fixed(row.original),
        signed(row.original_change, 3),
        fixed(row.target),
        signed(row.target_change, 3),
        String(row.images),
      ]),
    ),
  );
}

/** The last part of a path. @param {string} path */
const short = (path) => String(path).split("/").filter(Boolean).pop() ?? String(path);

export const WRITTEN = { edit, search, masking, pairs };
