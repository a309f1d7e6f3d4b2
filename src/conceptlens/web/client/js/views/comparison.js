/** A comparison: its table block by block, its tests, and its figures; ranked within a block only. */
import { format, here, note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { choice, h, keepFocus, put } from "../dom.js";
import { downloadMenu, pictureEntries, saveFrom, saveJSON } from "../download.js";
import { blockTable, COLUMNS, facts, pairsTable, TOLD, zeroShot } from "../parts/compared.js";
import { live } from "../live.js";
import { figures, measureOf, ORDER } from "../parts/compared_plots.js";
import { card as box, missing, viewHead } from "../parts/frame.js";
import { plural } from "../words.js";

const ABOUT =
  "Methods trained on the same images, with intervals and tests. Methods are compared within a block only: those that learn concepts from the same kind of labels.";

/** Shown, and shown anew as its trainings end. @param {HTMLElement} host @param {Record<string, string>} params @param {{card: any}} app */
export async function comparisonView(host, params, { card }) {
  const { run } = params;
  const problem = h("p", { class: "notice", role: "alert", hidden: true });
  const place = h("div", {});
  /** @returns {Promise<[Answers.RunCard, Answers.Comparison | string]>} the comparison, or the command that continues it */
  const ask = async () => {
    const detail = await api.runNow(run);
    return [detail.card, detail.card.has.includes("results") ? await api.comparison(run) : detail.missing.results];
  };
  let now = card?.has.includes("results") ? [card, await api.comparison(run)] : await ask();
  const draw = () => {
    const [folder, found] = now;
    if (typeof found === "object") return table(place, here().params, run, found);
    put(place, viewHead(folder.name, ABOUT), missing("No table yet", "No training of this comparison is finished. Continue it with:", found)); // prettier-ignore
  };
  put(host, problem, place);
  draw();
  const stop = live(ask, {
    every: () => (now[0].status === "running" ? 3000 : 10_000),
    onanswer: (next) => {
      problem.hidden = true;
      const same = JSON.stringify(next[1]) === JSON.stringify(now[1]);
      now = next;
      if (!same) keepFocus(place, draw);
    },
    onproblem: (error) => {
      problem.textContent = `${error.message} Trying again…`;
      problem.hidden = false;
    },
  });
  return { stop };
}

/** @param {HTMLElement} host @param {Record<string, string>} params @param {string} run @param {Answers.Comparison} found */
function table(host, params, run, found) {
  const names = found.data.map((data) => data.name);
  const told = ORDER.filter((each) => found.data.some((data) => data.blocks.some((one) => one.supervision === each)));
  /** @type {Map<string, string>} */
  const titles = new Map(found.data.flatMap((data) => data.blocks.map((one) => [one.supervision, one.title])));
  const rowsOf = (/** @type {any} */ data) => data.blocks.flatMap((/** @type {any} */ block) => block.rows);
  const able = COLUMNS.map(([key]) => key).filter((key) =>
    found.data.some((data) => rowsOf(data).some((/** @type {any} */ row) => row.measures[key])),
  );
  /** @type {Record<string, any>} */
  const state = {
    data: names.includes(params.data) ? params.data : "",
    told: told.includes(params.told) ? params.told : "",
    by: able.includes(params.by) ? params.by : (able.find((key) => key === found.statistics.primary) ?? able[0]),
    controls: params.controls !== "0",
  };
  const body = h("div", { class: "stack" });
  const query = () => [
    ...(state.data ? [["data", state.data]] : []),
    ...(state.told ? [["supervision", state.told]] : []),
  ];
  const set = (/** @type {string} */ key, /** @type {string} */ value, /** @type {string} */ words) => {
    state[key] = value;
    note({ [key]: key === "controls" ? (value ? "" : "0") : value });
    draw();
    announce(words);
  };

  const controls = h("input", {
    type: "checkbox",
    checked: state.controls,
    onchange: () => set("controls", controls.checked, controls.checked ? "with random text" : "without random text"),
  });
  const filters = h(
    "div",
    { class: "row toolbar filters" },
    choice("Data set", [["", "All"], ...names], state.data, (value) => set("data", value, value || "all data sets")),
    choice(
      "Supervision",
      [["", "All blocks"], ...told.map((each) => [each, titles.get(each)])],
      state.told,
      (value) => set("told", value, titles.get(value) ?? "all blocks"),
    ),
    able.length
      ? choice(
          "Plot and tests",
          able.map((key) => [key, measureOf(key).name]),
          state.by,
          (value) => set("by", value, measureOf(value).name),
        )
      : null,
    found.data.some((data) => rowsOf(data).some((/** @type {any} */ row) => row.control_of))
      ? h("label", { class: "row with-box" }, controls, "Rows with random text")
      : null,
  );

  function draw() {
    const sets = found.data
      .filter((data) => !state.data || data.name === state.data)
      .map((data) => ({
        ...data,
        blocks: data.blocks
          .filter((block) => !state.told || block.supervision === state.told)
          .map((block) => ({ ...block, shown: block.rows.filter((row) => state.controls || !row.control_of) }))
          .filter((block) => block.shown.length),
      }))
      .filter((data) => data.blocks.length);
    put(
      body,
      sets.length
        ? sets.map((data) => dataSet(data, rowsOf(data), found, state.by))
        : h("p", { class: "card empty" }, "Nothing matches: that data set has no such block."),
    );
  }

  put(
    host,
    viewHead(found.name, ABOUT, {
      downloads: [
        ["Table (Markdown)", () => saveFrom(api.comparisonTable(run, "md", query()), `${run}.md`)],
        ["Table (LaTeX)", () => saveFrom(api.comparisonTable(run, "tex", query()), `${run}.tex`)],
        ["Everything (JSON)", () => saveJSON(found, run)],
      ],
    }),
    progress(found, run),
    filters,
    body,
    h("p", { class: "note" }, footnote(found.statistics)),
  );
  draw();
}

/** @param {any} found @param {string} run */
function progress(found, run) {
  if (found.jobs.done >= found.jobs.of && !found.failed.length) return null;
  return h(
    "section",
    { class: "card hint", "aria-label": "What is not finished" },
    h("p", {}, `${found.jobs.done} of ${plural(found.jobs.of, "training")} are finished; the table shows these.`),
    found.failed.length
      ? h(
          "details",
          {},
          h("summary", {}, `${plural(found.failed.length, "job")} failed`),
          h(
            "ul",
            {},
            found.failed.map((/** @type {any} */ each) =>
              h("li", { class: "note" }, `${each.job}: ${each.reason ?? "no reason is known"}`),
            ),
          ),
        )
      : null,
    h("p", {}, h("a", { href: format("runs", { of: run }) }, "Finished trainings")),
  );
}

/** A data set: what the encoder knew, then table, tests and plots. @param {any} data @param {any} all @param {any} found @param {string} by */
function dataSet(data, all, found, by) {
  const plots = figures(data, by);
  const name = data.name.replace(/\W+/g, "-");
  return box(
    data.name,
    {
      note: [
        facts(data),
        found.folds && `Cross-validation: ${found.folds.k} folds, ${plural(found.folds.repeats, "repeat")}.`,
        found.trials && `${found.trials} trials for each method, chosen on validation images; test images were used once.`,
      ]
        .filter(Boolean)
        .join(" "),
      tools: plots.length
        ? downloadMenu(plots.flatMap((plot) => pictureEntries(plot.title, plot.svg, `${name}-${plot.file}`)))
        : null,
    },
    data.zero_shot.filter((/** @type {any} */ each) => each.auc !== null).map(zeroShot),
    data.blocks.map((/** @type {any} */ block) => blockSection(block, `${block.title}, ${data.name}`, all, found.statistics.primary, by)),
    plots.length
      ? h(
          "div",
          { class: "charts" },
          plots.map((plot) =>
            h(
              "section",
              { "data-plot": plot.file },
              h("h3", {}, plot.title),
              h("p", { class: "note" }, plot.about),
              plot.node,
            ),
          ),
        )
      : null,
  );
}

/** @param {any} block @param {string} name @param {any} all @param {any} primary @param {any} by */
function blockSection(block, name, all, primary, by) {
  const mark = h("i", { class: `block-mark m${ORDER.indexOf(block.supervision)}`, "aria-hidden": "true" });
  return h(
    "section",
    { class: "block", "aria-label": name, "data-block": block.supervision },
    h("h3", {}, mark, block.title),
    h("p", { class: "note" }, TOLD[block.supervision]),
    blockTable(block, { name, primary, rows: block.shown, all }),
    pairsTable(block, by, name),
  );
}

/** @param {any} settings */
const footnote = (settings) =>
  `Percent, with ${+(100 * settings.confidence).toPrecision(6)}% intervals: bootstrap over test units crossed with seeds. Bold: significantly different from every other row of its block at ${settings.alpha}, by a test over images and one over seeds, after Holm's correction. The smallest detectable difference is found with ${+(100 * settings.power).toPrecision(6)}% power.`;
