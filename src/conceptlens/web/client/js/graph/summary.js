/** What a graph is of, and how far to trust it: what stands beside it while no node is open. */
import { h } from "../dom.js";
import { card as box } from "../parts/frame.js";
import { count, percent } from "../words.js";

/** @param {any} answer @param {(number: number) => string} image the address of an image */
export function summary(answer, image) {
  const found = answer.completeness;
  return box(
    "About this graph",
    { note: "Click a node, or find one, to see its samples." },
    h(
      "dl",
      { class: "facts" },
      h("dt", {}, "Model"),
      h("dd", {}, breakable(answer.model)),
      h("dt", {}, "Images"),
      h("dd", {}, count(answer.images)),
      h("dt", {}, "Path, target"),
      h("dd", {}, `${answer.path}, ${answer.target}`),
      h("dt", {}, "Completeness"),
      h(
        "dd",
        {},
        `sums are off by ${percent(found.mean, 2)} of all that concepts add and take away, ${percent(found.worst)} at most`,
      ),
    ),
    answer.examples.length
      ? h(
          "ul",
          { class: "graph-crops" },
          answer.examples.map((/** @type {{number: number, name: string}} */ { number, name }) =>
            h("li", {}, h("img", { class: "crop", src: image(number), alt: name, title: name, loading: "lazy" })),
          ),
        )
      : null,
    h("h3", {}, "Unexplained, by layer"),
    h(
      "ul",
      { class: "shares" },
      [...answer.rows].reverse().map((row) =>
        h(
          "li",
          { title: `${row.layer}: relative l2 ${row.relative_l2.toFixed(2)}, ${count(row.concepts)} concepts` },
          h("span", { class: "name" }, row.layer),
          h(
            "span",
            { class: "track", "aria-hidden": "true" },
            h("span", {
              class: "bar-fill neutral",
              style: { width: `${Math.min(100, 100 * Math.abs(row.error_share))}%` },
            }),
          ),
          h("span", { class: "num" }, percent(row.error_share)),
        ),
      ),
    ),
    h("p", { class: "note" }, "The share of a layer's effect on the outputs that its concepts do not reconstruct."),
  );
}

/** A path or a name of code on several lines, broken where a reader would break it. @param {string} name */
const breakable = (name) => name.split(/(?<=[/:])/).flatMap((piece) => [piece, h("wbr", {})]);
