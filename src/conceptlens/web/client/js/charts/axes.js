/** What stands around a chart: lines across it, ticks below and beside, the name of what runs along. */
import { axisBottom, axisLeft } from "../../vendor/d3.js";
import { distinct } from "./series.js";

/**
 * @param {any} root The chart, as d3 selects it.
 * @param {{x: any, y: any, xTicks: any[], yTicks: any[], readX?: (tick: any) => string | number, readY: (tick: any) => string | number, xName: string, width: number,
 *   height: number, margin: {top: number, right: number, bottom: number, left: number}}} options
 */
export function axes(root, { x, y, xTicks, yTicks, readX, readY, xName, width, height, margin }) {
  const [across, up] = [distinct(xTicks, readX ?? String), distinct(yTicks, readY)];
  for (const value of up)
    root
      .append("line")
      .attr("class", "grid")
      .attr("x1", margin.left)
      .attr("x2", width - margin.right)
      .attr("y1", y(value))
      .attr("y2", y(value));
  const below = axisBottom(x).tickValues(across).tickSizeOuter(0).tickSize(4);
  root
    .append("g")
    .attr("transform", `translate(0,${height - margin.bottom})`)
    .call(readX ? below.tickFormat(readX) : below);
  root
    .append("g")
    .attr("transform", `translate(${margin.left},0)`)
    .call(axisLeft(y).tickValues(up).tickFormat(readY).tickSize(0).tickPadding(8))
    .select(".domain")
    .remove();
  root
    .append("text")
    .attr("x", (margin.left + width - margin.right) / 2)
    .attr("y", height - 2)
    .attr("text-anchor", "middle")
    .text(xName);
}
