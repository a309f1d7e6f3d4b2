/** What colors of the canvas mean: a dot for each class or group, a scale for a measure. */
import { heat } from "../colors.js";
import { h } from "../dom.js";
import { short } from "../words.js";
import { measure } from "./table.js";

const COLORS = 8;

/** @param {import("./table.js").Table} table @param {string} color what images are colored by @param {string[]} tags */
export function colorLegend(table, color, tags) {
  /** @type {Record<string, string[]>} */
  const groups = { class: table.classes, prediction: table.classes, "right or wrong": ["wrong", "right"], tag: tags, ...table.columns };
  const names = groups[color];
  if (!names) return scale(measure(table, color), color);
  const shade = (/** @type {number} */ place) => `var(--series-${color === "right or wrong" ? 1 - place : place})`;
  const more = names.length - COLORS;
  return h(
    "span",
    { class: "legend" },
    names.slice(0, COLORS).map((name, place) => h("span", {}, h("i", { class: "dot", style: { background: shade(place) } }), name)),
    more > 0 ? h("span", {}, `and ${more} more; colors repeat`) : null,
  ); // prettier-ignore
}

/** What the two directions of the canvas mean, in words. @param {import("./table.js").Table} table @param {string} x @param {string} y */
export function axesLine(table, x, y) {
  const said = [x, y].map((name) => `${name} (${rangeOf(measure(table, name)).map(short).join(" to ")})`);
  return `Across: ${said[0]}. Up: ${said[1]}.`;
}

/** @param {Float32Array} values @returns {[number, number]} the first above the second where there is no number */
function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

/** @param {Float32Array} values @param {string} name */
function scale(values, name) {
  const [low, high] = rangeOf(values);
  if (low > high) return h("span", { class: "legend" }, "no image has a value");
  const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map((at) => `rgb(${heat(at).join(" ")})`);
  const ramp = h("i", { class: "ramp", style: { background: `linear-gradient(to right, ${stops.join(", ")})` } });
  return h("span", { class: "legend" }, h("span", {}, name), short(low), ramp, short(high));
}
