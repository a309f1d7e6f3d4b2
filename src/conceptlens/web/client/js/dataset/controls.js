/** The controls of the data set view: how images lie, what colors them, which of them are shown. */
import { choice, h, put, searchField, segment } from "../dom.js";
import { ERRORS } from "./filter.js";
import { colorings, MAPS, ORDERS, orders } from "./settings.js";
import { measures } from "./table.js";

const LONG = { class: "long" }; // names of concepts, which are not to be cut alike

/**
 * @param {import("./table.js").Table} table
 * @param {import("./settings.js").Settings} settings
 * @param {() => string[]} tags as they are now
 * @param {(changes: Partial<import("./settings.js").Settings>) => void} onchange
 * @param {HTMLElement | null} split the choice of a split, where there are several
 */
export function controls(table, settings, tags, onchange, split) {
  const node = h("div", { class: "dataset-controls" });
  /** @param {any} changes */
  const set = (changes) => {
    onchange(changes);
    if ("layout" in changes) put(how, places[settings.layout]()); // the rest stays, and with it the focus
    least.hidden = !settings.concept;
  };
  /** @param {string[]} names @returns {Array<[string, string]>} */
  const any = (names) => [["", "any"], ...names.map((name) => /** @type {[string, string]} */ ([name, name]))];
  const scored = Boolean(table.arrays.guess);

  const places = {
    grid: () => choice("Order", orders(table).map((name) => [name, ORDERS[name]]), settings.order, (order) => set({ order })),
    map: () => choice("Map by", Object.entries(MAPS), settings.map, (map) => set({ map })),
    axes: () => [
      choice("Across", measures(table), settings.x, (x) => set({ x }), LONG),
      choice("Up", measures(table), settings.y, (y) => set({ y }), LONG),
    ],
  }; // prettier-ignore
  const how = h("span", { class: "row" });

  const least = threshold();

  function draw() {
    put(how, places[settings.layout]());
    least.hidden = !settings.concept;
    const layouts = [["grid", "Grid"], ["map", "Map"], ["axes", "Two measures"]]; // prettier-ignore
    put(
      node,
      h(
        "div",
        { class: "row" },
        segment("How images lie", scored ? layouts : layouts.slice(0, 1), settings.layout, (layout) => set({ layout })),
        how,
        choice("Color by", colorings(table, tags()), settings.color, (color) => set({ color })),
        h("label", { class: "field" }, "Name", searchField("Filter by name", "part of a name", settings.words, (words) => set({ words }))),
      ),
      h(
        "div",
        { class: "row" },
        split,
        choice("True class", any(table.classes), settings.truth, (truth) => set({ truth })),
        scored ? choice("Predicted", any(table.classes), settings.guess, (guess) => set({ guess })) : null,
        choice("Show", [["", "all"], ...errors()], settings.error, (error) => set({ error })),
        scored && table.concepts.length
          ? [choice("Concept", any(table.concepts), settings.concept, (concept) => set({ concept }), LONG), least]
          : null,
        Object.keys(table.columns).length ? subgroup() : null,
        tags().length ? choice("Tag", any(tags()), settings.tag, (tag) => set({ tag })) : null,
      ),
    ); // prettier-ignore
  }

  const errors = () =>
    Object.entries(ERRORS).filter(([key]) => (key === "unlike" ? table.arrays.ood : key === "unlabeled" || scored));

  function threshold() {
    const number = h("output", {}, settings.least.toFixed(2));
    const input = h("input", {
      type: "range",
      min: "0.05",
      max: "0.95",
      step: "0.05",
      value: String(settings.least),
      "aria-label": "Least probability of the concept",
      oninput: () => {
        number.textContent = Number(input.value).toFixed(2);
        set({ least: Number(input.value) });
      },
    });
    return h("label", { class: "field least" }, h("span", {}, "from ", number), input);
  }

  function subgroup() {
    const pairs = Object.entries(table.columns).flatMap(([column, names]) => names.map((name) => [column, name]));
    const keys = pairs.map(([column, name], place) => /** @type {[string, string]} */ ([String(place), `${column}: ${name}`]));
    const now = pairs.findIndex(([column, name]) => column === settings.column && name === settings.group);
    return choice("Subgroup", [["", "any"], ...keys], now < 0 ? "" : String(now), (key) => {
      const [column, group] = key === "" ? ["", ""] : pairs[Number(key)];
      set({ column, group });
    });
  } // prettier-ignore

  draw();
  return Object.assign(node, { draw });
}
