/** How often answers are right against how sure they are; gray bars show where a calibrated model would be. */
import { axisBottom, axisLeft, scaleLinear, select } from "../../vendor/d3.js";
import { h, s } from "../dom.js";
import { percent } from "../words.js";
import { rule } from "./marks.js";
import { tick as shareTick } from "./series.js";

const MARGIN = { top: 10, right: 14, bottom: 38, left: 48 };

/** Whether an answer's bin lies outside of what chance allows. @param {any} point */
export const beyond = (point) =>
  Boolean(point.between) && (point.right < point.between[0] - 1e-9 || point.right > point.between[1] + 1e-9);

/** @param {Array<{answers: number, confidence: number, right: number, between: [number, number] | null}>} points */
export function reliability(points, /** @type {{label: string}} */ { label }) {
  const width = Math.min(460, Math.max(300, window.innerWidth - 62));
  const height = Math.round(0.86 * width);
  const all = points.flatMap((point) => [point.confidence, point.right, ...(point.between ?? [])]);
  const low = Math.max(0, Math.floor(10 * Math.min(0.9, ...all)) / 10);
  const x = scaleLinear([low, 1], [MARGIN.left, width - MARGIN.right]);
  const y = scaleLinear([low, 1], [height - MARGIN.bottom, MARGIN.top]);
  const svg = s("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "data-figure": label,
    "aria-label": `${label}. ${points
      .map(
        (point) =>
          `said ${percent(point.confidence)}, right ${percent(point.right)}${beyond(point) ? ", beyond chance" : ""}`,
      )
      .join("; ")}.`,
  });
  const root = select(svg);
  for (const tick of y.ticks(5)) rule(root, "grid", [x(low), y(tick)], [x(1), y(tick)]);
  const axis = (/** @type {any} */ make, /** @type {any} */ scale) =>
    make(scale)
      .ticks(5)
      .tickFormat(shareTick)
      .tickSize(4)
      .tickSizeOuter(0);
  root
    .append("g")
    .attr("transform", `translate(0,${height - MARGIN.bottom})`)
    .call(axis(axisBottom, x));
  root.append("g").attr("transform", `translate(${MARGIN.left},0)`).call(axis(axisLeft, y)).select(".domain").remove();
  root
    .append("text")
    .attr("x", (x(low) + x(1)) / 2)
    .attr("y", height - 2)
    .attr("text-anchor", "middle")
    .text("confidence");
  for (const point of points)
    if (point.between)
      root
        .append("rect")
        .attr("class", "allowed")
        .attr("x", x(point.confidence) - 5)
        .attr("width", 10)
        .attr("y", y(point.between[1]) - 1)
        .attr("height", Math.max(2, y(point.between[0]) - y(point.between[1]) + 2))
        .attr("rx", 2);
  root
    .append("line")
    .attr("class", "bound")
    .attr("stroke-dasharray", "7 4")
    .attr("x1", x(low))
    .attr("x2", x(1))
    .attr("y1", y(low))
    .attr("y2", y(1));
  for (const point of points) {
    const mark = root.append("path").attr("class", `marker ${beyond(point) ? "f1" : "f0"}`);
    const [px, py] = [x(point.confidence), y(point.right)];
    mark.attr("d", beyond(point) ? diamond(px, py) : circle(px, py));
    mark
      .append("title")
      .text(`${point.answers} answers: ${percent(point.confidence)} sure, ${percent(point.right)} right`);
  }
  root // over what may stand there
    .append("text")
    .attr("x", MARGIN.left + 6)
    .attr("y", MARGIN.top + 10)
    .text("accuracy");
  return h(
    "figure",
    {},
    svg,
    h(
      "ul",
      { class: "legend" },
      h("li", {}, key("marker f0", circle(11, 5)), "within chance"),
      points.some(beyond) ? h("li", {}, key("marker f1", diamond(11, 5)), "beyond chance") : null,
      points.some((point) => point.between)
        ? h("li", {}, key("allowed", "M2 0h18v10h-18Z"), "range of 95 of 100 calibrated models")
        : null,
      h("li", {}, key("bound", "M1 5H21", "7 4"), "confidence equals accuracy"),
    ),
  );
}

/** @param {number} x @param {number} y */
const diamond = (x, y) => `M${x} ${y - 6}l6 6l-6 6l-6 -6Z`;
/** @param {number} x @param {number} y */
const circle = (x, y) => `M${x - 5} ${y}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0Z`;
/** @param {string} name @param {string} d @param {string | null} [dash] */
const key = (name, d, dash = null) =>
  s(
    "svg",
    { class: "chart", viewBox: "0 0 22 10", "aria-hidden": "true" },
    s("path", { class: name, d, "stroke-dasharray": dash }),
  );
