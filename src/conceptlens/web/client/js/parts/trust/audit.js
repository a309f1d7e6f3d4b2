/** The findings of the audit; from `audit/audit.json`. */
import { format } from "../../address.js";
import { h } from "../../dom.js";
import { card } from "../frame.js";
import { count, plural } from "../../words.js";

/** @type {Record<string, string>} */
const KINDS = {
  "never predicted": "present but hardly ever predicted",
  "at chance": "predicted no better than by chance",
  "no influence": "no influence on the class",
  duplicate: "nearly the same scores as another",
  "empty slot": "its slot gets hardly any patches",
};

/** @param {any} found */
export function audit(found, /** @type {{run: string}} */ { run }) {
  const failures = found.failures.findings;
  const elsewhere = found.trust.map((/** @type {any} */ each) => `${each.file}: ${each.says.join(" ")}`);
  const own = found.findings.filter((/** @type {any} */ each) => !failures.includes(each) && !elsewhere.includes(each));
  const list = (/** @type {any[]} */ sentences) =>
    h(
      "ul",
      { class: "sentences" },
      sentences.map((/** @type {any} */ each) => h("li", {}, each)),
    );
  const flagged = found.concepts.filter((/** @type {any} */ each) => each.kinds.length);
  return [
    card(
      "Codebook and concepts",
      {
        note: `${count(found.images)} ${found.split} images. Good: the list is short and names neither dormant codes nor concepts at chance.`,
      },
      own.length ? list(own) : h("p", {}, "There are no findings."),
    ),
    h(
      "div",
      { class: "charts" },
      card(
        "Subgroups, calibration and images out of distribution",
        { note: "Good: no subgroup is worse, prediction sets reach their coverage, and few images are out of distribution." },
        failures.length ? list(failures) : h("p", {}, "There are no findings."),
      ),
      flagged.length
        ? card(
            "Concepts to look at",
            { note: `${plural(flagged.length, "concept")} of ${count(found.concepts.length)}. Good: none.` },
            h(
              "ul",
              { class: "plain flagged" },
              flagged.map((/** @type {any} */ each) =>
                h(
                  "li",
                  {},
                  h("a", { href: format("concepts", { run, concept: found.concepts.indexOf(each) }) }, each.concept),
                  each.kinds.map((/** @type {string} */ kind) => h("span", { class: "tag warn" }, KINDS[kind] ?? kind)),
                ),
              ),
            ),
          )
        : null,
    ),
  ];
}
