/** The plots of a comparison, drawn from its numbers. A block keeps its color; a plot of intervals is of one block only. */
import { curves } from "../charts/curves.js";
import { dots } from "../charts/dots.js";
import { plane } from "../charts/plane.js";
import { MEASURES } from "../measures.js";
import { percent, short } from "../words.js";

export const ORDER = ["text", "class-table", "image-labels", "class-labels"]; // a block's color, whatever is filtered
/** @param {string} key */
export const measureOf = (key) =>
  MEASURES.find((each) => each.key === key) ?? { key, name: key, about: "", read: percent };

/**
 * Intervals of a measure, a plot for each block; the measure against effective concepts; rank by epoch.
 * @param {any} data a data set whose blocks have the rows to draw in `shown` @param {string} by the measure
 * @returns {Array<{title: string, file: string, about: string, node: any, svg: () => SVGSVGElement}>}
 */
export function figures(data, by) {
  const measure = measureOf(by);
  return [
    ...data.blocks.map((/** @type {any} */ block) => intervals(block, measure, before(data, by))),
    against(data, measure),
    ...ranks(data),
  ]
    .filter(Boolean)
    .map((each) => ({ ...each, svg: () => (each.node.matches("svg") ? each.node : each.node.querySelector("svg")) }));
}

/** What the encoder knew before any training, of a measure that it can be asked. @param {any} data @param {string} by */
function before(data, by) {
  const key = { "concept.auc": "auc", "concept.auc_within_class": "auc_within_class" }[by];
  const value = key && data.zero_shot.find((/** @type {any} */ each) => each[key] !== null)?.[key];
  return value ? { name: "before any training", value } : null;
}

/** @param {any} block @param {any} measure @param {any} bound */
function intervals(block, measure, bound) {
  const rows = block.shown.filter((/** @type {any} */ row) => row.measures[measure.key]);
  if (!rows.length) return null;
  const ends = rows.flatMap((/** @type {any} */ row) => row.measures[measure.key].interval ?? [row.measures[measure.key].mean]);
  const values = [...ends, ...(bound ? [bound.value] : [])];
  const pad = Math.max(0.02, 0.1 * (Math.max(...values) - Math.min(...values)));
  const about = measure.about ? `${measure.about[0].toUpperCase()}${measure.about.slice(1)}. ` : "";
  return {
    title: `${measure.name}: ${block.title.toLowerCase()}`,
    file: `${block.supervision}-intervals`,
    about: `${about}Hollow: with random text.${bound ? " Dashed: the encoder before any training." : ""}`,
    node: dots(
      rows.map((/** @type {any} */ row) => ({
        name: row.name,
        value: row.measures[measure.key].mean,
        interval: row.measures[measure.key].interval,
        place: ORDER.indexOf(block.supervision),
        hollow: Boolean(row.control_of),
      })),
      {
        label: `${measure.name}, ${block.title}`,
        read: measure.read,
        bound,
        names: 190,
        domain: [Math.max(0, Math.min(...values) - pad), Math.min(1, Math.max(...values) + pad)],
      },
    ),
  };
}

/** @param {any} data @param {any} measure */
function against(data, measure) {
  const points = data.blocks.flatMap((/** @type {any} */ block, /** @type {Answers.GroupPart} */ group) =>
    block.shown
      .filter((/** @type {any} */ row) => row.measures[measure.key] && row.numbers.effective_concepts)
      .map((/** @type {any} */ row) => ({
        name: row.name,
        x: row.numbers.effective_concepts.mean,
        y: row.measures[measure.key].mean,
        interval: row.measures[measure.key].interval,
        group,
        hollow: Boolean(row.control_of),
      })),
  );
  if (!points.length) return null;
  const title = `${measure.name} against effective concepts`;
  return {
    title,
    file: "effective-concepts",
    about:
      "How many concepts the class head uses for a class, on average. A person can check a class that uses few of them.",
    node: plane(points, {
      label: title,
      x: "effective concepts a class",
      groups: data.blocks.map((/** @type {any} */ block) => ({ name: block.title, place: ORDER.indexOf(block.supervision) })),
    }),
  };
}

const RANKS = {
  effective: ["Effective rank by epoch", "How many directions the patches of an image use"],
  published: ["Published rank by epoch", "The rank as the paper's code counts it"],
};

/** @param {any} data */
function ranks(data) {
  return Object.entries(RANKS).map(([kind, [title, about]]) => {
    const drawn = data.blocks
      .flatMap((/** @type {any} */ block) => block.shown)
      .filter((/** @type {any} */ row) => row.ranks[`rank.${kind}`]?.length > 1)
      .map((/** @type {any} */ row, /** @type {number} */ place) => ({
        name: row.name,
        place,
        points: row.ranks[`rank.${kind}`].map((/** @type {any} */ [epoch, mean, low, high]) => [epoch, mean, [low, high]]),
      }));
    if (!drawn.length) return null;
    return {
      title,
      file: `rank-${kind}`,
      about: `${about}; the shade spans the lowest and the highest seed.`,
      node: curves(drawn, { label: title, x: "epoch", read: short, marks: false }),
    };
  });
}
