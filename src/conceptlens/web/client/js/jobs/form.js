/**
 * The form of a command, from the definitions that the command line is made from. Pure but for `fields`.
 * @typedef {{name: string, kind: "flag" | "choice" | "int" | "float" | "text", several: boolean, choices: string[], default: string | null, help: string}} Option
 * @typedef {{command: string, about: string, needs_run: boolean, options: Option[]}} Form
 */
import { h } from "../dom.js";

/** What was entered, as the server takes it: numbers as numbers, what was left as it is not at all. @param {Option[]} options @param {Record<string, string | boolean>} entered */
export function valuesOf(options, entered) {
  /** @type {Record<string, any>} */
  const values = {};
  for (const option of options) {
    const value = entered[option.name];
    if (option.kind === "flag") {
      if (value !== (option.default === "True")) values[option.name] = value;
    } else if (value !== undefined && value !== "" && value !== (option.default ?? "")) {
      const number = option.kind === "int" || option.kind === "float";
      const words = option.several ? String(value).split(",").map((word) => word.trim()).filter(Boolean) : [value]; // prettier-ignore
      const typed = words.map((word) => (number && word !== "" && Number.isFinite(Number(word)) ? Number(word) : word));
      values[option.name] = option.several ? typed : typed[0];
    }
  }
  return values;
}

/** Values of settings as lines. @param {Record<string, any>} values */
export const linesOf = (values) => Object.entries(values).map(([name, value]) => `${name} = ${value}`);

/** Help with names in backticks as code. @param {string} help */
const helpWords = (help) => help.split("`").map((words, place) => (place % 2 ? h("code", {}, words) : words));

/** A field for each option. @param {Option[]} options @param {() => void} onchange @param {string} otherwise what counts where nothing is entered */
export function fields(options, onchange, otherwise = "the default") {
  /** @type {Record<string, any>} */
  const inputs = {};
  const rows = options.map((option) => {
    const id = `job-${option.name}`;
    const about = option.help ? h("span", { class: "note", id: `${id}-help` }, helpWords(option.help)) : null;
    const common = { id, "aria-describedby": about ? `${id}-help` : null, onchange, oninput: onchange };
    inputs[option.name] = input(option, common, otherwise);
    return h(
      "div",
      { class: "job-option" },
      h("label", { for: id }, option.name.includes(".") ? option.name : option.name.replaceAll("_", " ")),
      inputs[option.name],
      about,
    );
  });
  const entered = () =>
    Object.fromEntries(
      options.map(({ name, kind }) => [name, kind === "flag" ? inputs[name].checked : inputs[name].value.trim()]),
    );
  return { rows, values: () => valuesOf(options, entered()) };
}

/** @param {Option} option @param {Record<string, any>} props @param {string} otherwise */
function input(option, props, otherwise) {
  if (option.kind === "flag") return h("input", { type: "checkbox", checked: option.default === "True", ...props });
  if (option.kind === "choice" && !option.several) {
    const first = option.default === null ? [["", otherwise]] : [];
    const choices = [...first, ...option.choices.map((name) => [name, name])];
    return h("select", props, choices.map(([value, text]) => h("option", { value, selected: value === (option.default ?? "") }, text))); // prettier-ignore
  }
  const hint = option.several ? (option.choices.length ? option.choices.join(", ") : "several, separated by commas") : otherwise;
  const numeric = option.kind === "text" ? null : option.kind === "int" ? "numeric" : "decimal";
  return h("input", { type: "text", inputmode: numeric, value: option.default ?? "", placeholder: hint, ...props });
}
