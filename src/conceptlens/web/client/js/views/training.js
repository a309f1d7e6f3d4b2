/** View 4: loss, accuracy and rank by epoch; new lines come in while a run trains. */
import { api } from "../api.js";
import { announce } from "../announce.js";
import { lines } from "../charts/lines.js";
import { h, put } from "../dom.js";
import { pictureEntries, saveJSON } from "../download.js";
import { MEASURES } from "../measures.js";
import { card, command, missing, viewHead } from "../parts/frame.js";
import { duration, known, percent, short, spoken } from "../words.js";

const POLL = 1500;

/** What is drawn: a split, keys, how a number is read. */
const CHARTS = [
  {
    name: "Loss",
    about: "The loss that training minimizes, and its parts with the weights of the recipe.",
    pick: [["train", /^loss(_|$)/]],
    log: true,
    read: short,
    strip: /^loss_?/,
    whole: "all",
  },
  {
    name: "Accuracy on validation images",
    about: "Balanced accuracy of classes and concepts on validation images.",
    pick: [["val", /^(class|concept)\.(balanced_accuracy|auc|macro_auc)$/]],
    read: percent,
  },
  {
    name: "Rank of the patches",
    about: "How many directions the patches of an image use. A falling rank means that patches become similar.",
    pick: [["val", /^rank\.(effective|published)$/]],
    read: short,
    strip: /^rank[._]/,
  },
  {
    name: "Codebook and slots",
    about: "Share of the codebook in use, and how evenly patches are shared among slots.",
    pick: [["val", /^(codebook\.use|slots\.assignment_entropy|codebook\.revived)$/]],
    read: short,
    names: { "codebook.use": "codes in use", "slots.assignment_entropy": "evenness of the slots", "codebook.revived": "codes revived" },
  },
];

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{card: any}} app */
export async function trainingView(host, params, { card: runCard }) {
  const { run } = params;
  /** @type {any[]} */
  let rows = [];
  /** @type {any} */
  let cursor = null;
  let timer = 0;
  const stopping = new AbortController();
  const state = h("p", { class: "row", role: "status" });
  const charts = h("div", { class: "charts" });
  const menu = CHARTS.slice(0, 3).flatMap((chart, place) =>
    pictureEntries(
      chart.name,
      () => charts.querySelector(`[data-chart="${place}"] svg.chart`),
      `${run}-${spoken(chart.name).toLowerCase().replaceAll(" ", "-")}`,
    ),
  );
  put(
    host,
    viewHead(
      "Training",
      "Training by epoch: the losses, accuracy on validation images, and the rank of the patches.",
      { downloads: [...menu, ["History (JSON)", () => saveJSON(rows, `${run}-history`)]] },
    ),
    state,
    charts,
  );

  /** @param {string} status @param {string | null} reason */
  function draw(status, reason) {
    const last = rows.at(-1);
    put(
      state,
      h(
        "span",
        { class: `tag ${status === "running" ? "live" : status === "failed" ? "bad" : ""}` },
        status === "running" ? "● training now" : status,
      ),
      last
        ? h(
            "span",
            { class: "note" },
            `epoch ${last.epoch}${runCard?.epochs ? ` of ${runCard.epochs}` : ""} · ${duration(last.time)}`,
          )
        : null,
      reason ? h("span", { class: "tag warn" }, reason) : null,
      status === "failed" ? command(`conceptlens resume ${runCard?.folder ?? run}`) : null,
    );
    const drawn = CHARTS.map((chart, place) => {
      const series = seriesOf(rows, chart);
      if (!series.length) return null;
      const box = card(
        chart.name,
        { note: chart.about },
        lines(series, {
          label: chart.name,
          log: chart.log && series.every((each) => each.points.every((point) => point[1] > 0)),
          read: chart.read,
        }),
      );
      box.dataset.chart = String(place);
      return box;
    }).filter(Boolean);
    if (drawn.length) put(charts, drawn);
    else
      put(
        charts,
        missing(
          "No epoch is finished yet",
          status === "running"
            ? "Curves appear here after the first epoch."
            : "This run has no history. Training writes it:",
          status === "running" ? null : `conceptlens train RECIPE --out ${runCard?.folder ?? run}`,
        ),
      );
  }

  async function read() {
    let status = state.dataset.status ?? "running"; // a request that fails does not end what is watched
    try {
      let fresh = cursor === null;
      for (;;) {
        const answer = await api.history(run, cursor, stopping.signal);
        if (answer.reset) {
          rows = [];
          fresh = true;
        }
        rows.push(...answer.lines);
        cursor = answer.cursor;
        status = answer.status;
        if (answer.lines.length || state.querySelector(".away")) fresh = true;
        if (answer.lines.length < 5000) {
          if (fresh || status !== state.dataset.status) draw(status, answer.reason);
          break;
        }
      }
      if (state.dataset.status && state.dataset.status !== status) announce(`Training: ${status}`);
      state.dataset.status = status;
    } catch (error) {
      if (/** @type {any} */ (error).name === "AbortError") return;
      if (/** @type {any} */ (error).code === "missing") {
        put(charts, missing("No history", /** @type {any} */ (error).message, /** @type {any} */ (error).command));
        return;
      }
      if (!rows.length && cursor === null && /** @type {any} */ (error).code !== "away") throw error;
      if (!state.querySelector(".away")) state.append(h("span", { class: "tag warn away" }, `${/** @type {any} */ (error).message} Trying again…`));
    }
    if (status === "running") timer = setTimeout(read, POLL);
  }

  await read();
  return {
    stop() {
      clearTimeout(timer);
      stopping.abort();
    },
  };
}

/** Series of (epoch, value), one a key and split; steps within an epoch stand at their share of it. @param {any[]} rows @param {any} chart */
function seriesOf(rows, chart) {
  const found = new Map();
  for (const row of rows) {
    for (const [split, keys] of chart.pick) {
      if (row.split !== split) continue;
      for (const [key, value] of Object.entries(row)) {
        if (!known(value) || !keys.test(key)) continue;
        const plain = chart.strip
          ? spoken(key.replace(chart.strip, "")) || chart.whole
          : (chart.names?.[key] ?? MEASURES.find((each) => each.key === key)?.name ?? spoken(key));
        const name = chart.pick.length > 1 ? `${plain}, ${split}` : plain;
        if (!found.has(name)) found.set(name, new Map());
        found.get(name).set(row.epoch, value); // the last of an epoch counts
      }
    }
  }
  return [...found].map(([name, points]) => ({ name, points: [...points].sort((a, b) => a[0] - b[0]) }));
}
