/** Methods: what each is in one picture and three sentences, and what the served folders say of it. */
import { format, note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { scheme } from "../charts/scheme.js";
import { tableHead, h, put, rove, scrolling } from "../dom.js";
import { downloadMenu, pictureEntries, saveJSON } from "../download.js";
import { card as box, command, loading, viewHead } from "../parts/frame.js";
import { trustTag } from "../parts/trust_strip.js";
import { shortcut } from "../shortcuts.js";
import { percent, plural } from "../words.js";

const SHOWN = [
  ["class.balanced_accuracy", "Class bal. acc."],
  ["concept.balanced_accuracy", "Concept bal. acc."],
  ["concept.auc", "Concept AUC"],
];

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{cards: any[]}} app */
export async function methodsView(host, params, { cards }) {
  const { methods } = await api.methods();
  let chosen = methods.find((each) => each.name === params.method) ?? methods[0];
  const side = h("div", { class: "stack" });
  const list = h("div", { class: "things", role: "listbox", "aria-label": "Methods" });
  for (const method of methods)
    list.append(
      h(
        "button",
        {
          type: "button",
          class: "thing method",
          role: "option",
          "data-method": method.name,
          onclick: () => pick(method),
        },
        h("span", { class: "label" }, method.name),
        h("span", { class: "note" }, method.supervision_title),
      ),
    );
  rove(list, ".thing");

  /** @param {Answers.MethodCard} method */
  function pick(method, { say = true } = {}) {
    chosen = method;
    note({ method: method.name });
    for (const each of list.children) {
      const on = each.dataset.method === method.name;
      each.setAttribute("aria-selected", String(on));
      each.tabIndex = on ? 0 : -1;
      if (on && say) each.scrollIntoView({ block: "nearest" });
    }
    put(side, about(method), h("div", { id: "evidence" }, loading("Looking for evidence…")));
    if (say) announce(`${method.title}: ${method.sentences[0]}`);
    showEvidence(method);
  }

  /** @param {Answers.MethodCard} method */
  async function showEvidence(method) {
    let shown;
    try {
      shown = evidence(await api.evidence(method.name), cards);
    } catch (error) {
      shown = h("p", { class: "card note" }, /** @type {any} */ (error).message);
    }
    if (chosen === method) put(side.querySelector("#evidence"), shown);
  }

  const step = (/** @type {number} */ by) => {
    const place = methods.indexOf(chosen) + by;
    if (methods[place]) pick(methods[place]);
  };
  put(
    host,
    viewHead(
      "Methods",
      "All methods share one scheme: slots gather patches, each slot gets a score for its concept, and the class is predicted from the scores. The picture marks what a method does differently.",
      { downloads: [["All methods (JSON)", () => saveJSON(methods, "methods")]] },
    ),
    h("div", { class: "browse" }, h("section", { class: "card", "aria-label": "All methods" }, list), side),
  );
  pick(chosen, { say: false });
  list.scrollTop = list.querySelector("[aria-selected=true]").offsetTop - list.offsetTop - 60;
  shortcut("j", "next method", () => step(1));
  shortcut("k", "previous method", () => step(-1));
  return null;
}

/** @param {Answers.MethodCard} method */
function about(method) {
  const drawing = scheme(method.scheme, { label: `How ${method.name} works` });
  return box(
    method.name,
    { tools: downloadMenu(pictureEntries("Picture", () => drawing, method.name)) },
    drawing,
    h("p", { class: "method-words" }, method.sentences.join(" ")),
    method.variant ? h("p", { class: "method-words" }, h("b", {}, `${method.name}: `), method.variant) : null,
    h(
      "dl",
      { class: "facts wide" },
      fact("Supervision", method.supervision_title.toLowerCase()),
      fact("Bypass", method.bypass ?? "none: the class depends on the concepts alone"),
      fact("Map of each concept", method.evidence ? "its own evidence, signed" : method.attention ? "its own attention" : "none of its own; Grad-CAM can be drawn"),
      method.family.length > 1
        ? fact(
            "Same family",
            method.family
              .filter((name) => name !== method.name)
              .flatMap((name, place) => [
                place ? ", " : "",
                h("a", { href: format("methods", { method: name }) }, name),
              ]),
          )
        : null,
      fact("Paper", method.paper ?? "none"),
      fact("Try it", command(method.command)),
    ),
  );
}

/** @param {string} name @param {any} value */
const fact = (name, value) => [h("dt", {}, name), h("dd", {}, value)];

/** @param {any} found @param {any[]} cards */
function evidence(found, cards) {
  if (!found.rows.length && !found.runs.length)
    return box(
      "Evidence",
      {},
      h(
        "p",
        { class: "note" },
        "No served folder has results of this method. A comparison measures some, with intervals and a control that reads random texts:",
      ),
      command("conceptlens compare FILE"),
    );
  return box(
    "Evidence",
    {
      note: "From the folders that are served here. Numbers of different data sets or blocks cannot be compared.",
    },
    found.rows.length ? comparisons(found.rows) : null,
    found.runs.length ? single(found.runs, cards) : null,
  );
}

/** @param {any[]} rows */
function comparisons(rows) {
  const measures = SHOWN.filter(([key]) => rows.some((row) => row.measures[key]));
  return scrolling(
    "Rows of comparisons",
    {},
    h(
      "table",
      { class: "compared" },
      tableHead(["Comparison", "Row"], measures.map(([, name]) => name), ["Verdict"]),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            { class: row.control ? "control" : null },
            h(
              "th",
              { scope: "row" },
              h(
                "a",
                { href: format("compare", { run: row.run, data: row.data, told: row.supervision }) },
                row.comparison,
              ),
              h("small", {}, `${row.data}, ${plural(row.images, "image")}`),
            ),
            h("td", {}, row.control ? `↳ ${row.row}` : row.row, h("small", {}, row.block)),
            measures.map(([key]) => measured(row.measures[key])),
            h("td", { class: "verdict-cell" }, row.verdict ?? "–"),
          ),
        ),
      ),
    ),
  );
}

/** @param {any} found */
const measured = (found) =>
  h(
    "td",
    { class: "num" },
    found ? percent(found.mean) : "–",
    found?.interval ? h("small", {}, `${percent(found.interval[0])} to ${percent(found.interval[1])}`) : null,
  );

/** @param {any[]} runs @param {any[]} cards */
function single(runs, cards) {
  return [
    h("h3", {}, "Single models"),
    h(
      "ul",
      { class: "chips" },
      runs.map((run) =>
        h(
          "li",
          {},
          h("a", { href: format("image", { run: run.key }) }, run.name),
          h("span", { class: "note" }, ` ${run.data ?? ""}, ${percent(run.scores["class.balanced_accuracy"])} class accuracy (balanced) `),
          trustTag(cards.find((card) => card.key === run.key)),
        ),
      ),
    ),
  ];
}
