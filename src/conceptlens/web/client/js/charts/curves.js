/** Curves with intervals, beside lines that they are held against: accuracy against corrections, error against answers. */
import { area, bisector, line, scaleLinear, select } from "../../vendor/d3.js";
import { h, put, s } from "../dom.js";
import { known, percent } from "../words.js";
import { axes } from "./axes.js";
import { DASHES, swatch, tick } from "./series.js";
import { cursor } from "./marks.js";

const MARGIN = { top: 10, right: 14, bottom: 36, left: 48 };
const BOUND = "7 4"; // the dash of a line that curves are held against

/**
 * @typedef {{name: string, place: number, points: any[]}} Curve
 * @typedef {{name: string, value: number, faint?: boolean, dash?: string}} Bound a level that curves are held against
 * @param {Curve[]} series points are (x, y, interval of y), in order of x
 * @param {{label: string, x: string, bounds?: Array<{name: string, value: number, faint?: boolean, dash?: string}>, domain?: number[] | null, height?: number,
 *   read?: (y: number, digits?: number) => string, readX?: (x: number) => string, marks?: boolean}} options
 */
export function curves(
  series,
  { label, x: xName, bounds = [], domain = null, height = 270, read = percent, readX = String, marks = true },
) {
  const width = Math.min(560, Math.max(300, window.innerWidth - 62)); // as wide as it is seen: text keeps its size
  const drawn = series.map((each) => ({ ...each, points: each.points.filter((point) => known(point[1])) }));
  const levels = bounds.filter((each) => known(each.value));
  const all = drawn.flatMap((each) => each.points);
  const places = [...new Set(all.map((point) => point[0]))].sort((a, b) => a - b);
  const [x0, x1] = [places[0] ?? 0, places.at(-1) ?? 1];
  const x = scaleLinear([x0, x1 === x0 ? x0 + 1 : x1], [MARGIN.left, width - MARGIN.right]);
  const y = scaleLinear(domain ?? span(drawn, levels), [height - MARGIN.bottom, MARGIN.top]).nice(5);
  const svg = s("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "data-figure": label,
    "aria-label": describe(label, drawn, levels, read),
  });
  const root = select(svg);
  const [from, to] = x.domain();
  axes(root, {
    ...{ x, y, xName, width, height, margin: MARGIN, readX },
    xTicks: to - from >= 2 ? x.ticks(7).filter(Number.isInteger) : x.ticks(5),
    yTicks: y.ticks(5),
    readY: (value) => (read === percent ? tick(value) : `${Number(value.toPrecision(6))}`),
  });
  const spread = area()
    .x((/** @type {any} */ point) => x(point[0]))
    .y0((/** @type {any} */ point) => y(point[2][0]))
    .y1((/** @type {any} */ point) => y(point[2][1]));
  const path = line(
    (/** @type {any} */ point) => x(point[0]),
    (/** @type {any} */ point) => y(point[1]),
  );
  for (const each of drawn) {
    const sure = each.points.filter((point) => point[2]);
    if (sure.length > 1)
      root
        .append("path")
        .attr("class", `band f${each.place % 8}`)
        .attr("d", spread(sure));
  }
  for (const each of levels)
    root
      .append("line")
      .attr("class", each.faint ? "bound faint" : "bound")
      .attr("stroke-dasharray", dashOf(each))
      .attr("x1", MARGIN.left)
      .attr("x2", width - MARGIN.right)
      .attr("y1", y(each.value))
      .attr("y2", y(each.value));
  for (const each of drawn) {
    root
      .append("path")
      .attr("class", `line s${each.place % 8}`)
      .attr("stroke-dasharray", DASHES[each.place % DASHES.length])
      .attr("d", path(each.points));
    if (marks && each.points.length <= 40)
      for (const point of each.points)
        root
          .append("circle")
          .attr("class", `f${each.place % 8}`)
          .attr("r", 2.6)
          .attr("cx", x(point[0]))
          .attr("cy", y(point[1]));
  }
  const legend = h("ul", { class: "legend" });
  const show = (/** @type {number | null} */ at) =>
    put(
      legend,
      drawn.map((each) => {
        const point = at === null ? each.points.at(-1) : nearest(each.points, at);
        return h("li", {}, swatch(each.place), each.name, " ", point ? h("b", {}, read(point[1])) : null);
      }),
      levels.map((each) => h("li", {}, boundSwatch(each), each.name, " ", h("b", {}, read(each.value)))),
      at === null ? null : h("li", { class: "note" }, `at ${readX(at)} ${xName}`),
    );
  cursor(svg, root, { x, width, top: MARGIN.top, bottom: height - MARGIN.bottom, places, show });
  return h("figure", {}, svg, legend);
}

/** @param {{faint?: boolean, dash?: string}} bound */
const dashOf = ({ faint, dash }) => dash ?? (faint ? "2 4" : BOUND);

/** The piece of line that stands before the name of a bound. @param {any} bound */
function boundSwatch(bound) {
  return s(
    "svg",
    { class: "chart", viewBox: "0 0 22 10", "aria-hidden": "true" },
    s("path", { class: bound.faint ? "bound faint" : "bound", d: "M1 5H21", "stroke-dasharray": dashOf(bound) }),
  );
}

const byX = bisector((/** @type {any} */ point) => point[0]).center;
/** @param {any[]} points @param {number} x */
const nearest = (points, x) => points[byX(points, x)];

/** From the lowest to the highest of all that is drawn. @param {any[]} series @param {any[]} [levels] */
export function span(series, levels = []) {
  const all = [
    ...series.flatMap((each) => each.points.flatMap((/** @type {any} */ point) => [point[1], ...(point[2] ?? [])])),
    ...levels.map((each) => each.value),
  ].filter(known);
  if (!all.length) return [0, 1];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const least = 0.001 * Math.max(Math.abs(low), Math.abs(high)); // less is rounding and would fill the whole axis
  const around = 0.05 * Math.max(1, Math.abs(low));
  return high - low <= least ? [low - around, high + around] : [low, high];
}

/** @param {string} label @param {any[]} series @param {any[]} levels @param {any} read */
function describe(label, series, levels, read) {
  const told = series.map(({ name, points }) =>
    points.length ? `${name}: from ${read(points[0][1])} to ${read(points.at(-1)[1])}` : `${name}: no values`,
  );
  return `${label}. ${[...told, ...levels.map((each) => `${each.name}: ${read(each.value)}`)].join("; ")}.`;
}
