/** Subgroup performance: images grouped by metadata, each subgroup against all other images. From `trust/failures.json`. */
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { count, known, percent, plural } from "../../words.js";
import { cell, good, line, p, pointAxis, points, table, verdictLine, verdictTag } from "./words.js";
import { failed, ofGroups } from "./verdicts.js";

/** @type {Record<string, string>} */
const GOOD = {
  "class accuracy": "every subgroup is at the mark of all other images. A subgroup to the left of the mark is worse.",
  "concept accuracy": "every subgroup is at the mark of all other images. In a subgroup to the left of the mark, concepts are predicted worse.",
  "class overconfidence": "0 in every subgroup, where confidence equals accuracy. To the right of 0 the model is overconfident.",
  "concept overconfidence": "0 in every subgroup. To the right of 0 concept predictions are overconfident.",
};

/** @param {any} found */
export function subgroups(found, /** @type {{state: any, set: any}} */ { state, set }) {
  const head = verdictLine(ofGroups(found));
  const skipped = Object.entries(found.skipped).map(([name, why]) => `${name} is left out: ${why}`);
  const notes = [...found.notes, ...skipped].map((each) => h("li", {}, each));
  if (!found.groups.length) return [head, card("Notes", {}, h("ul", { class: "plain" }, notes))];
  const names = [...new Set(found.groups.flatMap((/** @type {any} */ group) => group.measures.map((/** @type {any} */ each) => each.measure)))];
  const measure = names.includes(state.measure) ? state.measure : names[0];
  const column = found.columns.includes(state.by) ? state.by : "";
  const shown = found.groups
    .filter((/** @type {any} */ group) => !column || group.column === column)
    .map((/** @type {any} */ group) => ({ group, each: group.measures.find((/** @type {any} */ one) => one.measure === measure) }))
    .filter((/** @type {{each: any}} */ { each }) => each);
  const gap = measure.includes("overconfidence");
  const read = gap ? points : percent;
  return [
    head,
    h(
      "div",
      { class: "row toolbar" },
      choice("Measure", names, measure, (key) => set({ measure: key === names[0] ? "" : key })),
      found.columns.length > 1
        ? choice("Subgroups by", [["", "every column"], ...found.columns], column, (key) => set({ by: key }))
        : null,
    ),
    h(
      "div",
      { class: "charts" },
      card(
        `By subgroup: ${measure}`,
        { note: `${count(found.images)} ${found.split} images. Bars are 95% intervals.` },
        rows(
          shown.map((/** @type {{group: any, each: any}} */ { group, each }) => ({
            name: `${group.column}: ${group.group}`,
            marks: [
              { ...each.value, kind: 0 },
              { value: known(each.difference.value) ? each.value.value - each.difference.value : null, kind: 2 },
            ],
          })),
          {
            label: `${measure} by subgroup`,
            kinds: ["the subgroup", null, "all other images"],
            bounds: gap ? [{ name: "no overconfidence", value: 0, faint: true }] : [],
            read,
            axis: gap ? pointAxis : undefined,
            within: gap ? null : [0, 1],
          },
        ),
        good(GOOD[measure] ?? "every subgroup is like all other images."),
      ),
      card(
        "Significance tests",
        {
          note: found.comparisons
            ? `p-values are corrected for ${plural(found.comparisons, "comparison")}; below ${found.level} a difference is significant.`
            : "Every subgroup, or all images outside it, are too few to be tested.",
        },
        table(
          "Subgroups against all other images",
          ["Subgroup", "Images", "Difference", "p", "p beyond classes", "Detectable difference"],
          shown.map((/** @type {{group: any, each: any}} */ { group, each }) =>
            line(
              [`${group.column}: ${group.group} `, failed(each, found.level) ? verdictTag("bad", "worse") : null],
              h("td", { class: "num" }, count(group.images)),
              cell(each.difference, points),
              h("td", { class: "num" }, known(each.p) ? p(each.p) : "too few"),
              h("td", { class: "num" }, p(each.p_beyond_classes)),
              h("td", { class: "num" }, points(each.detectable).replace("+", "± ")),
            ),
          ),
        ),
        h(
          "p",
          { class: "note" },
          "Beyond classes: the same test, compared with the value expected from the classes in the subgroup. Detectable difference: four tests in five find a difference of this size; a smaller one may be missed.",
        ),
      ),
    ),
    notes.length ? card("Notes", {}, h("ul", { class: "plain" }, notes)) : null,
  ];
}
