/** The graph as tables, for those who read rather than look: nodes and edges of what is selected. */
import { tableHead, h, put, scrolling, segment } from "../dom.js";
import { count, plural } from "../words.js";
import { part, strength } from "./numbers.js";

const STEP = 40; // rows at a time

/**
 * @param {{onpick: (number: number) => void, onchange: (what: string) => void, what: string}} given
 */
export function graphTables({ onpick, onchange, what }) {
  /** @type {any} */
  let state = null;
  let rows = STEP;
  const host = scrolling("Table of the graph");
  const about = h("p", { class: "note" });
  const more = h("button", {
    type: "button",
    onclick: () => {
      rows += 5 * STEP;
      draw();
    },
  });
  const tools = segment(
    "Table of",
    [
      ["nodes", "Nodes"],
      ["edges", "Edges"],
    ],
    what,
    (key) => {
      what = key;
      rows = STEP;
      onchange(key);
      draw();
    },
  );

  function draw() {
    if (!state) return;
    const { nodes, edges, words } = selected(state);
    about.textContent = `${words}: ${plural(nodes.length, "node")}, ${plural(edges.length, "edge")}.`;
    const all = what === "nodes" ? nodes : edges;
    put(host, what === "nodes" ? nodeTable(state, nodes.slice(0, rows)) : edgeTable(state, edges.slice(0, rows)));
    more.hidden = all.length <= rows;
    more.textContent = `Show more (${count(all.length - rows)} left)`;
  }

  const link = (/** @type {import("./model.js").GraphNode} */ node) =>
    h(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-pressed": String(node.number === state.picked),
        onclick: () => onpick(node.number),
      },
      state.model.title(node),
    );

  /** @param {number[]} numbers */
  function nodeTable(/** @type {{model: import("./model.js").Model, outputs: number[], kept: any}} */ { model, outputs, kept }, numbers) {
    const looked = (outputs.length ? outputs : model.outputs.map((/** @type {any} */ _, /** @type {any} */ place) => place)).slice(0, 4);
    return h(
      "table",
      { class: "graph-table" },
      h("caption", { class: "hidden" }, "Nodes of the graph"),
      tableHead(
        ["Node", "Layer", "What it is"],
        [...looked.map((/** @type {any} */ place) => `Share for ${model.outputs[place]}`), "Used in"],
      ),
      h(
        "tbody",
        {},
        numbers.map((number) => {
          const node = model.nodes[number];
          return h(
            "tr",
            {},
            h("th", { scope: "row" }, link(node)),
            h("td", {}, model.layer(node) ?? "output"),
            h("td", {}, kindOf(model, node), kept.has(number) ? h("span", { class: "tag" }, "kept") : null),
            looked.map((/** @type {any} */ place) => h("td", { class: "num" }, node.kind === "output" ? "" : part(node.shares[place]))),
            h("td", { class: "num" }, node.kind === "concept" ? plural(node.active, "image") : ""),
          );
        }),
      ),
    );
  }

  /** @param {any[]} list */
  function edgeTable(/** @type {{model: import("./model.js").Model}} */ { model }, list) {
    const { source, target, value, weight } = model.edges;
    return h(
      "table",
      { class: "graph-table" },
      h("caption", { class: "hidden" }, "Edges of the graph, strongest first"),
      tableHead(["From", "To"], ["Contribution", "Of the strongest there"]),
      h(
        "tbody",
        {},
        list.map((edge) =>
          h(
            "tr",
            {},
            h("td", {}, link(model.nodes[source[edge]])),
            h("td", {}, link(model.nodes[target[edge]])),
            h("td", { class: `num ${model.sign(edge) === "rest" ? "" : model.sign(edge)}` }, strength(value[edge])),
            h("td", { class: "num" }, part(weight[edge], 0)),
          ),
        ),
      ),
    );
  }

  return {
    node: h("div", { class: "stack" }, about, host, more),
    tools,
    update(/** @type {any} */ next) {
      state = next;
      rows = STEP;
      draw();
    },
  };
}

/**
 * What is selected: the nodes that are kept and what runs between them, else the open node and its neighbors, else all.
 * @param {{model: import("./model.js").Model, shown: import("./model.js").Shown, place: any, picked: number | null, kept: Set<number>}} state
 */
export function selected({ model, shown, place, picked, kept }) {
  const { source, target, weight } = model.edges;
  const strongest = (/** @type {number[]} */ list) => [...list].sort((a, b) => weight[b] - weight[a]);
  const here = [...kept].filter((number) => shown.has[number]);
  if (here.length) {
    const inside = new Set(here);
    const edges = shown.edges.filter((edge) => inside.has(source[edge]) || inside.has(target[edge]));
    return { nodes: here, edges: strongest(edges), words: "Kept nodes, and all edges that begin or end at one" };
  }
  if (picked !== null && shown.has[picked]) {
    const edges = shown.edges.filter((edge) => source[edge] === picked || target[edge] === picked);
    const near = new Set([picked, ...edges.map((edge) => (source[edge] === picked ? target[edge] : source[edge]))]);
    return {
      nodes: [...near],
      edges: strongest(edges),
      words: `${model.title(model.nodes[picked])} and its neighbors`,
    };
  }
  const order = place.order.toSorted((/** @type {any} */ a, /** @type {any} */ b) => model.nodes[b].row - model.nodes[a].row); // from the outputs down
  return { nodes: order, edges: strongest(shown.edges), words: "Everything that is shown" };
}

/** @param {import("./model.js").Model} model @param {import("./model.js").GraphNode} node */
function kindOf(model, node) {
  if (node.kind === "output") return "class";
  if (node.kind === "error") return "unexplained";
  const of = node.top_of.map((place) => model.outputs[place]);
  return of.length ? `concept of ${of.join(", ")}` : node.shared ? "shared concept" : "concept";
}
