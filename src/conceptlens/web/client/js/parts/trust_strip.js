/** What was examined of a model, in one line above every view of it: findings first, then what was not measured. */
import { format } from "../address.js";
import { h } from "../dom.js";
import { command } from "./frame.js";

const OUTCOMES = [
  ["finding", "bad", "!", ["finding", "findings"]],
  ["unmeasured", "", "?", ["not measured", "not measured"]],
  ["pass", "good", "✓", ["passed", "passed"]],
];

/** @param {any} card of a trained model @returns {HTMLElement | null} */
export function trustStrip(card) {
  if (!card?.trust) return null;
  const sides = Object.entries(card.verdicts ?? {});
  if (!sides.length)
    return h(
      "aside",
      { class: "trust-strip", "aria-label": "What was examined" },
      h("span", { class: "tag warn" }, "Not examined"),
      h("span", {}, "Nothing is known yet of how far this model can be trusted. This command examines it: "),
      command(`conceptlens trust ${card.folder}`),
    );
  return h(
    "aside",
    { class: "trust-strip", "aria-label": "What was examined" },
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
