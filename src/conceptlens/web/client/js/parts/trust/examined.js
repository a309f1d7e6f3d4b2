/** The verdicts of `conceptlens trust`, findings first; or the command, where nobody has asked it. */
import { h } from "../../dom.js";
import { card, command } from "../frame.js";
import { meaning } from "./meaning.js";
import { verdictTag, verdictWords } from "./words.js";

/** @type {Record<string, string[]>} */
const LOOK = { finding: ["bad", "finding"], pass: ["good", "passed"], unmeasured: ["none", "not measured"] };

/** @param {any} document @param {string} how */
export function examined(document, how) {
  if (!document?.verdicts) return how ? card("Test all of it", { note: "One command measures everything below that this model and its data allow." }, command(how)) : null;
  const order = Object.keys(LOOK);
  const rows = Object.entries(document.verdicts).sort(
    ([, a], [, b]) => order.indexOf(a.outcome) - order.indexOf(b.outcome),
  );
  return card(
    "Verdicts",
    {},
    h(
      "ul",
      { class: "verdicts" },
      rows.map(([side, { outcome, reason }]) =>
        h("li", {}, verdictTag(LOOK[outcome][0], LOOK[outcome][1]), h("b", {}, ` ${side}: `), verdictWords(meaning(side, outcome), reason)),
      ),
    ),
  );
}
