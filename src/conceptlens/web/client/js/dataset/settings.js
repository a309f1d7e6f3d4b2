/**
 * What of the data set is shown: read from the address, changed by the controls. Names of measures and classes are as
 * the table has them; what the table does not have is forgotten.
 * @typedef {import("./table.js").Table} Table
 * @typedef {{
 *   layout: "grid" | "map" | "axes", map: string, x: string, y: string, color: string, order: string, truth: string,
 *   guess: string, error: string, concept: string, least: number, column: string, group: string, tag: string,
 *   words: string,
 * }} Settings
 */
import { ERRORS } from "./filter.js";
import { measures } from "./table.js";

export const MAPS = { "concepts-pca": "concepts, PCA", "tokens-pca": "tokens, PCA", "concepts-umap": "concepts, UMAP", "tokens-umap": "tokens, UMAP" }; // prettier-ignore
/** @type {Record<string, string>} */
export const ORDERS = { listed: "as listed", unsure: "least confident first", sure: "most confident first", unlike: "furthest from training first" }; // prettier-ignore

/** @param {Table} table @param {Record<string, string>} params @returns {Settings} */
export function settingsOf(table, params) {
  const known = measures(table);
  /** @param {string} name @param {readonly string[]} among @param {string} otherwise */
  const one = (name, among, otherwise = "") => (among.includes(params[name]) ? params[name] : otherwise);
  const column = one("column", Object.keys(table.columns));
  return {
    layout: /** @type {any} */ (one("layout", ["grid", "map", "axes"], "grid")),
    map: one("map", Object.keys(MAPS), "concepts-pca"),
    x: one("x", known, known[1] ?? known[0] ?? ""),
    y: one("y", known, known[0] ?? ""),
    color: one("color", colorings(table, ["any"]), "class"), // tags are read later
    order: one("order", orders(table), "listed"),
    truth: one("truth", table.classes),
    guess: one("guess", table.classes),
    error: one("error", Object.keys(ERRORS)),
    concept: one("concept", table.concepts),
    least: Number(params.least ?? 0.5) || 0.5,
    column,
    group: column ? one("group", table.columns[column]) : "",
    tag: params.tag ?? "",
    words: params.words ?? "",
  };
}

/** What images can be colored by. @param {Table} table @param {string[]} tags as there are */
export const colorings = (table, tags) => [
  "class",
  ...(table.arrays.guess ? ["prediction", "right or wrong"] : []),
  ...Object.keys(table.columns),
  ...(tags.length ? ["tag"] : []),
  ...measures(table),
];

/** How a grid can be ordered. @param {Table} table */
export const orders = (table) =>
  Object.keys(ORDERS).filter((name) => name === "listed" || table.arrays[name === "unlike" ? "ood" : "confidence"]);

/** Rows in an order of the grid. @param {Table} table @param {Uint32Array} rows @param {string} order */
export function ordered(table, rows, order) {
  const values = { unsure: table.arrays.confidence, sure: table.arrays.confidence, unlike: table.arrays.ood }[order];
  if (!values) return rows;
  const sign = order === "unsure" ? 1 : -1;
  return rows.slice().sort((a, b) => sign * (values[a] - values[b]) || a - b);
}
