/** Numbers with their intervals, a row each, one or two marks a row, beside lines that they are held against. */
import { axisBottom, scaleLinear, select } from "../../vendor/d3.js";
import { h, s } from "../dom.js";
import { known, percent, shortened } from "../words.js";
import { distinct, tick } from "./series.js";
import { nameAt, rule } from "./marks.js";

const LETTER = 6.4; // pixels of a letter, on average

/**
 * @typedef {{value: number | null, interval?: [number, number] | null, kind?: number}} Mark `kind` of `kinds`
 * @typedef {{name: string, marks: Mark[], range?: [number, number] | null}} Row `range`: what chance allows
 * @param {Row[]} rows
 * @param {{label: string, kinds?: Array<string | null>, bounds?: Array<{name: string, value: number,
 *   faint?: boolean}>, range?: string | null, read?: (x: number, digits?: number) => string, axis?: (x: number, digits?: number) => string,
 *   within?: [number, number] | null}} options `within`: what the numbers cannot leave
 */
export function rows(
  rows,
  {
    label,
    kinds = [],
    bounds = [],
    range: rangeName = null,
    read = percent,
    axis = read === percent ? tick : read,
    within = null,
  },
) {
  const width = Math.min(560, Math.max(300, window.innerWidth - 62)); // as wide as it is seen: text keeps its size
  const longest = Math.max(0, ...rows.map((row) => row.name.length)) * LETTER;
  const above = width < 460 || longest > 0.5 * width; // names stand above their marks where there is little room
  const left = above ? 6 : Math.max(60, longest) + 14;
  const [step, down] = above ? [42, 28] : [28, 14];
  const levels = bounds.filter((each) => known(each.value));
  const height = rows.length * step + 34;
  const x = scaleLinear(reach(rows, levels), [left, width - 66]).nice(4);
  if (within) x.domain([Math.max(within[0], x.domain()[0]), Math.min(within[1], x.domain()[1])]);
  const svg = s("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "data-figure": label,
    "aria-label": describe(label, rows, kinds, levels, read),
  });
  const root = select(svg);
  const upright = (/** @type {number} */ value, /** @type {string} */ look) => rule(root, look, [x(value), 2], [x(value), height - 30]);
  const ticks = distinct(x.ticks(4), axis);
  for (const value of ticks) upright(value, "grid");
  for (const each of levels)
    upright(each.value, each.faint ? "bound faint" : "bound").attr("stroke-dasharray", each.faint ? "2 4" : "7 4");
  rows.forEach((row, place) => {
    const y = place * step + down;
    const most = Math.floor((above ? width - 80 : left) / LETTER);
    nameAt(root, shortened(row.name, most), above ? 4 : left - 12, above ? y - 12 : y + 4, above ? "start" : "end")
      .append("title")
      .text(row.name);
    if (row.range)
      root
        .append("rect")
        .attr("class", "allowed")
        .attr("x", x(row.range[0]))
        .attr("width", Math.max(1, x(row.range[1]) - x(row.range[0])))
        .attr("y", y - 7)
        .attr("height", 14)
        .attr("rx", 2);
    const marks = row.marks.filter((mark) => known(mark.value));
    marks.forEach((mark, nth) => drawMark(root, mark, x, y + (marks.length > 1 ? (nth ? 4 : -4) : 0)));
    if (marks.length) nameAt(root, read(marks[0].value ?? NaN), width - 4, y + 4);
  });
  root
    .append("g")
    .attr("transform", `translate(0,${height - 28})`)
    .call(axisBottom(x).tickValues(ticks).tickFormat(axis).tickSize(4))
    .select(".domain")
    .remove();
  const legend = [
    ...kinds.map((each, kind) =>
      each
        ? h(
            "li",
            {},
            key((at) => drawMark(at, { value: 11, kind }, (/** @type {any} */ v) => v, 5)),
            each,
          )
        : null,
    ),
    ...levels.map((each) =>
      h(
        "li",
        {},
        key((at) =>
          at
            .append("path")
            .attr("class", each.faint ? "bound faint" : "bound")
            .attr("d", "M1 5H21")
            .attr("stroke-dasharray", each.faint ? "2 4" : "7 4"),
        ),
        each.name,
      ),
    ),
    rangeName
      ? h(
          "li",
          {},
          key((at) => at.append("rect").attr("class", "allowed").attr("width", 22).attr("height", 10).attr("rx", 2)),
          rangeName,
        )
      : null,
  ];
  return h("figure", {}, svg, legend.some(Boolean) ? h("ul", { class: "legend" }, legend) : null);
}

/** A mark with its interval. Kinds differ by shape as well as by color. @param {any} root @param {(value: number) => number} x @param {number} y */
function drawMark(root, /** @type {{value: any, interval?: any, kind?: number}} */ { value, interval = null, kind = 0 }, x, y) {
  if (interval)
    root
      .append("path")
      .attr("class", `whisker s${kind}`)
      .attr("d", `M${x(interval[0])} ${y}H${x(interval[1])}M${x(interval[0])} ${y - 3}v6M${x(interval[1])} ${y - 3}v6`);
  if (kind === 0) root.append("circle").attr("class", "marker f0").attr("cx", x(value)).attr("cy", y).attr("r", 5);
  else
    root
      .append("path")
      .attr("class", `marker f${kind}`)
      .attr(
        "d",
        kind === 1 ? `M${x(value)} ${y - 5.5}l5.5 5.5l-5.5 5.5l-5.5 -5.5Z` : `M${x(value) - 4.5} ${y - 4.5}h9v9h-9Z`,
      );
}

/** The small picture before a name in the legend. @param {(...args: any[]) => void} draw */
function key(draw) {
  const svg = s("svg", { class: "chart", viewBox: "0 0 22 10", "aria-hidden": "true" });
  draw(select(svg));
  return svg;
}

/** @param {any[]} rows @param {any[]} levels */
function reach(rows, levels) {
  const all = [
    ...rows.flatMap((row) => [
      ...(row.range ?? []),
      ...row.marks.flatMap((/** @type {any} */ mark) => [mark.value, ...(mark.interval ?? [])]),
    ]),
    ...levels.map((each) => each.value),
  ].filter(known);
  if (!all.length) return [0, 1];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const pad = 0.06 * (high - low || Math.abs(high) || 1);
  return [low - pad, high + pad];
}

/** @param {string} label @param {any[]} rows @param {any} kinds @param {any[]} levels @param {any} read */
function describe(label, rows, kinds, levels, read) {
  const told = rows.map((row) => {
    const marks = row.marks
      .filter((/** @type {any} */ mark) => known(mark.value))
      .map((/** @type {any} */ mark) => {
        const name = kinds.length > 1 ? `${kinds[mark.kind ?? 0]} ` : "";
        const [low, high] = mark.interval ?? [null, null];
        return `${name}${read(mark.value)}${known(low) ? `, from ${read(low)} to ${read(high)}` : ""}`;
      });
    return `${row.name}: ${marks.join(", ") || "no value"}`;
  });
  return `${label}. ${[...told, ...levels.map((each) => `${each.name}: ${read(each.value)}`)].join("; ")}.`;
}
