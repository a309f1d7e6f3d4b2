/** A small line without axes; its name says from where to where. */
import { extent, line, scaleLinear } from "../../vendor/d3.js";
import { s } from "../dom.js";
import { short } from "../words.js";

/** @param {number[]} values @param {string} label */
export function spark(values, label) {
  const width = 160;
  const height = 34;
  const x = scaleLinear([0, Math.max(values.length - 1, 1)], [3, width - 5]);
  const [low, high] = extent(values);
  const y = scaleLinear(low === high ? [low - 1, high + 1] : [low, high], [height - 5, 5]);
  const path = line(
    (/** @type {any} */ _, /** @type {number} */ place) => x(place),
    (/** @type {any} */ value) => y(value),
  );
  const last = values.length - 1;
  return s(
    "svg",
    {
      class: "spark",
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${label}: from ${short(values[0])} to ${short(values[last])}`,
    },
    s("path", { d: path(values) }),
  );
}
