/** A graph as the server sends it, and what of it is shown: by class, by strength, by sign. Nothing here draws. */

/**
 * @typedef {{id: string, kind: "output" | "concept" | "error", row: number, name: string, contributions: number[], shares: number[], top_of: number[], shared: boolean, active: number, crops: number, number: number}} GraphNode
 * @typedef {{outputs: number[], min: number, hidden: Set<string>, linked: boolean}} Choice
 *   `outputs`: those that are looked at, none for all; `hidden`: of "plus", "minus", "rest"; `linked`: only nodes with an edge
 * @typedef {{nodes: number[], has: Uint8Array, edges: number[], owner: Int8Array, counted: number}} Shown
 *   `edges` in the order they are drawn: what is unexplained, then from weak to strong; `owner`: the place of a class among those looked at, SHARED or NOBODY
 */

export const LEVELS = 6; // of width and darkness of edges
export const SHARED = -1;
export const NOBODY = -2;

export class Model {
  /** @param {any} answer */
  constructor(answer) {
    this.answer = answer;
    /** @type {GraphNode[]} */
    this.nodes = answer.nodes.map((/** @type {import("./model.js").GraphNode} */ node, /** @type {number} */ number) => ({ ...node, number }));
    this.edges = answer.edges;
    this.outputs = answer.outputs;
    this.rows = [...answer.rows.map((/** @type {any} */ row) => row.layer), "output"];
    this.byId = new Map(this.nodes.map((node) => [node.id, node.number]));
    /** @type {number[][]} */
    this.into = this.nodes.map(() => []);
    /** @type {number[][]} */
    this.outOf = this.nodes.map(() => []);
    const { source, target, value } = answer.edges;
    for (let edge = 0; edge < source.length; edge += 1) {
      this.outOf[source[edge]].push(edge);
      this.into[target[edge]].push(edge);
    }
    const strongest = (/** @type {any} */ a, /** @type {any} */ b) => Math.abs(value[b]) - Math.abs(value[a]);
    for (const list of [...this.into, ...this.outOf]) list.sort(strongest);
  }

  /** The layer of a node, or null for an output. @param {import("./model.js").GraphNode} node */
  layer(node) {
    return node.kind === "output" ? null : this.rows[node.row];
  }

  /** "layer4 concept 12". @param {import("./model.js").GraphNode} node */
  title(node) {
    return node.kind === "output" ? node.name : `${this.rows[node.row]} · ${node.name}`;
  }

  /** What a node adds to or takes from the outputs that are looked at, as a share of its layer: the largest. @param {import("./model.js").GraphNode} node @param {number[]} [outputs] */
  share(node, outputs = []) {
    const some = (outputs.length ? outputs : node.shares.map((_, place) => place)).map((place) => node.shares[place]);
    return some.length ? some.reduce((best, each) => (Math.abs(each) > Math.abs(best) ? each : best), 0) : 0;
  }

  /** "plus", "minus", or "rest" where no concept explains it. @param {number} edge */
  sign(edge) {
    if (this.nodes[this.edges.source[edge]].kind === "error") return "rest";
    return this.edges.value[edge] < 0 ? "minus" : "plus";
  }

  /** How strong an edge looks, 1 to LEVELS. @param {number} edge */
  level(edge) {
    return Math.min(LEVELS, Math.max(1, Math.ceil(this.edges.weight[edge] * LEVELS)));
  }

  /** Whose a node is among the outputs that are looked at. @param {import("./model.js").GraphNode} node @param {number[]} outputs */
  owner(node, outputs) {
    const looked = outputs.length ? outputs : this.outputs.map((/** @type {any} */ _, /** @type {any} */ place) => place);
    if (node.kind === "error") return NOBODY;
    if (node.kind === "output") return looked.indexOf(this.outputs.indexOf(node.name));
    const of = node.top_of.filter((place) => looked.includes(place));
    if (of.length > 1 || (!node.top_of.length && node.shared && looked.length > 1)) return SHARED;
    if (of.length) return looked.indexOf(of[0]);
    const largest = looked.reduce(
      (/** @type {any} */ best, /** @type {any} */ place, /** @type {number} */ at) => (Math.abs(node.shares[place]) > Math.abs(node.shares[looked[best]]) ? at : best),
      0,
    );
    return largest;
  }

  /** @param {Choice} choice @returns {Shown} */
  shown(choice) {
    const { outputs, min, hidden, linked } = choice;
    const has = new Uint8Array(this.nodes.length);
    const owner = new Int8Array(this.nodes.length);
    for (const node of this.nodes) {
      owner[node.number] = this.owner(node, outputs);
      if (this.belongs(node, outputs)) has[node.number] = 1;
    }
    const { source, target, weight } = this.edges;
    /** @type {number[][]} */
    const looks = Array.from({ length: 3 * LEVELS + 2 }, () => []);
    let counted = 0;
    const touched = new Uint8Array(this.nodes.length);
    for (let edge = source.length - 1; edge >= 0; edge -= 1) {
      if (!has[source[edge]] || !has[target[edge]]) continue;
      counted += 1;
      const sign = this.sign(edge);
      if (weight[edge] < min || hidden.has(sign)) continue;
      const level = this.level(edge);
      looks[sign === "rest" ? level : LEVELS + 2 * level + (sign === "plus" ? 1 : 0)].push(edge);
      touched[source[edge]] = 1;
      touched[target[edge]] = 1;
    }
    const nodes = [];
    for (const node of this.nodes) {
      if (linked && !touched[node.number] && node.kind !== "output") has[node.number] = 0;
      if (has[node.number]) nodes.push(node.number);
    }
    return { nodes, has, edges: looks.flat(), owner, counted };
  }

  /** Whether a node is of the outputs that are looked at: one of the first of its layer for them, or shared by them. @param {import("./model.js").GraphNode} node @param {number[]} outputs */
  belongs(node, outputs) {
    if (!outputs.length || node.kind === "error") return true;
    if (node.kind === "output") return outputs.includes(this.outputs.indexOf(node.name));
    if (node.top_of.some((place) => outputs.includes(place))) return true;
    return node.shared && !node.top_of.length && outputs.length > 1;
  }

  /** A threshold that leaves so many edges at most, not below the one that hides what nobody would see. */
  startAt(most = 2500, least = 0.08) {
    const { weight } = this.edges;
    if (weight.length <= most) return least;
    return Math.min(1, Math.max(least, Math.ceil(100 * weight[most]) / 100));
  }

  /** Nodes whose name, layer or class has all the words. @param {string} words */
  find(words, most = 8) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length) return [];
    const found = [];
    for (const node of this.nodes) {
      const text = `${this.title(node)} ${node.id} ${node.top_of.map((place) => this.outputs[place]).join(" ")}`;
      const low = text.toLowerCase();
      if (wanted.every((word) => low.includes(word))) found.push(node);
    }
    const exact = (/** @type {import("./model.js").GraphNode} */ node) => (node.name.toLowerCase() === words.trim().toLowerCase() ? 1 : 0);
    const strength = (/** @type {import("./model.js").GraphNode} */ node) => (node.kind === "output" ? 2 : Math.abs(this.share(node)));
    return found.sort((a, b) => exact(b) - exact(a) || strength(b) - strength(a)).slice(0, most);
  }
}
