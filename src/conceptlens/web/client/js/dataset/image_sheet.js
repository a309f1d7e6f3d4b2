/** One image of the data set: what it is, its nearest neighbors, and its labels to correct. */
import { announce } from "../announce.js";
import { format } from "../address.js";
import { api } from "../api.js";
import { h, put, segment } from "../dom.js";
import { nameField } from "../rater.js";
import { percent } from "../words.js";
import { dataset } from "./api.js";
import { guessOf, probability, truthOf } from "./table.js";

/** A link to an image, by its name. @param {string} run @param {import("./table.js").Table} table @param {number} row */
export const imageLink = (run, table, row) =>
  h("a", { href: format("image", { run, image: `${table.split}/${row}` }) }, table.ids[row]);

/** A small picture that opens an image here. @param {string} run @param {import("./table.js").Table} table @param {number} row @param {(row: number) => void} onpick @param {string} [words] */
export function thumbnail(run, table, row, onpick, words = "") {
  const said = [`Image ${table.ids[row]}`, truthOf(table, row) && `is ${truthOf(table, row)}`, words].filter(Boolean);
  return h(
    "button",
    {
      type: "button",
      class: `thumb ${table.arrays.right?.[row] === 0 ? "wrong" : ""}`,
      title: said.join("\n"),
      "aria-label": said.join(", "),
      onclick: () => onpick(row),
    },
    h("img", { src: api.thumbnail(run, table.split, row), alt: "", loading: "lazy", width: 72, height: 72 }),
  );
}

/**
 * @param {string} run
 * @param {import("./table.js").Table} table
 * @param {number} row
 * @param {{onpick: (row: number) => void, onneighbors: (rows: Uint32Array) => void}} options
 */
export function imageSheet(run, table, row, { onpick, onneighbors }) {
  const near = h("div", {});
  const [truth, guess] = [truthOf(table, row), guessOf(table, row)];
  const { confidence, ood } = table.arrays;

  /** @param {string} by */
  async function showNeighbors(by) {
    put(near, h("p", { class: "note", role: "status" }, "Searching…"));
    try {
      const { rows, similarity } = await dataset.neighbors(run, table.split, row, by);
      put(
        near,
        h("div", { class: "thumbs" }, rows.map((/** @type {number} */ other, /** @type {number} */ place) => thumbnail(run, table, other, onpick, `similarity ${similarity[place].toFixed(2)}`))),
        h("button", { type: "button", class: "quiet", onclick: () => onneighbors(Uint32Array.from([row, ...rows])) }, "Show only these"),
      ); // prettier-ignore
    } catch (error) {
      put(near, h("p", { class: "note" }, /** @type {Error} */ (error).message));
    }
  }

  showNeighbors("concepts");
  return h(
    "section",
    { class: "card image-sheet", "aria-label": `Image ${table.ids[row]}` },
    h("header", {}, h("h2", {}, imageLink(run, table, row))),
    h(
      "div",
      { class: "row top-row" },
      h("img", { src: api.thumbnail(run, table.split, row), alt: `Image ${table.ids[row]}`, width: 120, height: 120 }),
      h(
        "dl",
        { class: "facts" },
        fact("class", truth || "not known"),
        guess ? fact("predicted", `${guess} ${percent(confidence[row], 0)}`) : null,
        ood ? fact("out of distribution", `${ood[row].toFixed(1)} (${ood[row] > (table.bound ?? 0) ? "above" : "below"} the limit of ${table.bound?.toFixed(1)})`) : null,
        Object.entries(table.columns).map(([name, words]) => fact(name, words[table.arrays[`column.${name}`][row]] ?? "–")),
      ),
    ),
    h(
      "div",
      {},
      h("h3", {}, "Nearest images"),
      segment("Nearest by", [["concepts", "by concepts"], ...(table.tokens ? [["tokens", "by tokens"]] : [])], "concepts", showNeighbors),
      near,
    ),
    correctionForm(run, table, row),
  ); // prettier-ignore
}

/** @param {string} name @param {string} value */
const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

/** Labels with what the model says; one that is changed can be saved. @param {string} run @param {import("./table.js").Table} table @param {number} row */
function correctionForm(run, table, row) {
  const [name, told] = [nameField(), h("p", { class: "note", role: "status" })];
  /** @type {Map<string, string>} */
  const edits = new Map();
  const button = h("button", { type: "button", disabled: true, onclick: save }, "Save corrections");
  /** @param {string} of @param {string[]} values @param {string} label @param {string} said */
  const field = (of, values, label, said) => {
    const select = h("select", {
      onchange: () => {
        if (select.value === label) edits.delete(of);
        else edits.set(of, select.value);
        button.disabled = edits.size === 0;
      },
    });
    for (const value of label ? values : ["", ...values])
      select.append(h("option", { value, selected: value === label }, value || "not known", value === said ? " (model)" : ""));
    return h("label", { class: "field" }, of, select);
  }; // prettier-ignore

  async function save() {
    if (!name.value.trim()) {
      put(told, "Enter your name first.");
      name.focus();
      return;
    }
    button.disabled = true;
    try {
      const answer = await correctLabels(run, table, row, name.value, [...edits].map(([of, value]) => `${of}=${value}`)); // prettier-ignore
      put(told, answer);
    } catch (error) {
      put(told, /** @type {Error} */ (error).message);
      button.disabled = false;
    }
  }

  const known = table.task === "multilabel" ? [] : [field("class", table.classes, truthOf(table, row), guessOf(table, row))];
  const groups = () => table.groups.map((group) => group.kind === "exclusive" ? field(group.name, group.values, ...labelsOf(table, row, group)) : group.values.map((_, place) => field(table.concepts[group.start + place], ["no", "yes"], ...labelOf(table, row, group.start + place)))); // prettier-ignore
  const concepts = h("div", { class: "correct-fields" }, known);
  let filled = false;
  const fill = () => {
    if (!filled) for (const each of groups().flat()) concepts.append(each); // hundreds of them, where concepts are independent
    filled = true;
  };
  return h(
    "details",
    { class: "correct", ontoggle: fill },
    h("summary", {}, "Correct its labels"),
    concepts,
    h("div", { class: "row" }, name, button),
    told,
  );
}

/** The label of a group, and what the model says. @param {import("./table.js").Table} table @param {number} row @param {import("./table.js").Group} group @returns {[string, string]} */
function labelsOf(table, row, group) {
  const labels = table.arrays.concept_labels;
  const places = group.values.map((_, place) => group.start + place);
  const label = group.values.find((_, place) => labels[row * table.concepts.length + places[place]] === 1) ?? "";
  const probs = places.map((concept) => probability(table, row, concept));
  return [label, group.values[probs.indexOf(Math.max(...probs))]];
}

/** The label of one concept, and what the model says: yes or no. @param {import("./table.js").Table} table @param {number} row @param {number} concept @returns {[string, string]} */
function labelOf(table, row, concept) {
  const label = table.arrays.concept_labels[row * table.concepts.length + concept];
  return [label < 0 ? "" : label ? "yes" : "no", probability(table, row, concept) >= 0.5 ? "yes" : "no"];
}

/** Save corrections of one image; returns what happened in words. @param {string} run @param {import("./table.js").Table} table @param {number} row @param {string} rater @param {string[]} edits */
export async function correctLabels(run, table, row, rater, edits) {
  const answer = await api.correct(run, { rater: rater.trim(), image: { split: table.split, row }, edits });
  const words = answer.added ? `Saved in ${answer.file}, ${answer.total} in all.` : `Not saved: ${answer.note}.`;
  announce(words);
  return words;
}
