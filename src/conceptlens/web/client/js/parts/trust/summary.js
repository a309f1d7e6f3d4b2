/** Every measure of a run's trustworthiness with its verdict, and the commands for those that are missing. */
import { h } from "../../dom.js";
import { card, command } from "../frame.js";
import { verdictTag, verdictWords } from "./words.js";

/**
 * @param {Array<{name: string, title: string, asks: string, verdict: any, why: string | null, needs?: string,
 *   command: string | null, told: boolean}>} parts `told`: its measures stand above, among the verdicts
 * @param {(section: string) => void} open
 */
export function summary(parts, open) {
  const lacking = parts.filter((each) => !each.verdict && !each.why && each.command);
  const commands = [...new Set(lacking.map((each) => each.command))];
  return [
    h(
      "div",
      { class: "trust-cards" },
      parts.map((each) =>
        card(
          each.title,
          {
            tools: each.verdict
              ? verdictTag(each.verdict.verdict)
              : h("span", { class: "tag" }, each.why ? "not possible" : "not measured"),
            note: each.asks,
          },
          h("p", {}, (each.verdict && (each.told ? each.verdict.means : verdictWords(each.verdict.means, each.verdict.says))) ?? each.why ?? `Not measured yet. ${each.needs ?? ""} This command measures it:`),
          each.verdict
            ? h(
                "button",
                {
                  type: "button",
                  "aria-label": `Open ${each.title}`,
                  "data-section": each.name,
                  onclick: () => open(each.name),
                },
                "Open",
              )
            : each.command && !each.why
              ? command(each.command)
              : null,
        ),
      ),
    ),
    commands.length > 1
      ? card(
          "Measure all that is missing",
          { note: "These commands do not change the model; they only write their own result files." },
          command(commands.join(" && ")),
        )
      : null,
  ];
}
