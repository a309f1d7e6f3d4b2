/** Interventions: what a person's corrections, right and wrong, do to the class. From `trust/interventions.json`. */
import { curves, span } from "../../charts/curves.js";
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { natsUnit, natsNumber } from "../../plain.js";
import { imageName } from "../image_name.js";
import { count, known, percent, plural, signed } from "../../words.js";
import { cell, facts, good, line, more, pointAxis, points, table, verdictLine } from "./words.js";
import { ofInterventions } from "./verdicts.js";

const SHOWN = 24; // single corrections in the figure

/** @param {any} found @param {{run: string, state: Record<string, string>, set: (changes: object) => void}} view */
export function corrections(found, { run, state, set }) {
  const policies = found.curves.map((/** @type {any} */ each) => each.policy);
  const order = policies.includes(state.order) ? state.order : "";
  return [
    verdictLine(ofInterventions(found)),
    facts([
      ["With nothing corrected", percent(found.start.value), `${count(found.images)} ${found.split} images`],
      ["Label → class ceiling", percent(found.ceiling.value), "what the true concepts alone allow"],
      ["Room for corrections", points(found.headroom.value), "without room, corrections cannot help"],
    ]),
    found.notes.map((/** @type {any} */ each) => h("p", { class: "notice" }, each)),
    found.curves.length
      ? [
          h(
            "div",
            { class: "row toolbar" },
            choice(
              "Order of correction",
              [["", "all orders"], ...policies.map((/** @type {any} */ each) => [each, ABOUT_ORDER[each] ?? each])],
              order,
              (key) => set({ order: key }),
            ),
          ),
          h("div", { class: "charts" }, ...bothWays(found, order)),
          controls(found),
          numbers(found),
        ]
      : null,
    h("div", { class: "charts" }, alone(found), counterfactuals(found), flips(found, run), ask(found, run)),
  ];
}

/** @type {Record<string, string>} */
const ABOUT_ORDER = {
  chance: "chance: in any order",
  uncertainty: "uncertainty: the least certain concept first",
  influence: "influence: the concept that changes the class most first",
  "expected gain": "expected gain: the most informative concept first",
};

/** @param {any} found @param {string} order */
function bothWays(found, order) {
  const shown = found.curves
    .map((/** @type {any} */ each, /** @type {number} */ place) => ({ ...each, place }))
    .filter((/** @type {any} */ each) => !order || each.policy === order);
  const series = (/** @type {string} */ key) =>
    shown.map((/** @type {any} */ each) => ({
      name: each.policy,
      place: each.place,
      points: each[key].map((/** @type {any} */ estimate, /** @type {number} */ step) => [step, estimate.value, estimate.interval]),
    }));
  const bounds = [
    { name: "label → class ceiling", value: found.ceiling.value },
    { name: "nothing corrected", value: found.start.value, faint: true },
  ];
  // One scale for both, so that what a wrong word costs can be held against what a right one is worth.
  const [low, high] = span(
    [...series("points"), ...series("wrong")],
    bounds.filter((each) => known(each.value)),
  );
  const options = { x: `${found.by} corrected`, bounds, domain: [Math.max(0, low), Math.min(1, high)] };
  return [
    card(
      "Right corrections",
      { note: "Class accuracy while an expert corrects one concept after another. Bands are 95% intervals." },
      curves(series("points"), { ...options, label: "Class accuracy with right corrections" }),
      good(
        "the curve rises to the dashed line. If it falls, the class depends on something other than what the concepts are named after.",
      ),
    ),
    card(
      "Wrong corrections",
      { note: "The same with wrong answers only: what careless or mistaken corrections cost." },
      curves(series("wrong"), {
        ...options,
        x: `${found.by} set to a wrong answer`,
        label: "Class accuracy with wrong corrections",
      }),
      good(
        "the curve falls, because a class that depends on its concepts follows them. If it stays high with every concept wrong, the class depends on something else.",
      ),
    ),
  ];
}

/** @param {any} found */
function controls(found) {
  if (!found.ways?.length) return null;
  return card(
    `All ${found.by} corrected, by how an answer is written`,
    {
      note: `Class accuracy. Confirmed: the model's own answers are written back. Hardened: the same, with each yes and no as 1 and 0. The first row is how the page writes answers. A head that reads labels alone falls to ${percent(found.curves[0]?.wrong_labels?.at(-1)?.value)} with wrong answers.`,
    },
    table(
      "Ways of writing an answer",
      ["Written as", "Confirmed", "Truth", "Wrong", "Hardened"],
      found.ways.map((/** @type {any} */ each) =>
        line(each.way, cell(each.sham), cell(each.truth), cell(each.wrong), cell(each.hardened)),
      ),
    ),
    good("confirming changes little, true answers come close to the ceiling, and wrong answers cost as much as with labels alone."),
  );
}

/** @param {any} found */
function numbers(found) {
  return card(
    "The orders compared",
    { note: "Area: mean accuracy over all steps. Gain: that area above the start." },
    table(
      "Orders of correction",
      ["Order", "All corrected", "Area", "Gain", "All wrong", "Area, wrong"],
      found.curves.map((/** @type {any} */ each) =>
        line(
          [each.policy, each.note ? h("small", { class: "note" }, ` ${each.note}`) : null],
          cell(each.points.at(-1)),
          cell(each.area),
          cell(each.gain, points),
          cell(each.wrong.at(-1)),
          cell(each.wrong_area),
        ),
      ),
    ),
    good("accuracy rises early. An order is useful if its area is larger than that of chance."),
  );
}

/** @param {any} found */
function alone(found) {
  if (!found.alone.length) return null;
  const order = [...found.alone].sort((a, b) => (b.corrected.value ?? 0) - (a.corrected.value ?? 0));
  const few = order.length > SHOWN ? [...order.slice(0, SHOWN / 2), ...order.slice(-SHOWN / 2)] : order;
  return card(
    "One at a time",
    {
      note: `Change of accuracy when only this one is corrected, or set to a wrong answer${few.length < order.length ? `: the ${SHOWN / 2} best and worst of ${order.length}` : ""}.`,
    },
    rows(
      few.map((each) => ({
        name: each.unit,
        marks: [
          { ...each.corrected, kind: 0 },
          { ...each.wrong, kind: 1 },
        ],
      })),
      {
        label: "Change of accuracy by one correction",
        kinds: ["corrected", "set to a wrong answer"],
        bounds: [
          { name: "no change", value: 0, faint: true },
          { name: "room to the ceiling", value: found.headroom.value },
        ],
        read: points,
        axis: pointAxis,
      },
    ),
    good("corrections are to the right of 0 and wrong answers to the left. If both are at 0, nothing depends on this concept."),
  );
}

/** A change relative to what was. @param {number} value */
const change = (value, digits = 1) => (known(value) ? `${signed(100 * value, digits)}%` : "–");

/** @param {any} found */
function counterfactuals(found) {
  const tests = found.counterfactuals.filter((/** @type {any} */ each) => each.rows.length > 1);
  if (!tests.length) return null;
  return card(
    "If its concepts were another class's",
    {
      note: `In images with a confident prediction (above ${percent(tests[0].threshold, 0)}), the most important concepts get the mean scores of ${tests[0].instead}. The bars show how far the probability of the class falls.`,
    },
    rows(
      tests.map((/** @type {any} */ each) => ({
        name: each.of,
        marks: [
          { ...each.rows.at(-1).relative_change, kind: 0 },
          ...(each.random ? [{ ...each.random.relative_change, kind: 1 }] : []),
        ],
      })),
      {
        label: "Relative change of the probability of a class",
        kinds: ["the most important concepts", "as many other concepts at random"],
        bounds: [{ name: "no change", value: 0, faint: true }],
        read: change,
        axis: (value) => `${pointAxis(value)}%`,
      },
    ),
    good("a large fall, much larger than with as many other concepts chosen at random."),
    more(
      "In numbers",
      table(
        "Counterfactual test",
        ["Class", "Images", ["Concepts"], "Probability", "Change"],
        tests.flatMap((/** @type {any} */ each) =>
          [...each.rows, ...(each.random ? [each.random] : [])].map((row, place) =>
            line(
              place ? "" : each.of,
              h("td", { class: "num" }, place ? "" : count(each.images)),
              h("td", {}, row === each.random ? "others at random" : row.intervene_on.join(", ") || "none"),
              cell(row.probability),
              cell(row.relative_change, change),
            ),
          ),
        ),
      ),
    ),
  );
}

/** @param {any} found @param {string} run */
function flips(found, run) {
  if (!found.flips) return null;
  const sizes = Object.entries(found.flips.sizes).map(([size, images]) => [Number(size), images]);
  const top = Math.max(1, ...sizes.map((each) => each[1]));
  return card(
    "How many answers must change to change the class",
    {
      note: `${found.flips.median === null ? "" : `Half of the decisions change with ${found.flips.median} or fewer. `}${found.flips.kind === "exact" ? "Exact: no smaller set exists." : "Found step by step; smaller sets may exist."}`,
    },
    h(
      "ul",
      { class: "shares", "aria-label": "Images by the number of answers that must change" },
      [...sizes, ...(found.flips.cannot ? [["never", found.flips.cannot]] : [])].map(([size, images]) =>
        h(
          "li",
          {},
          h("span", { class: "name" }, size === "never" ? "no change is enough" : plural(size, "answer")),
          h("span", { class: "track" }, h("span", { class: "bar-fill", style: { width: `${(100 * images) / top}%` } })),
          h("span", { class: "num" }, count(images)),
        ),
      ),
    ),
    good("a few. If one answer is enough, the class depends on a single concept. If very many are needed, no concept matters by itself."),
    found.flips.examples.length
      ? more(
          "Examples",
          h(
            "ul",
            { class: "plain" },
            found.flips.examples
              .slice(0, 6)
              .map((/** @type {any} */ each) =>
                h(
                  "li",
                  {},
                  imageName(run, found.split, each.image),
                  each.edits
                    ? ` ${each.before} → ${each.after} with ${each.edits.map((/** @type {any} */ edit) => `${edit.group} = ${edit.answer}`).join(", ")}`
                    : ` stays ${each.before} whatever is changed`,
                ),
              ),
          ),
        )
      : null,
  );
}

/** @param {any} found @param {string} run */
function ask(found, run) {
  const asked = found.ask.filter((/** @type {any} */ each) => each.ask.length);
  if (!asked.length) return null;
  return card(
    "What to ask a person next",
    { note: `For the least certain images: the concept whose answer would reduce the doubt about the class most, in ${natsUnit()}.` },
    table(
      "Questions",
      ["Image", ["Predicted"], ["Ask about"], "Expected gain"],
      asked
        .slice(0, 8)
        .map((/** @type {any} */ each) =>
          line(
            imageName(run, found.split, each.image),
            h("td", {}, each.said),
            h("td", {}, each.ask[0].unit),
            h("td", { class: "num" }, natsNumber(each.ask[0].expected_gain)),
          ),
        ),
    ),
    good("the expected gain is clearly above 0. Then one answer from a person is worth asking for."),
  );
}
