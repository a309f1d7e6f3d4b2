/** What of a graph is shown: which graph, which classes, how strong an edge must be, of which sign. */
import { choice, h, put, segment } from "../dom.js";
import { percent } from "../words.js";

/** @type {Record<string, string>} */
const NAMES = {
  image: "One image",
  classes: "Classes",
  data: "Data set",
  noise: "With noise",
  attack: "Under attack",
};
const SIGNS = [
  ["plus", "adds"],
  ["minus", "takes away"],
  ["rest", "unexplained"],
];

/**
 * @param {{model: import("./model.js").Model, answer: any, state: any, onclasses: (outputs: number[]) => void, onthreshold: (min: number) => void, onchange: () => void, ongraph: (name: string) => void}} given
 */
export function graphControls({ model, answer, state, onclasses, onthreshold, onchange, ongraph }) {
  const others = Object.keys(NAMES).filter((name) => answer.others.includes(name));
  const classes = h("span", { class: "row" });
  const all = model.outputs.map((/** @type {string} */ name, /** @type {any} */ place) => [place, name]);

  function drawClasses() {
    const [first, second] = state.outputs;
    const set = (/** @type {number[]} */ outputs) => {
      onclasses(outputs);
      drawClasses();
    };
    put(
      classes,
      model.outputs.length > 1
        ? choice(
            "Class",
            [["", model.outputs.length === 2 ? "both" : "all"], ...all],
            first ?? "",
            (value) => set(value === "" ? [] : [Number(value)]),
            { "aria-label": "Class" },
          )
        : null,
      model.outputs.length > 1 && first !== undefined
        ? choice(
            "Compared with",
            [["", "none"], ...all.filter((/** @type {any} */ [place]) => place !== first)],
            second ?? "",
            (value) => set(value === "" ? [first] : [first, Number(value)]),
            { "aria-label": "Compared with" },
          )
        : null,
    );
  }

  const value = h("output", { class: "num" }, percent(state.min, 0));
  const slider = h("input", {
    type: "range",
    min: "0",
    max: "1",
    step: "0.01",
    value: String(state.min),
    "aria-label": "Weakest edge that is shown, relative to the strongest between the same two layers",
    oninput: () => {
      value.textContent = percent(Number(slider.value), 0);
      onthreshold(Number(slider.value));
    },
  });
  slider.value = String(state.min);
  const tick = (/** @type {string} */ label, /** @type {boolean} */ on, /** @type {(on: boolean) => void} */ set) =>
    h(
      "label",
      { class: "row tick" },
      h("input", {
        type: "checkbox",
        checked: on,
        onchange: (/** @type {any} */ event) => {
          set(event.target.checked);
          onchange();
        },
      }),
      label,
    );
  drawClasses();
  return h(
    "div",
    { class: "card graph-controls", role: "group", "aria-label": "What is shown of the graph" },
    others.length > 1
      ? segment(
          "Graph of",
          others.map((name) => [name, NAMES[name]]),
          answer.name,
          ongraph,
        )
      : null,
    classes,
    h("label", { class: "field threshold" }, h("span", {}, "Edges from ", value, " of the strongest"), slider),
    h(
      "div",
      { class: "row", role: "group", "aria-label": "Edges that are shown" },
      SIGNS.map(([sign, label]) =>
        tick(label, !state.hidden.has(sign), (/** @type {boolean} */ on) => (on ? state.hidden.delete(sign) : state.hidden.add(sign))),
      ),
      tick("only nodes with an edge", state.linked, (/** @type {boolean} */ on) => {
        state.linked = on;
      }),
    ),
  );
}

/** What colors and frames mean. @param {import("./model.js").Model} model @param {number[]} outputs @param {any} scene */
export function graphLegend(model, outputs, scene) {
  const { colors } = scene;
  const looked = outputs.length ? outputs : model.outputs.map((/** @type {any} */ _, /** @type {any} */ place) => place);
  const shared = scene.shown.nodes.some((/** @type {number} */ number) => scene.shown.owner[number] === -1);
  const line = (/** @type {string} */ color, /** @type {string} */ text) => h("li", {}, h("i", { class: "graph-line", style: { background: color } }), text);
  const frame = (/** @type {string} */ kind, /** @type {string} */ color, /** @type {string} */ text) =>
    h("li", {}, h("i", { class: `graph-frame ${kind}`, style: { "border-color": color } }), text);
  return h(
    "ul",
    { class: "legend", "aria-label": "Colors and frames" },
    looked.slice(0, 8).map((/** @type {any} */ place, /** @type {number} */ at) => frame("", colors.series[at % 6], model.outputs[place])),
    shared ? frame("double", colors.shared, looked.length > 2 ? "shared by several" : "shared") : null,
    frame("dashed", colors.rest, "unexplained"),
    line(colors.plus, "adds"),
    line(colors.minus, "takes away"),
  );
}
