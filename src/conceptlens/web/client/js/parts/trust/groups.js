/** Whom it fails: groups of images by their metadata, each against all other images. From `trust/failures.json`. */
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { count, known, percent, plural } from "../../words.js";
import { cell, good, line, p, pointAxis, points, table, verdictLine, verdictTag } from "./words.js";
import { failed, ofGroups } from "./verdicts.js";

const GOOD = {
  "class accuracy": "every group's mark on that of the rest; a group to the left of it is served worse.",
  "concept accuracy": "every group's mark on that of the rest; a group to the left of it has its concepts read worse.",
  "class overconfidence": "0 in every group: as sure as right. To the right of 0 the model is too sure of this group.",
  "concept overconfidence": "0 in every group. To the right of 0 its concepts are stated too surely.",
};

export function groups(found, { state, set }) {
  const head = verdictLine(ofGroups(found));
  const skipped = Object.entries(found.skipped).map(([name, why]) => `${name} is left out: ${why}`);
  const notes = [...found.notes, ...skipped].map((each) => h("li", {}, each));
  if (!found.groups.length) return [head, card("What was looked at", {}, h("ul", { class: "plain" }, notes))];
  const names = [...new Set(found.groups.flatMap((group) => group.measures.map((each) => each.measure)))];
  const measure = names.includes(state.measure) ? state.measure : names[0];
  const column = found.columns.includes(state.by) ? state.by : "";
  const shown = found.groups
    .filter((group) => !column || group.column === column)
    .map((group) => ({ group, each: group.measures.find((one) => one.measure === measure) }))
    .filter(({ each }) => each);
  const gap = measure.includes("overconfidence");
  const read = gap ? points : percent;
  return [
    head,
    h(
      "div",
      { class: "row toolbar" },
      choice("Measure", names, measure, (key) => set({ measure: key === names[0] ? "" : key })),
      found.columns.length > 1
        ? choice("Groups by", [["", "every column"], ...found.columns], column, (key) => set({ by: key }))
        : null,
    ),
    h(
      "div",
      { class: "charts" },
      card(
        `By group: ${measure}`,
        { note: `${count(found.images)} ${found.split} images. Bars are 95% intervals.` },
        rows(
          shown.map(({ group, each }) => ({
            name: `${group.column}: ${group.group}`,
            marks: [
              { ...each.value, kind: 0 },
              { value: known(each.difference.value) ? each.value.value - each.difference.value : null, kind: 2 },
            ],
          })),
          {
            label: `${measure} by group`,
            kinds: ["the group", null, "all other images"],
            bounds: gap ? [{ name: "as sure as right", value: 0, faint: true }] : [],
            read,
            axis: gap ? pointAxis : undefined,
            within: gap ? null : [0, 1],
          },
        ),
        good(GOOD[measure] ?? "every group as all other images."),
      ),
      card(
        "Is it chance?",
        {
          note: found.comparisons
            ? `p-values are corrected for ${plural(found.comparisons, "comparison")}; below ${found.level} a difference is called certain.`
            : "Every group, or its rest, has too few images to be tested.",
        },
        table(
          "Groups against all other images",
          ["Group", "Images", "Difference", "p", "p beyond classes", "Would be found"],
          shown.map(({ group, each }) =>
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
          "Beyond classes: the same once a group is compared with what its classes lead one to expect. Would be found: the difference that four tests in five notice; a smaller one may be missed.",
        ),
      ),
    ),
    notes.length ? card("What to keep in mind", {}, h("ul", { class: "plain" }, notes)) : null,
  ];
}
