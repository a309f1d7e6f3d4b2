/** What was tested of a model, in one line above every view of it: findings first, then what was not measured. */
import { format } from "../address.js";
import { h } from "../dom.js";
import { plural } from "../words.js";
import { command } from "./frame.js";
import { meaning, sectionOf } from "./trust/meaning.js";

/** @type {Array<[string, string, (count: number) => string]>} */
const OUTCOMES = [
  ["finding", "bad", (count) => `! ${plural(count, "finding")}`],
  ["unmeasured", "", () => "? not measured"],
  ["pass", "good", (count) => `✓ ${count} passed`],
];

/** @type {Record<string, [string, string]>} */
const BADGES = { pass: ["✓ tested", "good"], finding: ["! findings", "bad"], unexamined: ["not tested", ""] };

/** What `conceptlens trust` found of a model, as one badge. @param {any} card @returns {HTMLElement | null} */
export const trustTag = (card) => (card?.trust ? h("span", { class: `tag ${BADGES[card.trust][1]}` }, BADGES[card.trust][0]) : null);

/** Of a comparison: how many of its models were tested, which its table does not say. @param {any[]} models */
function ofComparison(models) {
  const count = (/** @type {string} */ state) => models.filter((model) => model.trust === state).length;
  const parts = [
    count("finding") ? `${count("finding")} with findings` : "",
    count("pass") ? `${count("pass")} passed` : "",
    count("unexamined") === models.length ? "none tested" : count("unexamined") ? `${count("unexamined")} not tested` : "",
  ];
  return h(
    "aside",
    { class: "trust-strip", "aria-label": "What was tested" },
    h("span", { class: "tag warn" }, `${plural(models.length, "model")}: ${parts.filter(Boolean).join(", ")}`),
    h("span", {}, "The table compares accuracies. It does not say whether corrections, maps or calibration are good."),
  );
}

/** What is measured of results that are no model, by the name of its file. @type {Record<string, Record<string, string>>} */
const MEASURES = {
  decomposition: { validation: "whether the graph agrees with the network" },
  codebook: {
    masking: "effect of hidden tokens",
    pairs: "effect of exchanged tokens",
    bias: "concepts that appear together",
  },
  study: { analysis: "whether people rate the model's maps above shuffled ones" },
};

/** What measures it. @type {Record<string, string>} */
const COMMANDS = {
  decomposition: "conceptlens decompose with --validate-on",
  codebook: "conceptlens codebook mask, pairs and bias",
  study: "conceptlens study analyze",
};

/** Of a decomposed network, a codebook or a study: which of its tests were made. @param {any} card */
function ofResult(card) {
  const [done, open] = [true, false].map((there) =>
    Object.entries(MEASURES[card.kind])
      .filter(([name]) => card.has.includes(name) === there)
      .map(([, words]) => words),
  );
  return h(
    "aside",
    { class: "trust-strip", "aria-label": "What was tested" },
    done.length ? part("", "measured", done.join(", ")) : null,
    open.length ? part("", "? not measured", open.join(", "), " (", h("code", {}, COMMANDS[card.kind]), ")") : null,
  );
}

/** @param {string} look @param {string} words @param {...any} names */
const part = (look, words, ...names) =>
  h("span", { class: "strip-part" }, h("span", { class: `tag ${look}` }, words), h("span", {}, names));

/** @param {any} card of any kind @param {any[]} cards @returns {HTMLElement | null} */
export function trustStrip(card, cards) {
  const models = card?.kind === "comparison" ? cards.filter((each) => each.within === card.key && each.trust) : [];
  if (models.length) return ofComparison(models);
  if (card?.kind in MEASURES) return ofResult(card);
  if (!card?.trust) return null;
  const sides = Object.entries(card.verdicts ?? {});
  if (!sides.length)
    return h(
      "aside",
      { class: "trust-strip", "aria-label": "What was tested" },
      h("span", { class: "tag warn" }, "Not tested"),
      h("span", {}, "Nobody has tested yet how far this model can be trusted. This command tests it: "),
      command(`conceptlens trust ${card.folder}`),
    );
  return h(
    "aside",
    { class: "trust-strip", "aria-label": "What was tested" },
    OUTCOMES.map(([outcome, look, words]) => {
      const names = sides.filter(([, found]) => found === outcome).map(([side]) => side);
      return names.length ? part(look, words(names.length), names.map((side, place) => [place ? ", " : "", sideLink(card, side, outcome)])) : null;
    }),
    h("a", { href: format("trust", { run: card.key }) }, "What this means"),
  );
}

/** A side by its name, which leads to its section; what was found of it, in plain words, when the pointer rests on it. @param {any} card @param {string} side @param {string} outcome */
const sideLink = (card, side, outcome) =>
  h("a", { href: format("trust", { run: card.key, section: sectionOf(side) }), title: meaning(side, outcome) }, side);
