/**
 * The frame: which view is open, which folder it shows. Views are functions (host, params, app) → {stop?, update?}.
 * `kinds` are the kinds of folders that a view shows (kinds.js), `needs` what of a folder it cannot do without;
 * `alone` views show no folder. `first` is what a view begins by asking of its folder, so that it is asked at once.
 */
import { here, go, note, format } from "./address.js";
import { api } from "./api.js";
import { h, put } from "./dom.js";
import { startGlossary } from "./glossary.js";
import { fits, KINDS, said, viewsOf } from "./kinds.js";
import { failure, loading, missing, viewHead } from "./parts/frame.js";
import { clearViewShortcuts, shortcut, startShortcuts } from "./shortcuts.js";
import { nextTheme, startTheme } from "./theme.js";
import { holds } from "./transport.js";

// A view's modules come when it is opened: the first paint waits for one view, not for all. Called with nothing, a view
// only gets its modules.
const begin = (name, given) => (module) => (given.length ? module[name](...given) : null);
const runsView = (...given) => import("./views/runs.js").then(begin("runsView", given));
const imageView = (...given) => import("./views/image.js").then(begin("imageView", given));
const datasetView = (...given) => import("./views/dataset.js").then(begin("datasetView", given));
const jobsView = (...given) => import("./views/jobs.js").then(begin("jobsView", given));
const tableView = (...given) => import("./views/table.js").then(begin("tableView", given));
const whatIfView = (...given) => import("./views/whatif.js").then(begin("whatIfView", given));
const trainingView = (...given) => import("./views/training.js").then(begin("trainingView", given));
const conceptsView = (...given) => import("./views/concepts.js").then(begin("conceptsView", given));
const comparisonView = (...given) => import("./views/comparison.js").then(begin("comparisonView", given));
const methodsView = (...given) => import("./views/methods.js").then(begin("methodsView", given));
const graphView = (...given) => import("./views/graph.js").then(begin("graphView", given));
const trustView = (...given) => import("./views/trust.js").then(begin("trustView", given));
const studyView = (...given) => import("./views/study.js").then(begin("studyView", given));
const studioView = (...given) => import("./views/studio.js").then(begin("studioView", given));

const VIEWS = [
  { name: "runs", title: "Runs", open: runsView, alone: true },
  { name: "table", title: "Table", open: tableView, alone: true },
  { name: "image", title: "Image", open: imageView, kinds: ["bottleneck"], needs: "model", first: () => ["", "/head"] },
  { name: "dataset", title: "Data set", open: datasetView, kinds: ["bottleneck"], needs: "model", first: () => [""] },
  {
    name: "what-if",
    title: "What if",
    open: whatIfView,
    kinds: ["bottleneck"],
    needs: "model",
    first: () => ["", "/head"],
  },
  { name: "training", title: "Training", open: trainingView, kinds: ["bottleneck"], first: () => ["/history"] },
  {
    name: "concepts",
    title: "Concepts",
    open: conceptsView,
    kinds: ["bottleneck"],
    needs: "model",
    first: ({ what }) => [`/${what ?? "concepts"}?look=false`],
  },
  { name: "trust", title: "Trust", open: trustView, kinds: ["bottleneck"], needs: "model", first: () => [""] },
  { name: "study", title: "Study", open: studyView, kinds: ["study"] },
  {
    name: "graph",
    title: "Graph",
    open: graphView,
    kinds: ["decomposition"],
    needs: "graph",
    first: ({ graph }) => [`/graphs/${encodeURIComponent(graph ?? "classes")}`],
  },
  { name: "studio", title: "Studio", open: studioView, kinds: ["codebook"], first: () => ["/studio"] },
  { name: "compare", title: "Compare", open: comparisonView, kinds: ["comparison"], first: () => ["/comparison"] },
  { name: "jobs", title: "Jobs", open: jobsView, alone: true },
  { name: "methods", title: "Methods", open: methodsView, alone: true },
].filter((each) => holds(each.name));

const main = document.getElementById("main");
const picker = document.getElementById("run-picker");
const runSelect = document.getElementById("run");
let current = null; // what the open view handed back
let opened = 0; // counts openings, so that a slow one cannot paint over a later one
let cards = [];
let seen = null; // the key of the folder that a view showed last
let shown = null; // the card whose views the tabs offer

/** What can be looked at of a folder: views without one, and those that fit its kind. */
const offered = (card) => VIEWS.filter((each) => each.alone || fits(each, card));

const insideComparison = (card) => cards.some((each) => each.key === card.within && each.kind === "comparison");

function drawTabs(view, card) {
  put(
    document.getElementById("tabs"),
    offered(card).map((each) =>
      h(
        "a",
        {
          href: format(each.name, { run: each.alone ? null : card.key }),
          "aria-current": each.name === view ? "page" : null,
        },
        each.title,
      ),
    ),
  );
  const tabs = document.getElementById("tabs");
  const open = tabs.querySelector("[aria-current]");
  if (!open || tabs.scrollWidth <= tabs.clientWidth) return;
  const [box, inner] = [tabs.getBoundingClientRect(), open.getBoundingClientRect()];
  tabs.scrollLeft += inner.left - box.left - (box.width - inner.width) / 2; // a phone shows some of them at a time
}

/** The folders that this view can show; the trainings of a comparison stand together. */
function drawPicker(view, card) {
  const usable = view.alone ? [] : cards.filter((each) => fits(view, each));
  const option = (each) => h("option", { value: each.key, selected: each.key === card?.key }, each.name);
  picker.hidden = usable.length === 0;
  put(
    runSelect,
    usable.filter((each) => !insideComparison(each)).map(option),
    cards
      .filter((each) => each.kind === "comparison")
      .map((holder) => {
        const own = usable.filter((each) => each.within === holder.key);
        return own.length ? h("optgroup", { label: `Trainings of ${holder.name}` }, own.map(option)) : null;
      }),
  );
}

/** The folder that is looked at: as the address says, or the one seen last, or the first that fits. */
function chosen(view, asked) {
  if (asked) return cards.find((card) => card.key === asked) ?? null;
  const before = cards.find((card) => card.key === seen && card.kind);
  if (before && (view.alone || fits(view, before))) return before;
  const able = cards.filter((card) => (view.alone ? card.kind : fits(view, card)));
  const single = able.filter((card) => !insideComparison(card)); // rather than one of many trainings
  return single.find((card) => card.has.includes("model")) ?? single[0] ?? able[0] ?? null;
}

/** What stands where a view has nothing to show: no folder of its kind, or one of another kind. */
function nothing(view, params, card) {
  const kinds = view.kinds ?? ["bottleneck"];
  if (!params.run)
    return missing(
      "There is nothing to show yet",
      `This view shows ${said(kinds)}, and none of the served folders is one. Make one with:`,
      KINDS[kinds[0]].made,
    );
  const other = KINDS[card.kind];
  return h(
    "section",
    { class: "card empty" },
    h("h2", {}, `${card.name} is ${other.about}`),
    h("p", {}, `This view shows ${said(kinds)}. `, link(card, `Open ${card.name}`)),
  );
}

const link = (card, text) => h("a", { href: format(viewsOf(VIEWS, card)[0]?.name ?? "runs", { run: card.key }) }, text);

async function open({ focus = true } = {}) {
  const { view: name, params } = here();
  const view = VIEWS.find((each) => each.name === name) ?? VIEWS[0];
  const mine = (opened += 1);
  current?.stop?.();
  current = null;
  clearViewShortcuts();
  document.title = `${view.title}${params.run ? ` · ${params.run}` : ""} · conceptlens`;
  const host = h("div", { class: `view view-${view.name}` }, loading());
  put(main, host);
  view.open().catch(() => {}); // its modules come while the server is asked; what is wrong with them is told below
  api.early(params.run, params.run ? (view.first?.(params) ?? []) : []);
  try {
    const known = !params.run || cards.some((card) => card.key === params.run);
    if (!cards.length || view.alone || !known) cards = (await api.runs()).runs;
    if (mine !== opened) return;
    const card = chosen(view, params.run);
    shown = card;
    drawTabs(view.name, card);
    drawPicker(view, card);
    if (!view.alone && (card ? card.kind && !fits(view, card) : !params.run)) {
      put(host, viewHead(view.title, "This view has nothing to show here."), nothing(view, params, card));
      return;
    }
    const run = card?.key ?? params.run; // one that is not there, or is broken, is refused by the server in its words
    if (card?.kind && (!view.alone || params.run)) seen = card.key;
    if (!view.alone && !params.run) note({ run });
    document.title = `${view.title}${view.alone ? "" : ` · ${card?.name ?? run}`} · conceptlens`;
    const handle = await view.open(host, view.alone ? params : { ...params, run }, { cards, card, views: VIEWS });
    if (mine !== opened) {
      handle?.stop?.();
      return;
    }
    current = handle ?? null;
    if (focus) host.querySelector("h1")?.focus({ preventScroll: true });
  } catch (error) {
    if (mine === opened) put(host, viewHead(view.title, "This view cannot be shown."), failure(error));
    if (error.code === "bug" || !error.status) console.warn(error);
    if (error.status === 401) location.assign("login");
  }
}

startTheme();
startShortcuts();
shortcut("t", "light or dark theme, or that of the system", nextTheme, { view: false });
for (let place = 0; place < 9; place += 1)
  shortcut(
    String(place + 1),
    "views, from left to right",
    () => {
      const view = offered(shown)[place];
      if (view) go(view.name, { run: view.alone ? null : shown.key });
    },
    { view: false },
  );
document.getElementById("skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
runSelect.addEventListener("change", () => go(here().view, { run: runSelect.value }));
window.addEventListener("hashchange", () => open());
open({ focus: false }).then(() => startGlossary(main)); // after the first paint: nobody waits for it
