/** Many runs as a table: sorted, filtered, grouped; any metric with its interval; curves of chosen runs; live. */
import { note } from "../address.js";
import { announce } from "../announce.js";
import { api, get, post } from "../api.js";
import { choice, h, put, scrolling, searchField } from "../dom.js";
import { saveJSON } from "../download.js";
import { live } from "../live.js";
import { missing, viewHead } from "../parts/frame.js";
import { curves } from "../table/curves.js";
import { OWN, WORDS, groupLine, runLine, title } from "../table/lines.js";
import { filtered, grouped, joined, metricNames, sorted } from "../table/rows.js";
import { plural } from "../words.js";

const FIRST = ["class.balanced_accuracy", "concept.balanced_accuracy", "class.ece"];
const MOST = 8; // curves that a reader can distinguish
const TESTED = ["class.accuracy", "class.balanced_accuracy", "class.macro_auc", "concept.balanced_accuracy", "concept.auc", "concept.auc_within_class"]; // prettier-ignore

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{cards: any[]}} app */
export async function tableView(host, params, { cards }) {
  let rows = joined(cards, (await get("table")).rows);
  let mark = "";
  let late = false; // what is shown is older than what is known
  const names = (/** @type {string | undefined} */ text) => (text ?? "").split(",").filter(Boolean);
  const state = {
    words: params.find ?? "",
    sort: params.sort ?? "changed",
    way: /** @type {1 | -1} */ (params.way === "1" ? 1 : -1),
    group: params.group ?? "",
    columns: names(params.columns ?? FIRST.join(",")),
    picked: names(params.pick),
    curve: params.curve ?? "",
    smooth: Number(params.smooth ?? 0) || 0,
  };
  const [place, line, verdict] = [h("div", {}), h("p", { class: "note" }), h("p", { role: "status" })];
  const problem = h("p", { class: "notice", role: "alert", hidden: true });
  const drawn = curves(state, note);

  /** @param {string} column */
  function sortBy(column) {
    state.way = state.sort === column ? /** @type {1 | -1} */ (-state.way) : -1;
    state.sort = column;
    note({ sort: column, way: state.way });
    draw();
    /** @type {any} */ (place.querySelector(`[data-sort="${CSS.escape(column)}"]`))?.focus();
  }

  /** @param {string} column @param {string} words @param {string | null} look */
  function head(column, words, look = null) {
    const [order, arrow] = state.sort !== column ? ["none", ""] : state.way > 0 ? ["ascending", " ↑"] : ["descending", " ↓"];
    const button = { type: "button", class: "quiet sort", "data-sort": column, onclick: () => sortBy(column) };
    return h("th", { scope: "col", class: look, "aria-sort": order }, h("button", button, words, arrow));
  }

  /** @param {string} key @param {boolean} on */
  function pick(key, on) {
    state.picked = on ? [...state.picked, key].slice(-MOST) : state.picked.filter((each) => each !== key);
    note({ pick: state.picked.join(",") });
    for (const box of place.querySelectorAll("input[type=checkbox]")) /** @type {any} */ (box).checked = state.picked.includes(/** @type {any} */ (box).value); // prettier-ignore
    put(verdict);
    showCurves();
    announce(`${plural(state.picked.length, "run")} selected`);
  }

  const chosen = () => rows.filter((row) => state.picked.includes(row.key));
  const showCurves = () => drawn.show(chosen());

  async function judge() {
    const metric = TESTED.includes(state.sort) ? state.sort : TESTED[1];
    try {
      const answer = await post("table/best", { metric, runs: state.picked });
      const name = rows.find((row) => row.key === answer.highest)?.name;
      const worst = Math.max(...Object.values(answer.p).map(Number));
      const found = answer.best
        ? `${name} is best by ${title(metric)}: it differs significantly from every other selected run`
        : `${name} is highest by ${title(metric)}, but it does not differ significantly from every other selected run`;
      const how = `paired permutation test on ${plural(answer.images, "image")}, Holm, largest p = ${worst.toPrecision(2)}`;
      put(verdict, `${found} (${how}). Other seeds may differ.`);
    } catch (error) {
      put(verdict, /** @type {Error} */ (error).message);
    }
  }

  function draw() {
    late = false;
    const shown = sorted(filtered(rows, state.words), state.sort, state.way);
    line.textContent = `${shown.length < rows.length ? `${shown.length} of ` : ""}${plural(rows.length, "run")}`;
    const wide = OWN + state.columns.length;
    put(
      place,
      scrolling(
        "Table of runs",
        {},
        h(
          "table",
          { class: "runs-table" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("td", {}, h("span", { class: "hidden" }, "choose")),
              Object.entries(WORDS).map(([name, words]) => head(name, words, name === "seed" ? "num" : null)),
              state.columns.map((name) => head(name, title(name), "num")),
            ),
          ),
          grouped(shown, state.group).map(([name, members]) => {
            const lines = members.map((row) => runLine(row, { state, onpick: pick, onsaved: refresh }));
            return h("tbody", {}, state.group ? groupLine(name, members, state) : null, lines);
          }),
          shown.length ? null : h("tbody", {}, h("tr", {}, h("td", { colspan: wide }, "No run matches."))),
        ),
      ),
    );
  }

  /** @param {string} name @param {boolean} on */
  function column(name, on) {
    state.columns = on ? [...state.columns, name] : state.columns.filter((each) => each !== name);
    note({ columns: state.columns.join(",") });
    draw();
  }

  async function ask() {
    const [list, table] = await Promise.all([api.runs(), get("table")]);
    return joined(list.runs, table.rows);
  }

  /** @param {import("../table/rows.js").Row[]} next */
  function take(next) {
    const now = JSON.stringify(next);
    problem.hidden = true;
    if (now === mark) return;
    [mark, rows] = [now, next];
    if (place.contains(document.activeElement)) late = true;
    else draw(); // who is in the table is not thrown out of it
    showCurves();
  }
  place.addEventListener("focusout", (/** @type {FocusEvent} */ event) => {
    if (late && !place.contains(/** @type {any} */ (event.relatedTarget))) draw();
  });

  // After an own change the table is drawn whoever is in it, and the keyboard stays where it was.
  const refresh = async () => {
    const label = document.activeElement?.getAttribute("aria-label");
    take(await ask());
    draw();
    const same = [...place.querySelectorAll("[aria-label]")].find((element) => element.getAttribute("aria-label") === label);
    if (same instanceof HTMLElement) same.focus();
  };

  /** @param {string} name */
  const columnBox = (name) =>
    h("input", {
      type: "checkbox",
      checked: state.columns.includes(name),
      onchange: (/** @type {any} */ event) => column(name, event.target.checked),
    });
  const filter = searchField("Filter runs", "method:evidence class.accuracy>0.9 seed=1", state.words, (words) => {
    state.words = words;
    note({ find: words });
    draw();
  });
  const groups = choice("Group by", [["", "nothing"], "method", "data", "tag", "seed", "status"], state.group, (group) => {
    state.group = group;
    note({ group });
    draw();
  });
  const columns = metricNames(rows).map((name) => h("label", {}, columnBox(name), title(name)));
  const menu = h("details", { class: "menu columns" }, h("summary", {}, "Columns"), h("div", {}, columns));
  const best = h("button", { type: "button", onclick: judge }, "Test which is best");
  put(
    host,
    viewHead(
      "Table of runs",
      "All trained models, with any of their metrics. Select some to compare their training curves, or to test whether one is best.",
      { downloads: [["All rows (JSON)", () => saveJSON(rows, "runs-table")]] },
    ),
    problem,
    rows.length
      ? h("section", { class: "card", "aria-label": "Runs" }, h("div", { class: "row toolbar" }, filter, groups, menu, best, line), verdict, place)
      : missing("No runs yet", "A run is a folder that training writes. This command makes one:", "conceptlens demo"),
    drawn,
  );
  mark = JSON.stringify(rows);
  draw();
  await showCurves();
  const stop = live(ask, {
    every: () => (rows.some((row) => row.status === "running") ? 2000 : 10_000),
    onanswer: take,
    onproblem: (error) => {
      problem.textContent = `${error.message} Trying again…`;
      problem.hidden = false;
    },
  });
  return { stop };
}
