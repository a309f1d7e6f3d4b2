/** Interventions: what a person's corrections, right and wrong, do to the class. From `trust/interventions.json`. */
import { curves, span } from "../../charts/curves.js";
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { imageName } from "../image_name.js";
import { count, known, percent, plural, short, signed } from "../../words.js";
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
      ["Room for corrections", points(found.headroom.value), "without room no correction can help"],
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
  uncertainty: "uncertainty: what it is least sure of first",
  influence: "influence: what moves the class most first",
  "expected gain": "expected gain: what would settle the class first",
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
      { note: "Class accuracy as a person who knows corrects one after the other. Bands are 95% intervals." },
      curves(series("points"), { ...options, label: "Class accuracy with right corrections" }),
      good(
        "the curve climbs to the dashed line. One that falls says that the class is read from something else than what the concepts are called.",
      ),
    ),
    card(
      "Wrong corrections",
      { note: "The same, with every answer wrong: what a careless or mistaken word costs." },
      curves(series("wrong"), {
        ...options,
        x: `${found.by} set to a wrong answer`,
        label: "Class accuracy with wrong corrections",
      }),
      good(
        "it falls, since a class that is decided by its concepts follows them. One that stays up with every concept wrong is decided elsewhere.",
      ),
    ),
  ];
}

/** @param {any} found */
function controls(found) {
  if (!found.ways?.length) return null;
  return card(
    `All ${found.by} told, by how an answer is written`,
    {
      note: `Class accuracy. Confirmed: told what the model says itself. Hardened: the same, each yes and no as 1 and 0. The first row is what the page writes; a head that reads labels alone falls to ${percent(found.curves[0]?.wrong_labels?.at(-1)?.value)} with wrong answers.`,
    },
    table(
      "Ways of writing an answer",
      ["Written as", "Confirmed", "Truth", "Wrong", "Hardened"],
      found.ways.map((/** @type {any} */ each) =>
        line(each.way, cell(each.sham), cell(each.truth), cell(each.wrong), cell(each.hardened)),
      ),
    ),
    good("confirming changes little, the truth comes close to the ceiling, wrong answers cost as much as with labels alone."),
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
    good("much accuracy early. An order is worth its questions if its area lies above that of chance."),
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
      note: `Change of accuracy when only this one is corrected, or spoilt${few.length < order.length ? `: the ${SHOWN / 2} best and worst of ${order.length}` : ""}.`,
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
    good("corrections to the right of 0, wrong answers to the left. Both at 0: nothing depends on this concept."),
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
      note: `Of images that are surely a class (above ${percent(tests[0].threshold, 0)}), the concepts that matter most take the mean scores of ${tests[0].instead}; how far the probability of the class falls.`,
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
        kinds: ["the concepts that matter most", "as many others at random"],
        bounds: [{ name: "no change", value: 0, faint: true }],
        read: change,
        axis: (value) => `${pointAxis(value)}%`,
      },
    ),
    good("a large fall, and a far larger one than with as many other concepts chosen at random."),
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
    "Answers that must change to flip the class",
    {
      note: `${found.flips.median === null ? "" : `Half of the decisions flip with ${found.flips.median} or fewer. `}${found.flips.kind === "exact" ? "Exact: no smaller set exists." : "Found step by step; smaller sets may exist."}`,
    },
    h(
      "ul",
      { class: "shares", "aria-label": "Images by the number of answers that must change" },
      [...sizes, ...(found.flips.cannot ? [["never", found.flips.cannot]] : [])].map(([size, images]) =>
        h(
          "li",
          {},
          h("span", { class: "name" }, size === "never" ? "none flips it" : plural(size, "answer")),
          h("span", { class: "track" }, h("span", { class: "bar-fill", style: { width: `${(100 * images) / top}%` } })),
          h("span", { class: "num" }, count(images)),
        ),
      ),
    ),
    good("a few. One answer says that a class depends on a single concept; very many, that no concept counts by itself."),
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
    { note: "For the least sure images: the concept whose answer would settle the class most, in nats." },
    table(
      "Questions",
      ["Image", ["It says"], ["Ask about"], "Settles"],
      asked
        .slice(0, 8)
        .map((/** @type {any} */ each) =>
          line(
            imageName(run, found.split, each.image),
            h("td", {}, each.said),
            h("td", {}, each.ask[0].unit),
            h("td", { class: "num" }, short(each.ask[0].expected_gain)),
          ),
        ),
    ),
    good("a first question that settles clearly more than 0: one answer from a person is then worth asking for."),
  );
}
