/** What was tested of a model, in one line above every view of it: findings first, then what was not measured. */
import { format } from "../address.js";
import { h } from "../dom.js";
import { plural } from "../words.js";
import { command } from "./frame.js";

const OUTCOMES = [
  ["finding", "bad", "!", ["finding", "findings"]],
  ["unmeasured", "", "?", ["not measured", "not measured"]],
  ["pass", "good", "✓", ["passed", "passed"]],
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

/** @param {any} card of a trained model, or of a comparison @param {any[]} cards @returns {HTMLElement | null} */
export function trustStrip(card, cards) {
  const models = card?.kind === "comparison" ? cards.filter((each) => each.within === card.key && each.trust) : [];
  if (models.length) return ofComparison(models);
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
    OUTCOMES.map(([outcome, look, sign, [one, many]]) => {
      const names = sides.filter(([, found]) => found === outcome).map(([side]) => side);
      if (!names.length) return null;
      const counted = outcome === "unmeasured" ? many : `${names.length} ${names.length === 1 ? one : many}`;
      return h(
        "span",
        { class: "strip-part" },
        h("span", { class: `tag ${look}` }, `${sign} ${counted}`),
        h("span", {}, names.join(", ")),
      );
    }),
    h("a", { href: format("trust", { run: card.key }) }, "Why"),
  );
}
