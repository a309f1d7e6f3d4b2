/** The rows of the table of runs: a run with its metrics, a group with their means; how a metric is called and read. */
import { format } from "../address.js";
import { h } from "../dom.js";
import { MEASURES } from "../measures.js";
import { trustTag } from "../parts/trust_strip.js";
import { moment, percent, short } from "../words.js";
import { annotateRun } from "./annotate_run.js";
import { mean } from "./rows.js";

/** Columns of words, and what stands above them. @type {Record<string, string>} */
export const WORDS = { name: "Name", method: "Method", data: "Data", trust: "Tested", seed: "Seed", tag: "Tag", changed: "Trained" };
export const OWN = Object.keys(WORDS).length + 1; // columns before the metrics, with the one to select by

/** @param {string} name */
const reader = (name) => MEASURES.find((each) => each.key === name)?.read ?? (/(accuracy|auc|ece|use)/.test(name) ? percent : short);
/** @param {string} name */
export const title = (name) => MEASURES.find((each) => each.key === name)?.name ?? name;

/** A run. @param {import("./rows.js").Row} row @param {{state: {picked: string[], columns: string[]}, onpick: (key: string, on: boolean) => void, onsaved: () => void}} options */
export function runLine(row, { state, onpick, onsaved }) {
  const going = row.status === "running";
  const status = going ? `training: epoch ${row.epoch ?? 0} of ${row.epochs ?? "?"}` : row.status;
  const box = {
    type: "checkbox",
    checked: state.picked.includes(row.key),
    "aria-label": `Select ${row.name}`,
    value: row.key,
    onchange: (/** @type {any} */ event) => onpick(row.key, event.target.checked),
  };
  const tag = {
    type: "button",
    class: "quiet tagged",
    title: row.note || "Add a tag or a note",
    "aria-label": `Tag and note of ${row.name}`,
    onclick: () => annotateRun(row, onsaved),
  };
  return h(
    "tr",
    {},
    h("td", {}, h("input", box)),
    h(
      "th",
      { scope: "row" },
      h("a", { href: format("training", { run: row.key }) }, row.name),
      row.status === "done" ? null : h("span", { class: `tag ${going ? "live" : "bad"}` }, status),
    ),
    h("td", {}, row.method),
    h("td", {}, row.data ?? "–"),
    h("td", {}, trustTag(row)),
    h("td", { class: "num" }, row.seed ?? "–"),
    h("td", {}, h("button", tag, row.tag || (row.note ? "note" : "+"))),
    h("td", {}, moment(row.changed) || "–"),
    state.columns.map((name) => cell(row, name)),
  );
}

/** A metric with its interval. @param {import("./rows.js").Row} row @param {string} name */
function cell(row, name) {
  const read = reader(name);
  const ends = row.intervals[name]?.map((end) => read(end)).join(" to ");
  return h("td", { class: "num" }, name in row.metrics ? read(row.metrics[name]) : "–", ends ? h("span", { class: "note" }, ` ${ends}`) : null);
}

/** @param {string} name @param {import("./rows.js").Row[]} members @param {{group: string, columns: string[]}} state */
export function groupLine(name, members, state) {
  const means = state.columns.map((metric) => {
    const value = mean(members, metric);
    return h("td", { class: "num" }, value === null ? "–" : `mean ${reader(metric)(value)}`);
  });
  return h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: OWN }, `${state.group}: ${name} (${members.length})`), means);
}
