/** Cliff's δ of each pair with its interval, beside what it is without a bias: balanced samples and shuffled values. */
import { axisBottom, scaleLinear, select } from "../../vendor/d3.js";
import { s } from "../dom.js";
import { signed } from "../words.js";
import { nameAt, rule } from "./marks.js";

const ROW = 58;
const EDGES = [0.147, 0.33, 0.474]; // negligible, small, medium, large

/** @param {any[]} pairs as bias.json has them */
export function deltas(pairs, /** @type {{label: string}} */ { label }) {
  const width = Math.min(620, Math.max(300, window.innerWidth - 62));
  const height = pairs.length * ROW + 40;
  const x = scaleLinear([-1, 1], [14, width - 14]);
  const svg = s("svg", {
    class: "chart deltas",
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "aria-label": `${label}. ${pairs.map((pair) => pair.text).join(" ")}`,
  });
  const root = select(svg);
  root
    .append("rect")
    .attr("class", "negligible")
    .attr("x", x(-EDGES[0]))
    .attr("width", x(EDGES[0]) - x(-EDGES[0]))
    .attr("y", 2)
    .attr("height", height - 34);
  for (const edge of [...EDGES.map((each) => -each), 0, ...EDGES])
    rule(root, edge === 0 ? "cursor" : "grid", [x(edge), 2], [x(edge), height - 32]);
  const whisker = (/** @type {string} */ look, /** @type {number} */ low, /** @type {number} */ high, /** @type {number} */ y, /** @type {number} */ tall) =>
    root
      .append("path")
      .attr("class", `whisker ${look}`)
      .attr("d", `M${x(low)} ${y}H${x(high)}M${x(low)} ${y - tall}v${2 * tall}M${x(high)} ${y - tall}v${2 * tall}`);
  pairs.forEach((pair, place) => {
    const top = place * ROW + 4;
    nameAt(root, `${pair.second}  ←`, 14, top + 13, null).append("title").text(pair.text);
    nameAt(root, `→  ${pair.first}`, width - 14, top + 13);
    if (pair.permuted)
      root
        .append("rect")
        .attr("class", "shuffled")
        .attr("x", x(pair.permuted[0]))
        .attr("width", Math.max(2, x(pair.permuted[1]) - x(pair.permuted[0])))
        .attr("y", top + 20)
        .attr("height", 30);
    whisker("s0", pair.delta.low, pair.delta.high, top + 28, 5);
    root
      .append("circle")
      .attr("class", "marker f0")
      .attr("cx", x(pair.delta.value))
      .attr("cy", top + 28)
      .attr("r", 6);
    if (pair.null) {
      whisker("s5", pair.null.low, pair.null.high, top + 43, 4);
      root
        .append("rect")
        .attr("class", "marker f5")
        .attr("x", x(pair.null.value) - 5)
        .attr("y", top + 38)
        .attr("width", 10)
        .attr("height", 10);
    }
  });
  root
    .append("g")
    .attr("transform", `translate(0,${height - 30})`)
    .call(
      axisBottom(x)
        .tickValues(width < 420 ? [-1, -0.474, 0, 0.474, 1] : [-1, -0.474, -0.33, -0.147, 0, 0.147, 0.33, 0.474, 1])
        .tickFormat((/** @type {number | null | undefined} */ value) => (value === 0 ? "0" : signed(value, width < 420 || Math.abs(value ?? 0) === 1 ? 1 : 2)))
        .tickSize(4),
    )
    .select(".domain")
    .remove();
  return svg;
}
