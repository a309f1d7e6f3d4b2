/** One value a row, with its interval: runs compared in one measure. */
import { axisBottom, scaleLinear, select } from "../../vendor/d3.js";
import { s } from "../dom.js";
import { percent, shortened } from "../words.js";
import { nameAt, rule } from "./marks.js";
import { roomy, tick } from "./series.js";

const ROW = 30;

/**
 * @param {Array<{name: string, value: number, interval: any[] | null, place?: number, hollow?: boolean}>} rows
 *   `place` chooses the color, in place of the row's own; hollow ones are controls
 * @param {{label: string, read: (value: number, digits?: number) => string, domain?: [number, number],
 *   within?: [number, number] | null, bound?: {name: string, value: number} | null, names?: number}} options `domain`: the ends of the scale, where it has
 *   ends; else as far as the values go; `within`: what the values cannot leave; `bound`: a value that all are held against; `names`: room for names, in pixels
 */
export function dots(rows, { label, read, domain, within = read === percent ? [0, 1] : null, bound = null, names = 150 }) {
  const width = Math.min(520, Math.max(300, window.innerWidth - 62)); // as wide as it is seen: text keeps its size
  const left = width < 420 ? 100 : names;
  const height = rows.length * ROW + 34;
  const all = [...rows.flatMap((row) => [row.value, ...(row.interval ?? [])]), ...(bound ? [bound.value] : [])];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const pad = (high - low || Math.abs(high) || 1) * 0.12;
  const x = domain
    ? scaleLinear(domain, [left, width - 66])
    : scaleLinear([low - pad, high + pad], [left, width - 66]).nice(4);
  if (within) x.domain([Math.max(within[0], x.domain()[0]), Math.min(within[1], x.domain()[1])]);
  const svg = s("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${label}. ${rows.map((row) => `${row.name}: ${read(row.value)}${row.interval ? `, from ${read(row.interval[0])} to ${read(row.interval[1])}` : ""}`).join("; ")}.${bound ? ` ${bound.name}: ${read(bound.value)}.` : ""}`,
  });
  const root = select(svg);
  const ticks = roomy(x.ticks(4), width - 66 - left);
  for (const value of ticks) rule(root, "grid", [x(value), 4], [x(value), height - 30]);
  if (bound)
    rule(root, "cursor", [x(bound.value), 4], [x(bound.value), height - 30])
      .append("title")
      .text(`${bound.name}: ${read(bound.value)}`);
  rows.forEach((row, index) => {
    const place = row.place ?? index;
    const y = index * ROW + ROW / 2 + 2;
    nameAt(root, shortened(row.name, Math.floor(left / 7)), left - 12, y + 4).append("title").text(row.name);
    if (row.interval)
      root
        .append("path")
        .attr("class", `whisker s${place % 8}`)
        .attr(
          "d",
          `M${x(row.interval[0])} ${y}H${x(row.interval[1])}M${x(row.interval[0])} ${y - 5}v10M${x(row.interval[1])} ${y - 5}v10`,
        );
    root
      .append("circle")
      .attr("class", row.hollow ? `hollow s${place % 8}` : `marker f${place % 8}`)
      .attr("cx", x(row.value))
      .attr("cy", y)
      .attr("r", 6);
    nameAt(root, read(row.value), width - 4, y + 4);
  });
  root
    .append("g")
    .attr("transform", `translate(0,${height - 28})`)
    .call(
      axisBottom(x)
        .tickValues(ticks)
        .tickFormat((/** @type {number} */ value) => (read === percent ? tick(value) : read(value)))
        .tickSize(4),
    )
    .select(".domain")
    .remove();
  return svg;
}
