/** Runs side by side: one table of all scores, one plot of a chosen one with its interval. */
import { api } from "../api.js";
import { dots } from "../charts/dots.js";
import { choice, h, put, scrolling } from "../dom.js";
import { downloadMenu, pictureEntries, saveJSON } from "../download.js";
import { MEASURES } from "../measures.js";
import { card } from "../parts/frame.js";
import { trustTag } from "../parts/trust_strip.js";
import { known } from "../words.js";

/** @param {any[]} cards @param {{measure: string, onmeasure: (key: string) => void, onclear: () => void}} options */
export function comparison(cards, { measure, onmeasure, onclear }) {
  const shown = MEASURES.filter((each) => cards.some((run) => known(run.scores?.[each.key])));
  let chosen = shown.find((each) => each.key === measure) ?? shown[0];
  const intervals = new Map(); // by run, filled as the runs' metrics arrive
  const plot = h("div", {});
  const about = h("p", { class: "note" });

  function draw() {
    if (!chosen) {
      put(plot, h("p", { class: "note" }, "None of these runs has been measured yet."));
      return;
    }
    about.textContent = `${chosen.name}: ${chosen.about}. Bars are 95% intervals over test images.`;
    put(
      plot,
      dots(
        cards
          .filter((run) => known(run.scores?.[chosen.key]))
          .map((run) => ({
            name: run.name,
            value: run.scores[chosen.key],
            interval: interval(intervals.get(run.key), chosen.key),
          })),
        { label: chosen.name, read: chosen.read },
      ),
    );
  }
  draw();
  for (const run of cards)
    api.run(run.key).then(
      (whole) => {
        intervals.set(run.key, whole.metrics?.[run.scores?.split ?? "test"]?.intervals ?? {});
        draw();
      },
      () => {},
    );

  const data = () =>
    cards.map((run) => ({ run: run.name, method: run.method, data: run.data, seed: run.seed, scores: run.scores }));
  const svg = () => plot.querySelector("svg");
  return card(
    `${cards.length} runs compared`,
    {
      tools: [
        h("button", { type: "button", class: "quiet", onclick: onclear }, "Clear"),
        downloadMenu([...pictureEntries("Plot", svg, "compare"), ["Table (JSON)", () => saveJSON(data(), "compare")]]),
      ],
    },
    h(
      "div",
      { class: "compare" },
      scrolling("Table of scores", {}, table(cards, shown)),
      h(
        "div",
        { class: "stack" },
        shown.length
          ? choice(
              "Plot",
              shown.map((each) => [each.key, each.name]),
              chosen?.key,
              (key) => {
                chosen = shown.find((each) => each.key === key) ?? chosen;
                onmeasure(key);
                draw();
              },
            )
          : null,
        plot,
        about,
      ),
    ),
  );
}

/** @param {Answers.RunCard[]} cards @param {any[]} measures */
function table(cards, measures) {
  const row = (/** @type {string} */ name, /** @type {any[]} */ cells) => h("tr", {}, h("th", { scope: "row" }, name), cells);
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", {}, h("span", { class: "hidden" }, "Measure")),
        cards.map((run) => h("th", { scope: "col", class: "num" }, run.name)),
      ),
    ),
    h(
      "tbody",
      {},
      ["method", "regularizer", "data", "encoder"].map((key) =>
        row(
          key[0].toUpperCase() + key.slice(1),
          cards.map((run) => h("td", { class: "num" }, /** @type {any} */ (run)[key] ?? "–")),
        ),
      ),
      row(
        "Tested",
        cards.map((run) => h("td", { class: "num" }, trustTag(run) ?? "–")),
      ),
      // none is called best: that takes a test, which the table of runs makes
      measures.map((measure) =>
        row(
          measure.name,
          cards.map((run) => {
            const value = run.scores?.[measure.key];
            return h("td", { class: "num" }, known(value) ? measure.read(value) : "–");
          }),
        ),
      ),
    ),
  );
}

/** Of `class.accuracy`: under its dotted name, or nested. @param {any} found @param {string} key */
function interval(found, key) {
  const value = found?.[key] ?? key.split(".").reduce((part, each) => part?.[each], found);
  return Array.isArray(value) && value.length === 2 ? value : null;
}
