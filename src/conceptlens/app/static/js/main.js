/** The frame: which view is open, which run it shows. Views are functions (host, params, app) → {stop?, update?}. */
import { here, go, note, format } from "./address.js";
import { api } from "./api.js";
import { h, put } from "./dom.js";
import { failure, loading, viewHead } from "./parts/frame.js";
import { clearViewShortcuts, shortcut, startShortcuts } from "./shortcuts.js";
import { nextTheme, startTheme } from "./theme.js";
import { runsView } from "./views/runs.js";
import { imageView } from "./views/image.js";
import { whatIfView } from "./views/whatif.js";
import { trainingView } from "./views/training.js";
import { conceptsView } from "./views/concepts.js";

const VIEWS = [
  { name: "runs", title: "Runs", open: runsView, alone: true },
  { name: "image", title: "Image", open: imageView },
  { name: "what-if", title: "What if", open: whatIfView },
  { name: "training", title: "Training", open: trainingView },
  { name: "concepts", title: "Concepts", open: conceptsView },
];

const main = document.getElementById("main");
const picker = document.getElementById("run-picker");
const runSelect = document.getElementById("run");
let current = null; // what the open view handed back
let opened = 0; // counts openings, so that a slow one cannot paint over a later one
let cards = [];

function drawTabs(view, run) {
  put(
    document.getElementById("tabs"),
    VIEWS.map((each) =>
      h(
        "a",
        {
          href: format(each.name, each.alone ? {} : { run }),
          "aria-current": each.name === view ? "page" : null,
        },
        each.title,
      ),
    ),
  );
}

function drawPicker(run) {
  const usable = cards.filter((card) => card.status !== "broken");
  picker.hidden = usable.length === 0;
  put(
    runSelect,
    usable.map((card) => h("option", { value: card.key, selected: card.key === run }, card.name)),
  );
}

async function open({ focus = true } = {}) {
  const { view: name, params } = here();
  const view = VIEWS.find((each) => each.name === name) ?? VIEWS[0];
  const mine = (opened += 1);
  current?.stop?.();
  current = null;
  clearViewShortcuts();
  document.title = `${view.title}${params.run ? ` · ${params.run}` : ""} · conceptlens`;
  drawTabs(view.name, params.run);
  const host = h("div", { class: `view view-${view.name}` }, loading());
  put(main, host);
  try {
    if (!cards.length || view.alone) cards = (await api.runs()).runs;
    if (mine !== opened) return;
    const run =
      params.run ??
      cards.find((card) => card.has.includes("model"))?.key ??
      cards.find((card) => card.status !== "broken")?.key;
    if (!view.alone && !run) {
      put(
        host,
        viewHead(view.title, "There is nothing to show yet."),
        failure(
          new Error("There is no run to look at yet. Train one with `conceptlens train`, or `conceptlens demo`."),
        ),
      );
      return;
    }
    if (!view.alone && !params.run) note({ run });
    drawTabs(view.name, view.alone ? (params.run ?? run) : run);
    drawPicker(run);
    picker.hidden ||= Boolean(view.alone);
    document.title = `${view.title}${view.alone ? "" : ` · ${cards.find((card) => card.key === run)?.name ?? run}`} · conceptlens`;
    const handle = await view.open(host, view.alone ? params : { ...params, run }, {
      cards,
      card: cards.find((card) => card.key === run),
    });
    if (mine !== opened) {
      handle?.stop?.();
      return;
    }
    current = handle ?? null;
    if (focus) host.querySelector("h1")?.focus({ preventScroll: true });
  } catch (error) {
    if (mine === opened) put(host, viewHead(view.title, "This could not be shown."), failure(error));
    if (error.code === "bug" || !error.status) console.warn(error);
    if (error.status === 401) location.assign("login");
  }
}

startTheme();
startShortcuts();
shortcut("t", "light, dark or as the system has it", nextTheme, { view: false });
VIEWS.forEach((view, place) =>
  shortcut(
    String(place + 1),
    "views, from left to right",
    () => go(view.name, view.alone ? {} : { run: here().params.run }),
    { view: false },
  ),
);
document.getElementById("skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
runSelect.addEventListener("change", () => go(here().view, { run: runSelect.value }));
window.addEventListener("hashchange", () => open());
open({ focus: false });
