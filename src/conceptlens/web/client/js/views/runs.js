/** View 1: a card for each folder of results; two or more models in one table and one plot. */
import { note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { h, keepFocus, put, searchField, segment } from "../dom.js";
import { saveJSON } from "../download.js";
import { KINDS } from "../kinds.js";
import { live } from "../live.js";
import { MEASURES } from "../measures.js";
import { missing, viewHead } from "../parts/frame.js";
import { resultCard, runCard } from "../parts/run_card.js";
import { shortcut } from "../shortcuts.js";
import { plural } from "../words.js";
import { comparison } from "./compare.js";

const MOST = 8; // as many as a reader can distinguish
const [SOON, LATER] = [3000, 10_000]; // ms between two looks at the folders, while something trains or not

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{cards: any[], views: any[]}} app */
export async function runsView(host, params, { cards, views }) {
  let picked = (params.compare ?? "").split(",").filter((key) => cards.some((card) => card.key === key));
  let words = params.find ?? "";
  let kind = params.kind ?? "all";
  let byKey = new Map(cards.map((card) => [card.key, card]));
  // The trainings of a comparison are many: they are shown when they are asked for.
  const trainings = (/** @type {Answers.RunCard} */ card) => byKey.get(card.within)?.kind === "comparison";
  const inside = (/** @type {Answers.RunCard} */ card) => cards.filter((each) => trainings(each) && each.within === card.key).length;
  let of = byKey.has(params.of) ? params.of : null;
  let measure = params.by ?? MEASURES[0].key;
  let stop = () => {};
  const found = () =>
    cards.filter(
      (card) =>
        (of ? card.within === of : words || !trainings(card)) &&
        (kind === "all" || card.kind === kind) &&
        words
          .toLowerCase()
          .split(/\s+/)
          .every((word) =>
            [card.name, card.kind, card.about, card.method, card.data, card.regularizer, card.encoder, card.status]
              .join(" ")
              .toLowerCase()
              .includes(word),
          ),
    );

  const filter = searchField("Filter runs", "Filter: method, data, name", words, (asked) => {
    words = asked;
    note({ find: words });
    drawCards();
  });
  const countLine = h("span", { class: "note" });
  const grid = h("div", { class: "run-cards" });
  const only = h("span", { class: "row" });
  const there = Object.keys(KINDS).filter((each) => cards.some((card) => card.kind === each));
  const kinds =
    there.length > 1
      ? segment(
          "Kind of result",
          [["all", "All"], ...there.map((each) => [each, KINDS[each].many])],
          there.includes(kind) ? kind : "all",
          (key) => {
            kind = key;
            note({ kind: key === "all" ? "" : key });
            drawCards();
          },
        )
      : null;

  /** @param {string | null} key */
  function show(key) {
    [of, kind] = [key, "all"];
    note({ of: key, kind: "" });
    kinds?.set("all");
    drawCards();
    announce(key ? `${plural(found().length, "training")} of ${byKey.get(key).name}` : "All results");
  }
  const compared = h("div", {});
  const downloads = [["Cards of all runs (JSON)", () => saveJSON(cards, "runs")]];

  /** @param {string} key @param {boolean} on */
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
        h("p", { class: "card note hint" }, `${chosen[0].name} is selected. Select another run to compare the two.`),
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
    countLine.textContent =
      list.length < cards.length
        ? `${list.length} of ${plural(cards.length, "result")}`
        : plural(cards.length, "result");
    put(
      only,
      of
        ? h(
            "button",
            { type: "button", class: "chip", onclick: () => show(null) },
            `Trainings of ${byKey.get(of).name} ✕`,
          )
        : null,
    );
    put(
      grid,
      list.map((card) =>
        card.kind && card.kind !== "bottleneck"
          ? resultCard(card, views, inside(card), () => show(card.key))
          : runCard(card, views, picked.includes(card.key), toggle),
      ),
    );
  }

  put(
    host,
    viewHead(
      "Runs",
      "Each card is one folder of results. The card of a model shows its data and how well it predicts classes and concepts. Select two or more to compare them.",
      { downloads },
    ),
    cards.length
      ? h("div", { class: "row toolbar" }, filter, kinds, only, countLine)
      : missing("No runs yet", "A run is a folder that training writes. This command makes one:", "conceptlens demo"),
    compared,
    grid,
  );
  drawCards();
  await drawComparison();
  const end = live(() => api.runs(), {
    every: () => (cards.some((card) => card.status === "running") ? SOON : LATER),
    onanswer({ runs: fresh }) {
      if (JSON.stringify(fresh) === JSON.stringify(cards)) return;
      cards = fresh;
      byKey = new Map(cards.map((card) => [card.key, card]));
      picked = picked.filter((key) => byKey.has(key));
      keepFocus(grid, drawCards);
    },
  });
  shortcut("/", "find a run", () => filter.focus());
  return {
    stop() {
      end();
      stop();
    },
  };
}
