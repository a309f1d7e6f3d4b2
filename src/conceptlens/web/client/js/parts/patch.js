/** One patch: which code it is nearest to, which slots it goes to, which concepts look at it. */
import { format } from "../address.js";
import { h } from "../dom.js";
import { percent } from "../words.js";
import { crop } from "./crop.js";
import { movedChips } from "./evidence.js";

/**
 * @param {{run: string, prediction: any, maps: import("../maps.js").Maps, patch: number, onconcept: (k: number) => void}} options
 */
export function patchFacts({ run, prediction, maps, patch, onconcept }) {
  const [, columns] = maps.grid;
  const code = maps.index?.codes[patch];
  const legend = maps.index?.legend.find((/** @type {any} */ each) => each.code === code);
  const slots = [...maps.assignment]
    .map(([slot, values]) => ({ slot, share: values[patch] }))
    .sort((a, b) => b.share - a.share)
    .slice(0, 3)
    .filter((each) => each.share > 0.01);
  const readers = (/** @type {any} */ slot) => prediction.concepts.filter((/** @type {any} */ each) => each.slot === slot);
  const nameOf = (/** @type {number} */ slot) => {
    const read = readers(slot);
    if (!read.length) return "no concept reads it";
    const groups = [...new Set(read.map((/** @type {any} */ each) => each.group))];
    return read.length === 1 ? read[0].name : groups.length === 1 ? groups[0] : `${read.length} concepts`;
  };
  return h(
    "div",
    { class: "patch" },
    h(
      "div",
      { class: "row top-row" },
      crop(prediction.picture.replace(/^\//, ""), maps.grid, patch, {
        side: 96,
        label: "the patch and what is around it",
      }),
      h(
        "dl",
        { class: "facts" },
        h("dt", {}, "Patch"),
        h("dd", {}, `row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}`),
        code === undefined
          ? null
          : [
              h("dt", {}, "Code"),
              h(
                "dd",
                {},
                h("span", { class: "dot", style: { background: legend?.color ?? "#808080" } }),
                h("a", { href: format("concepts", { run, what: "codebook", code }) }, `code ${code}`),
                `, ${legend?.name ?? "unnamed"} `,
                h("span", { class: "note" }, `similarity ${(maps.index.similarity?.[patch] ?? NaN).toFixed(2)}`),
              ),
            ],
        slots.length
          ? [
              h("dt", {}, "Slots"),
              h(
                "dd",
                {},
                slots.map((each) =>
                  h(
                    "div",
                    {},
                    `${nameOf(each.slot)} `,
                    h("span", { class: "note" }, `slot ${each.slot}, ${percent(each.share, 0)}`),
                  ),
                ),
              ),
            ]
          : null,
      ),
    ),
    maps.evidence.size
      ? movedChips(maps, prediction, patch, onconcept)
      : listOf("Concepts that attend here most", maps, prediction, "attention", patch, onconcept),
    listOf("Concepts whose score this patch raises most (Grad-CAM)", maps, prediction, "gradcam", patch, onconcept),
  );
}

/** Concepts by how much of their map lies on the patch, among those whose maps differ. @param {string} title @param {any} maps @param {Answers.Prediction} prediction @param {string} kind @param {number} patch @param {any} onconcept */
function listOf(title, maps, prediction, kind, patch, onconcept) {
  const seen = new Set();
  const found = prediction.concepts
    .map((each) => {
      const values = maps.of(kind, each.index);
      if (!values) return null;
      const sum = values.reduce((/** @type {any} */ a, /** @type {any} */ b) => a + b, 0);
      return { each, share: sum > 0 ? values[patch] / sum : 0, slot: kind === "attention" ? each.slot : each.index };
    })
    .filter((each) => each !== null)
    .filter((each) => each.share > 0)
    .sort((a, b) => b.share - a.share)
    .filter((each) => !seen.has(each.slot) && seen.add(each.slot))
    .slice(0, 4);
  if (!found.length) return null;
  return [
    h("h3", {}, title),
    h(
      "ul",
      { class: "chips" },
      found.map(({ each, share }) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "chip", onclick: () => onconcept(each.index) },
            each.name,
            h("span", { class: "note" }, ` ${percent(share)} of its map`),
          ),
        ),
      ),
    ),
  ];
}
