/** What the audit found, in plain sentences; from `audit/audit.json`. */
import { format } from "../../address.js";
import { h } from "../../dom.js";
import { card } from "../frame.js";
import { count, plural } from "../../words.js";

const KINDS = {
  "never said": "hardly ever said, though it holds",
  unread: "read no better than by chance",
  idle: "of no weight for the class",
  double: "says the same as another",
  unfed: "its slot gets no patch",
};

export function audit(found, { run }) {
  const failures = found.failures.findings;
  const elsewhere = found.trust.map((each) => `${each.file}: ${each.says.join(" ")}`);
  const own = found.findings.filter((each) => !failures.includes(each) && !elsewhere.includes(each));
  const list = (sentences) =>
    h(
      "ul",
      { class: "sentences" },
      sentences.map((each) => h("li", {}, each)),
    );
  const flagged = found.concepts.filter((each) => each.kinds.length);
  return [
    card(
      "What it has become",
      {
        note: `${count(found.images)} ${found.split} images. Good: a short list, without prototypes and concepts that mean nothing.`,
      },
      own.length ? list(own) : h("p", {}, "Nothing odd was found."),
    ),
    h(
      "div",
      { class: "charts" },
      card(
        "Whom it fails, and when to distrust it",
        { note: "Good: no group does worse, sets hold what they promise, few images are strange." },
        failures.length ? list(failures) : h("p", {}, "Nothing was found."),
      ),
      flagged.length
        ? card(
            "Concepts to look at",
            { note: `${plural(flagged.length, "concept")} of ${count(found.concepts.length)}. Good: none.` },
            h(
              "ul",
              { class: "plain flagged" },
              flagged.map((each) =>
                h(
                  "li",
                  {},
                  h("a", { href: format("concepts", { run, concept: found.concepts.indexOf(each) }) }, each.concept),
                  each.kinds.map((kind) => h("span", { class: "tag warn" }, KINDS[kind] ?? kind)),
                ),
              ),
            ),
          )
        : null,
    ),
  ];
}
