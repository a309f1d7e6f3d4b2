/** What somebody looks at, as an address and as a small file: the same things in both. */

export const KIND = "conceptlens graph selection";

/**
 * @typedef {{graph: string, classes: string[], min: number | null, hidden: string[], linked: boolean, node: string | null, kept: string[], at: number[] | null}} Selection
 */

/** @param {Record<string, string>} params @returns {Selection} */
export function fromParams(params) {
  const at = (params.at ?? "").split(",").map(Number);
  const min = Number(params.min);
  return {
    graph: params.graph ?? "classes",
    classes: [params.class, params.with].filter(Boolean),
    min: params.min !== undefined && Number.isFinite(min) ? Math.min(Math.max(min, 0), 1) : null,
    hidden: list(params.hide).filter((word) => ["plus", "minus", "rest"].includes(word)),
    linked: params.linked === "1",
    node: params.node ?? null,
    kept: list(params.kept),
    at: at.length === 3 && at.every(Number.isFinite) && at[2] > 0 ? at : null,
  };
}

/** @param {Selection} selection */
export function toParams(selection) {
  return {
    graph: selection.graph === "classes" ? "" : selection.graph,
    class: selection.classes[0] ?? "",
    with: selection.classes[1] ?? "",
    min: selection.min === null ? "" : String(selection.min),
    hide: selection.hidden.join(","),
    linked: selection.linked ? "1" : "",
    node: selection.node ?? "",
    kept: selection.kept.map(encodeURIComponent).join(","),
    at: place(selection.at),
  };
}

/** @param {any[] | null} at */
export const place = (at) => (at ? at.map((value) => value.toFixed(3)).join(",") : "");

/** @param {string} text */
const list = (text) => (text ?? "").split(",").filter(Boolean).map(decoded);

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {Selection} selection @param {{run: string, title: string}} of */
export function toFile(selection, { run, title }) {
  return { schema: 1, kind: KIND, run, title, ...selection };
}

/**
 * What a file says, or an error in words.
 * @param {string} text @returns {Selection}
 */
export function fromFile(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error("This is not a JSON file.");
  }
  if (found?.kind !== KIND) throw new Error("This file is not a selection of a graph. “Save selection” writes one.");
  if (found.schema !== 1) throw new Error(`This selection has schema ${found.schema}; this page reads schema 1.`);
  const words = (/** @type {any} */ value) => (Array.isArray(value) ? value.filter((each) => typeof each === "string") : []);
  const at = Array.isArray(found.at) && found.at.length === 3 && found.at.every(Number.isFinite) ? found.at : null;
  return {
    graph: typeof found.graph === "string" ? found.graph : "classes",
    classes: words(found.classes).slice(0, 2),
    min: Number.isFinite(found.min) ? Math.min(Math.max(found.min, 0), 1) : null,
    hidden: words(found.hidden).filter((word) => ["plus", "minus", "rest"].includes(word)),
    linked: found.linked === true,
    node: typeof found.node === "string" ? found.node : null,
    kept: words(found.kept),
    at: at && at[2] > 0 ? at : null,
  };
}

/** Nodes and edges that are shown, to be saved. @param {import("./model.js").Model} model */
export function shownData(model, /** @type {{nodes: any, edges: any}} */ { nodes, edges }) {
  const { source, target, value, weight } = model.edges;
  return {
    schema: 1,
    kind: "conceptlens graph as shown",
    nodes: nodes
      .map((/** @type {number} */ number) => model.nodes[number])
      .map((/** @type {any} */ { number, ...node }) => ({ ...node, layer: model.layer(node) })),
    edges: edges.map((/** @type {number} */ edge) => ({
      source: model.nodes[source[edge]].id,
      target: model.nodes[target[edge]].id,
      value: value[edge],
      weight: weight[edge],
    })),
  };
}
