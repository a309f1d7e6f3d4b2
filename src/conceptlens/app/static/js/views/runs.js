/** View 1: a card for each run; two or more of them in one table and one plot. */
import { format, note } from "../address.js";
import { announce } from "../announce.js";
import { spark } from "../charts/spark.js";
import { h, put, whenQuiet } from "../dom.js";
import { saveJSON } from "../download.js";
import { MEASURES } from "../measures.js";
import { missing, viewHead } from "../parts/frame.js";
import { shortcut } from "../shortcuts.js";
import { percent, plural, short } from "../words.js";
import { comparison } from "./compare.js";

const STATUS = {
  done: ["done", ""],
  running: ["training now", "live"],
  failed: ["failed", "bad"],
  broken: ["cannot be read", "bad"],
};
const MOST = 8; // as many as can be told apart

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{cards: any[]}} app */
export async function runsView(host, params, { cards }) {
  let picked = (params.compare ?? "").split(",").filter((key) => cards.some((card) => card.key === key));
  let words = params.find ?? "";
  let measure = params.by ?? MEASURES[0].key;
  let stop = () => {};
  const found = () =>
    cards.filter((card) =>
      words
        .toLowerCase()
        .split(/\s+/)
        .every((word) =>
          [card.name, card.method, card.data, card.regulariser, card.encoder, card.status]
            .join(" ")
            .toLowerCase()
            .includes(word),
        ),
    );

  const search = h("input", {
    type: "search",
    value: words,
    placeholder: "Filter: method, data, name",
    "aria-label": "Filter runs",
    oninput: whenQuiet(() => {
      words = search.value;
      note({ find: words });
      drawCards();
    }, 120),
  });
  const countLine = h("span", { class: "note" });
  const grid = h("div", { class: "run-cards" });
  const compared = h("div", {});
  const downloads = [["Cards of all runs (JSON)", () => saveJSON(cards, "runs")]];

  function toggle(key, on) {
    picked = on ? [...picked, key].slice(-MOST) : picked.filter((each) => each !== key);
    note({ compare: picked.join(",") });
    announce(`${plural(picked.length, "run")} to compare`);
    for (const box of grid.querySelectorAll("input[type=checkbox]")) box.checked = picked.includes(box.value);
    drawComparison();
  }

  async function drawComparison() {
    stop();
    const chosen = picked.map((key) => cards.find((card) => card.key === key));
    if (chosen.length === 0) {
      put(compared);
      return;
    }
    if (chosen.length === 1) {
      put(
        compared,
        h("p", { class: "card note hint" }, `${chosen[0].name} is picked. Pick another run to compare the two.`),
      );
      return;
    }
    const table = comparison(chosen, {
      measure,
      onmeasure: (key) => {
        measure = key;
        note({ by: key });
      },
      onclear: () => {
        picked = [];
        note({ compare: "" });
        drawCards();
        drawComparison();
      },
    });
    stop = table.stop ?? stop;
    put(compared, table);
  }

  function drawCards() {
    const list = found();
    countLine.textContent = words ? `${list.length} of ${plural(cards.length, "run")}` : plural(cards.length, "run");
    put(
      grid,
      list.map((card) => runCard(card, picked.includes(card.key), toggle)),
    );
  }

  put(
    host,
    viewHead(
      "Runs",
      "Each card is one trained model: what it learned from, and how well it reads classes and concepts. Tick two or more to compare them.",
      { downloads },
    ),
    cards.length
      ? h("div", { class: "row toolbar" }, search, countLine)
      : missing("No runs yet", "A run is a folder that training writes. This makes one:", "conceptlens demo"),
    compared,
    grid,
  );
  drawCards();
  await drawComparison();
  shortcut("/", "find a run", () => search.focus());
  return { stop: () => stop() };
}

function runCard(card, picked, toggle) {
  const [word, kind] = STATUS[card.status] ?? [card.status, ""];
  const title =
    card.status === "broken"
      ? card.name
      : h("a", { href: format(card.has.includes("model") ? "image" : "training", { run: card.key }) }, card.name);
  return h(
    "article",
    { class: "card run-card", "aria-label": `Run ${card.name}` },
    h(
      "header",
      {},
      h("h2", {}, title),
      card.status === "broken"
        ? null
        : h(
            "label",
            { class: "row pick" },
            h("input", {
              type: "checkbox",
              value: card.key,
              checked: picked,
              onchange: (event) => toggle(card.key, event.target.checked),
              "aria-label": `Compare ${card.name}`,
            }),
            "Compare",
          ),
      card.status === "done"
        ? null
        : h(
            "span",
            { class: `tag ${kind}` },
            card.status === "running" && card.epoch ? `${word}: epoch ${card.epoch} of ${card.epochs ?? "?"}` : word,
          ),
    ),
    card.reason ? h("p", { class: "tag warn" }, card.reason) : null,
    card.method
      ? h(
          "p",
          { class: "what" },
          h("span", { class: "strong" }, card.method),
          card.regulariser && card.regulariser !== "none" ? ` with ${card.regulariser}` : null,
          ` on ${card.data ?? "?"}`,
        )
      : null,
    card.method
      ? h(
          "p",
          { class: "note" },
          [card.images && plural(card.images, "image"), card.encoder, card.seed !== null && `seed ${card.seed}`]
            .filter(Boolean)
            .join(" · "),
        )
      : null,
    card.bypass ? h("p", { class: "note" }, `Bypass: ${card.bypass}`) : null,
    card.scores ? scores(card.scores) : null,
    card.rank?.values?.length > 1
      ? h(
          "div",
          { class: "rank" },
          h("span", { class: "note" }, "Rank by epoch"),
          spark(card.rank.values, `${card.rank.name} rank by epoch`),
          h("span", { class: "num" }, short(card.rank.values.at(-1))),
        )
      : null,
    card.status === "broken"
      ? null
      : h(
          "footer",
          {},
          h(
            "nav",
            { class: "row links", "aria-label": `Views of ${card.name}` },
            card.has.includes("model")
              ? [
                  h("a", { href: format("image", { run: card.key }) }, "Image"),
                  h("a", { href: format("what-if", { run: card.key }) }, "What if"),
                ]
              : null,
            h("a", { href: format("training", { run: card.key }) }, "Training"),
            card.has.includes("model") ? h("a", { href: format("concepts", { run: card.key }) }, "Concepts") : null,
          ),
        ),
  );
}

function scores(values) {
  const shown = [
    ["class.balanced_accuracy", "class", "class balanced accuracy"],
    ["concept.balanced_accuracy", "concept", "concept balanced accuracy"],
    ["class.macro_auc", "class AUC", "class AUC"],
  ];
  return h(
    "dl",
    { class: "scores" },
    shown
      .filter(([key]) => values[key] !== undefined)
      .map(([key, name, full]) =>
        h("div", { title: `${full}, ${values.split}` }, h("dd", {}, percent(values[key])), h("dt", {}, name)),
      ),
  );
}
