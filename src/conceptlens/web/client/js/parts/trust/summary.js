/** Everything that was measured of a run's trustworthiness, a verdict and a sentence each; and how to measure the rest. */
import { h } from "../../dom.js";
import { card, command } from "../frame.js";
import { verdictTag } from "./words.js";

/**
 * @param {Array<{name: string, title: string, asks: string, verdict: any, why: string | null, needs?: string,
 *   command: string | null}>} parts
 * @param {(section: string) => void} open
 */
export function summary(parts, open) {
  const lacking = parts.filter((each) => !each.verdict && !each.why && each.command);
  const commands = [...new Set(lacking.map((each) => each.command))];
  const whole = commands.filter((each) => !commands.some((other) => other !== each && covers(other, each)));
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
          h("p", {}, each.verdict?.says ?? each.why ?? `Not measured yet. ${each.needs ?? ""} This command does:`),
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
    whole.length > 1
      ? card(
          "Measure all that is missing",
          { note: "They train nothing and change nothing but files of their own." },
          command(whole.join(" && ")),
        )
      : null,
  ];
}

/** Whether a command does what another does, and more: `localize --faithfulness 64 RUN` and `localize RUN`. */
const covers = (command, other) => {
  const words = command.split(" ");
  return command.length > other.length && other.split(" ").every((word) => words.includes(word));
};
