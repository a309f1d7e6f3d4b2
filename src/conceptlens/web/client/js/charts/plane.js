/** Methods in a plane: what they reach, against what they read. A block has a color and a shape of its own. */
import { extent, scaleLinear, select } from "../../vendor/d3.js";
import { h, s } from "../dom.js";
import { percent, short } from "../words.js";
import { axes } from "./axes.js";

const MARGIN = { top: 12, right: 16, bottom: 40, left: 50 };
const SHAPES = [
  (/** @type {number} */ r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  (/** @type {number} */ r) => `M${-r} ${-r}H${r}V${r}H${-r}Z`,
  (/** @type {number} */ r) => `M0 ${-1.25 * r} ${1.2 * r} ${0.9 * r}H${-1.2 * r}Z`,
  (/** @type {number} */ r) => `M0 ${-1.35 * r} ${1.35 * r} 0 0 ${1.35 * r} ${-1.35 * r} 0Z`,
];

/**
 * @typedef {{name: string, x: number, y: number, interval: [number, number] | null, group: number, hollow?: boolean}} Point
 * @param {Point[]} points heights are fractions; `group` is the place of a point's block among `groups`; hollow ones are controls
 * @param {{label: string, x: string, groups: Array<{name: string, place: number}>}} options
 */
export function plane(points, { label, x: xName, groups }) {
  const width = Math.min(560, Math.max(300, window.innerWidth - 62)); // as wide as it is seen: text keeps its size
  const height = 300;
  const [, far] = extent(points, (/** @type {any} */ point) => point.x);
  const heights = points.flatMap((point) => [point.y, ...(point.interval ?? [])]);
  const [low, high] = extent(heights);
  const pad = (high - low || 0.1) * 0.06;
  const x = scaleLinear([0, far || 1], [MARGIN.left, width - MARGIN.right - 60]).nice(5);
  const y = scaleLinear([Math.max(0, low - pad), Math.min(1, high + pad)], [height - MARGIN.bottom, MARGIN.top]);
  const svg = s("svg", {
    class: "chart plane",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${label}. ${points.map((point) => `${point.name}: ${percent(point.y)} with ${short(point.x)}`).join("; ")}.`,
  });
  const root = select(svg);
  axes(root, {
    ...{ x, y, xName, width, height, margin: MARGIN },
    xTicks: x.ticks(6),
    yTicks: y.ticks(5),
    readY: (value) => percent(value, 0),
  });
  const taken = points.map((point) => [x(point.x) - 7, y(point.y) - 7, x(point.x) + 7, y(point.y) + 7]);
  for (const point of points) {
    const color = groups[point.group].place % 8;
    if (point.interval)
      root
        .append("path")
        .attr("class", `whisker s${color}`)
        .attr("d", `M${x(point.x)} ${y(point.interval[0])}V${y(point.interval[1])}`);
    root
      .append("path")
      .attr("class", point.hollow ? `hollow s${color}` : `marker f${color}`)
      .attr("transform", `translate(${x(point.x)},${y(point.y)})`)
      .attr("d", SHAPES[groups[point.group].place % SHAPES.length](5))
      .append("title")
      .text(`${point.name}: ${percent(point.y)} with ${short(point.x)}`);
    const place = free(x(point.x), y(point.y), 6.3 * point.name.length, taken, width);
    if (place) root.append("text").attr("class", "name").attr("x", place[0]).attr("y", place[1]).text(point.name);
  }
  const legend = h(
    "ul",
    { class: "legend" },
    groups.map((group) =>
      h(
        "li",
        {},
        s(
          "svg",
          { class: "chart", viewBox: "-8 -8 16 16", "aria-hidden": "true" },
          s("path", { class: `f${group.place % 8}`, d: SHAPES[group.place % SHAPES.length](5) }),
        ),
        group.name,
      ),
    ),
  );
  return Object.assign(h("figure", {}, svg, legend), { svg });
}

/** Where a name can stand without covering another; null: nowhere, and then the point's title has it. @param {number} x @param {number} y @param {number} length @param {any} taken @param {number} width */
function free(x, y, length, taken, width) {
  for (const [left, top] of [
    [x + 10, y + 4],
    [x - 10 - length, y + 4],
    [x - length / 2, y - 11],
    [x - length / 2, y + 20],
    [x + 10, y - 9],
    [x + 10, y + 16],
  ]) {
    const box = [left, top - 11, left + length, top + 2];
    if (box[0] < MARGIN.left || box[2] > width || box[1] < 0) continue;
    if (taken.some((/** @type {number[]} */ each) => box[0] < each[2] && box[2] > each[0] && box[1] < each[3] && box[3] > each[1])) continue;
    taken.push(box);
    return [left, top];
  }
  return null;
}
