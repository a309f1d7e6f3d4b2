/** Lines over epochs: several series, one y axis, a cursor that reads all of them. */
import { bisector, extent, line, scaleLinear, scaleLog, select } from "../../vendor/d3.js";
import { h, put, s } from "../dom.js";
import { percent, short } from "../words.js";
import { axes } from "./axes.js";
import { swatch, tick, DASHES } from "./series.js";
import { cursor } from "./marks.js";

const MARGIN = { top: 10, right: 12, bottom: 34, left: 48 };

/**
 * @typedef {{name: string, points: Array<[number, number]>}} Series points are (x, y), in order of x
 * @param {Series[]} series
 * @param {{label: string, x?: string, height?: number, log?: boolean, read?: (y: number) => string, domain?: [number, number] | null}} options
 * @returns {HTMLElement & {svg: SVGSVGElement}}
 */
export function lines(series, { label, x: xName = "epoch", height = 230, log = false, read = short, domain = null }) {
  const width = Math.min(560, Math.max(300, window.innerWidth - 62)); // as wide as it is seen: text keeps its size
  const all = series.flatMap((each) => each.points);
  const [x0, x1] = extent(all, (/** @type {any} */ point) => point[0]);
  let [y0, y1] =
    domain ??
    extent(
      all.filter((point) => !log || point[1] > 0),
      (/** @type {any} */ point) => point[1],
    );
  if (y0 === y1) [y0, y1] = log ? [y0 / 2, y1 * 2] : [y0 - 0.5, y1 + 0.5];
  const x = scaleLinear([x0, x1 === x0 ? x0 + 1 : x1], [MARGIN.left, width - MARGIN.right]);
  const y = (log ? scaleLog : scaleLinear)([y0, y1], [height - MARGIN.bottom, MARGIN.top]).nice(log ? undefined : 5);
  const svg = s("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": describe(label, series, read),
  });
  const root = select(svg);
  const yTicks = log ? roundSteps(y) : y.ticks(5);
  axes(root, {
    ...{ x, y, xName, width, height, margin: MARGIN, yTicks },
    xTicks: x1 - x0 <= 8 ? x.ticks().filter(Number.isInteger) : x.ticks(6),
    readX: (v) => v,
    readY: log ? (v) => `${v}` : (v) => axisRead(v, read),
  });
  const path = line(
    (/** @type {any} */ point) => x(point[0]),
    (/** @type {any} */ point) => y(point[1]),
  ).defined((/** @type {number[]} */ point) => !log || point[1] > 0);
  series.forEach((each, place) => {
    if (each.points.length === 1)
      root
        .append("circle")
        .attr("class", `f${place % 8}`)
        .attr("r", 3)
        .attr("cx", x(each.points[0][0]))
        .attr("cy", y(each.points[0][1]));
    root
      .append("path")
      .attr("class", `line s${place % 8}`)
      .attr("stroke-dasharray", DASHES[place % DASHES.length])
      .attr("d", path(each.points));
  });
  const legend = h("ul", { class: "legend" });
  const show = (/** @type {number | null | undefined} */ at) =>
    put(
      legend,
      series.map((each, place) => {
        const point = at === null ? each.points[each.points.length - 1] : nearest(each.points, Number(at));
        return h("li", {}, swatch(place), each.name, " ", point ? h("b", {}, read(point[1])) : null);
      }),
      at === null ? null : h("li", { class: "note" }, `at ${xName} ${short(at).replace(/\.00$/, "")}`),
    );
  const places = [...new Set(all.map((point) => point[0]))].sort((a, b) => a - b);
  cursor(svg, root, { x, width, top: MARGIN.top, bottom: height - MARGIN.bottom, places, show });
  return Object.assign(h("figure", {}, svg, legend), { svg });
}

/** Numbers on an axis are as short as they are. @param {number} value @param {(value: number) => string} read */
const axisRead = (value, read) => (read === percent ? tick(value) : `${Number(value.toPrecision(6))}`);

const at = bisector((/** @type {any} */ point) => point[0]).center;
/** @param {any[]} points @param {number} x */
const nearest = (points, x) => points[at(points, x)];

/** @param {string} label @param {any[]} series @param {any} read */
function describe(label, series, read) {
  return `${label}. ${series.map((each) => `${each.name}: ${each.points.length ? `from ${read(each.points[0][1])} to ${read(each.points.at(-1)[1])}` : "no values"}`).join("; ")}.`;
}

/** Ticks of a logarithmic scale that have room: 1, 10, 100; also 2 and 5 of each where there are few decades. @param {any} scale */
function roundSteps(scale) {
  const [low, high] = scale.domain();
  const firsts = high / low < 100 ? [1, 2, 5] : high / low <= 1000 ? [1, 3] : [1];
  const first = (/** @type {number} */ value) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  return scale.ticks().filter((/** @type {any} */ value) => firsts.includes(first(value)));
}
