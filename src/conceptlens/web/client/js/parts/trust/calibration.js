/** Is it right as often as it says? Reliability diagrams of class and concepts, from `trust/failures.json`. */
import { beyond, reliability } from "../../charts/reliability.js";
import { choice, h } from "../../dom.js";
import { card, missing } from "../frame.js";
import { count, known, percent, plural } from "../../words.js";
import { good, line, more, p, table, verdictLine } from "./words.js";
import { ofCalibration } from "./verdicts.js";

/** @param {any} found */
export function calibration(found, /** @type {{state: any, set: any, commands: any}} */ { state, set, commands }) {
  const concepts = found.concept_calibration ?? [];
  const chosen = concepts.find((/** @type {any} */ each) => each.question === state.question) ?? concepts[0];
  if (!found.calibration.points?.length)
    return [
      verdictLine(ofCalibration(found)),
      missing(
        "No diagram",
        "An older version made this audit and kept no bins. Audit the run again:",
        commands.audit,
      ),
    ];
  return [
    verdictLine(ofCalibration(found)),
    h(
      "div",
      { class: "charts" },
      diagram("The class", found.calibration, null),
      chosen
        ? diagram(
            "The concepts",
            chosen,
            choice(
              "Concept",
              concepts.map((/** @type {any} */ each) => [each.question, each.question]),
              chosen.question,
              (key) => set({ question: key === concepts[0].question ? "" : key }),
            ),
          )
        : card("The concepts", {}, h("p", { class: "note" }, "This method reads no concepts.")),
    ),
    concepts.length > 1 ? every(concepts) : null,
  ];
}

/** @param {string} title @param {any} found @param {any} tools */
function diagram(title, found, tools) {
  const outside = found.points.filter(beyond).length;
  const judged = found.points.some((/** @type {any} */ point) => point.between);
  return card(
    title,
    {
      tools,
      note: `${count(found.answers)} answers in ${plural(found.points.length, "bin")} of equal size, least confident first.`,
    },
    reliability(found.points, { label: `Calibration: ${found.question}` }),
    h(
      "p",
      {},
      `${percent(found.confidence)} sure on average, right in ${percent(found.right)}. Calibration error ${percent(found.error)}`,
      known(found.by_chance) ? `, ${percent(found.by_chance)} by chance alone (p = ${p(found.p)})` : "",
      ". ",
      judged ? `${plural(outside, "bin lies", "bins lie")} beyond what chance allows.` : "",
    ),
    good("points lie in their gray bars, along the dashed line. Below the line the model is overconfident, above it underconfident."),
  );
}

/** @param {any[]} concepts */
function every(concepts) {
  const order = [...concepts.slice(1)].sort((a, b) => b.error - a.error);
  return card(
    "Every concept",
    { note: "Worst first. An error that chance alone would give does not count." },
    more(
      `${plural(order.length, "concept group")} in numbers`,
      table(
        "Calibration of every concept",
        ["Concept", "Sure", "Right", "Error", "By chance", "p"],
        order.map((each) =>
          line(
            each.question,
            h("td", { class: "num" }, percent(each.confidence)),
            h("td", { class: "num" }, percent(each.right)),
            h("td", { class: "num" }, percent(each.error)),
            h("td", { class: "num" }, percent(each.by_chance)),
            h("td", { class: "num" }, p(each.p)),
          ),
        ),
      ),
    ),
  );
}
