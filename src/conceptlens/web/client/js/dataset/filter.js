/**
 * Which images fit all filters: one pass over typed arrays a filter, into a mask of bytes. Pure, so that it is tested
 * without a page.
 * @typedef {import("./table.js").Table} Table
 * @typedef {{
 *   truth?: string, guess?: string, error?: string, concept?: string, least?: number, column?: string, group?: string,
 *   tag?: string, words?: string, rows?: Uint32Array | null,
 * }} Filters names and words as the page shows them; an empty one lets everything pass
 */
import { isClass, isGuess, measure } from "./table.js";

export const ERRORS = { wrong: "wrong", right: "right", unlike: "out of distribution", unlabeled: "without a label" };

/**
 * @param {Table} table
 * @param {Filters} filters
 * @param {Map<string, Set<number>>} [tags] rows by tag
 * @returns {Uint8Array} (N,): 1 where an image fits
 */
export function mask(table, filters, tags = new Map()) {
  const fits = new Uint8Array(table.size).fill(1);
  /** @param {(row: number) => boolean} test */
  const keep = (test) => {
    for (let row = 0; row < table.size; row += 1) if (fits[row] && !test(row)) fits[row] = 0;
  };
  const { truth, guess, error, concept, least = 0.5, column, group, tag, words, rows } = filters;
  if (truth) {
    const place = table.classes.indexOf(truth);
    keep((row) => isClass(table, row, place));
  }
  if (guess) {
    const place = table.classes.indexOf(guess);
    keep((row) => isGuess(table, row, place));
  }
  const { right, ood } = table.arrays;
  if (error === "wrong") keep((row) => right?.[row] === 0);
  if (error === "right") keep((row) => right?.[row] === 1);
  if (error === "unlabeled") keep((row) => (right ? right[row] === -1 : table.arrays.label?.[row] === -1));
  if (error === "unlike") keep((row) => ood?.[row] > (table.bound ?? Infinity));
  if (concept) {
    const values = measure(table, concept);
    keep((row) => values[row] >= least);
  }
  if (column && group) {
    const [member, place] = [table.arrays[`column.${column}`], table.columns[column].indexOf(group)];
    keep((row) => member[row] === place);
  }
  if (tag) {
    const tagged = tags.get(tag) ?? new Set();
    keep((row) => tagged.has(row));
  }
  if (words) {
    const asked = words.toLowerCase();
    keep((row) => table.ids[row].toLowerCase().includes(asked));
  }
  if (rows) {
    const chosen = new Uint8Array(table.size);
    for (const row of rows) chosen[row] = 1;
    keep((row) => chosen[row] === 1);
  }
  return fits;
}

/** The rows of a mask, in order. @param {Uint8Array} fits @returns {Uint32Array} */
export function rowsOf(fits) {
  let count = 0;
  for (let row = 0; row < fits.length; row += 1) count += fits[row];
  const rows = new Uint32Array(count);
  for (let row = 0, place = 0; row < fits.length; row += 1) if (fits[row]) rows[place++] = row;
  return rows;
}

/** How many images have each class and are taken for each: (C × C), row by row. @param {Table} table @param {Uint8Array} fits */
export function confusion(table, fits) {
  const size = table.classes.length;
  const counts = new Uint32Array(size * size);
  const { label, guess } = table.arrays;
  if (!label || !guess) return counts;
  for (let row = 0; row < table.size; row += 1)
    if (fits[row] && label[row] >= 0) counts[label[row] * size + guess[row]] += 1;
  return counts;
}

/** Pairs (true class, prediction, images) of what is confused, most often first. @param {Table} table @param {Uint8Array} fits @returns {Array<[number, number, number]>} */
export function confusedPairs(table, fits) {
  const size = table.classes.length;
  /** @type {Array<[number, number, number]>} */
  const pairs = [];
  confusion(table, fits).forEach((number, at) => {
    const [truth, guess] = [Math.floor(at / size), at % size];
    if (number && truth !== guess) pairs.push([truth, guess, number]);
  });
  return pairs.sort((a, b) => b[2] - a[2]);
}

/** How many images the model gives each concept (probability 0.5 or more), (K,). @param {Table} table @param {Uint8Array} fits */
export function conceptCounts(table, fits) {
  const [size, probs] = [table.concepts.length, table.arrays.concept_probs];
  const counts = new Uint32Array(size);
  if (!probs) return counts;
  for (let row = 0; row < table.size; row += 1) {
    if (!fits[row]) continue;
    for (let concept = 0; concept < size; concept += 1) if (probs[row * size + concept] >= 128) counts[concept] += 1;
  }
  return counts;
}
