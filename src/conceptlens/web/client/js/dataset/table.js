/**
 * The images of a split as typed arrays, from the one binary answer of the server: a safetensors file, that is eight
 * bytes with the length of a JSON header, the header, and the arrays.
 * @typedef {{name: string, kind: string, start: number, values: string[]}} Group
 * @typedef {{
 *   size: number, split: string, ids: string[], classes: string[], task: string, concepts: string[], groups: Group[],
 *   columns: Record<string, string[]>, bound: number | null, tokens: boolean, sprites: {side: number, across: number},
 *   arrays: Record<string, any>,
 * }} Table `arrays` are typed arrays by name; a matrix (N, K) is flat, row by row. `tokens`: whether the model has read
 *   these images, so that there are neighbors and a map by their tokens
 */

/** @type {Record<string, any>} */
const KINDS = { I8: Int8Array, U8: Uint8Array, I16: Int16Array, I32: Int32Array, I64: BigInt64Array, F32: Float32Array };

/** @param {ArrayBuffer} buffer @returns {Table} */
export function readTable(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const words = JSON.parse(header.__metadata__.table);
  /** @type {Record<string, any>} */
  const arrays = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const [from, to] = entry.data_offsets.map((/** @type {number} */ offset) => 8 + length + offset);
    arrays[name] = new KINDS[entry.dtype](buffer.slice(from, to)); // a copy begins where any type may
  }
  return /** @type {any} */ ({ bound: null, ...words, size: words.ids.length, arrays });
}

/** Whether an image is of a class, and whether it is taken for it. @param {Table} table @param {number} row @param {number} name */
export function isClass(table, row, name) {
  const { labels, label } = table.arrays;
  return labels ? labels[row * table.classes.length + name] === 1 : label[row] === name;
}

/** @param {Table} table @param {number} row @param {number} name */
export function isGuess(table, row, name) {
  const { held, guess } = table.arrays;
  return held ? held[row * table.classes.length + name] === 1 : guess?.[row] === name;
}

/** The classes of an image in words; empty where nobody knows. @param {Table} table @param {number} row */
export const truthOf = (table, row) => table.classes.filter((_, name) => isClass(table, row, name)).join(", ");

/** @param {Table} table @param {number} row */
export const guessOf = (table, row) => table.classes.filter((_, name) => isGuess(table, row, name)).join(", ");

/** A probability of a concept, 0 to 1. @param {Table} table @param {number} row @param {number} concept */
export const probability = (table, row, concept) =>
  (table.arrays.concept_probs?.[row * table.concepts.length + concept] ?? 0) / 255;

/** Numbers that every image has, by the name of what they measure. @param {Table} table @returns {string[]} */
export function measures(table) {
  return [
    ...(table.arrays.confidence ? ["confidence"] : []),
    ...(table.arrays.ood ? ["out-of-distribution score"] : []),
    ...(table.arrays.concept_probs ? table.concepts : []),
  ];
}

/** One of those as an array (N,). @param {Table} table @param {string} name @returns {Float32Array} */
export function measure(table, name) {
  if (name === "confidence") return table.arrays.confidence;
  if (name === "out-of-distribution score") return table.arrays.ood;
  const concept = table.concepts.indexOf(name);
  return Float32Array.from({ length: table.size }, (_, row) => probability(table, row, concept));
}
