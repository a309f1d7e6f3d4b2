/** Likely label errors, likeliest first; one click writes the other label into corrections.csv. */
import { h, put } from "../dom.js";
import { card } from "../parts/frame.js";
import { nameField } from "../rater.js";
import { plural } from "../words.js";
import { dataset } from "./api.js";
import { correctLabels, imageLink, thumbnail } from "./image_sheet.js";

const SHOWN = 12;

/** @param {string} run @param {import("./table.js").Table} table @param {(row: number) => void} onpick @param {(rows: Uint32Array) => void} onrows */
export function suspectList(run, table, onpick, onrows) {
  const [list, line, name] = [h("ol", { class: "suspects" }), h("p", { class: "note", role: "status" }), nameField()];
  const more = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => grow() }, "Show more");
  /** @type {any[]} */
  let found = [];
  let shown = 0;

  function grow() {
    for (const suspect of found.slice(shown, shown + SHOWN)) list.append(entry(suspect));
    shown += SHOWN;
    more.hidden = shown >= found.length;
  }

  /** @param {any} suspect of near-duplicates either may be the wrong one: each has its button */
  function entry({ row, of, label, instead, score, why, other }) {
    const told = h("span", { class: "note", role: "status" });
    /** @param {string} words @param {number} which @param {string} to */
    const correction = (words, which, to) => {
      const button = h("button", { type: "button", onclick: save }, words);
      async function save() {
        if (!name.value.trim()) {
          put(told, "Enter your name above first.");
          name.focus();
          return;
        }
        button.disabled = true;
        try {
          put(told, await correctLabels(run, table, which, name.value, [`${of}=${to}`]));
        } catch (error) {
          put(told, /** @type {Error} */ (error).message);
          button.disabled = false;
        }
      }
      return button;
    };
    const pair = why === "duplicate";
    const reason = pair
      ? ["its near-duplicate ", imageLink(run, table, other), ` is labeled ${instead} (similarity ${score.toFixed(2)})`]
      : `the model says ${instead}, with a probability that is ${Math.floor(100 * score)} percentage points higher`;
    return h(
      "li",
      {},
      h("div", { class: "stack tight" }, thumbnail(run, table, row, onpick), pair ? thumbnail(run, table, other, onpick) : null),
      h(
        "div",
        {},
        h("p", {}, imageLink(run, table, row)),
        h("p", { class: "note" }, `${of}: labeled ${label}; `, reason),
        h(
          "p",
          { class: "row" },
          correction(`Correct ${pair ? "this one " : ""}to ${instead}`, row, instead),
          pair ? correction(`Correct the other to ${label}`, other, label) : null,
          told,
        ),
      ),
    ); // prettier-ignore
  }

  const node = card(
    "Likely label errors",
    {
      note: "Labels that the model contradicts with high confidence, and labels that differ from those of a near-duplicate image; the most likely errors come first. A correction is saved in corrections.csv and used by the next training with --data.corrections.",
      tools: name,
    },
    line,
    list,
    more,
  );
  put(line, "Searching…");
  dataset.suspects(run, table.split).then(
    (answer) => {
      found = answer.suspects;
      const rows = [...new Set(found.map((each) => each.row))];
      put(
        line,
        found.length ? `${plural(found.length, "label")} of ${plural(rows.length, "image")}. ` : "No likely error was found.",
        found.length ? h("button", { type: "button", class: "quiet", onclick: () => onrows(Uint32Array.from(rows)) }, "Show these images") : null,
      ); // prettier-ignore
      grow();
    },
    (error) => put(line, error.message),
  );
  return node;
}
