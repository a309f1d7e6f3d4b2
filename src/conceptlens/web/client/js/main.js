/** The frame: which view is open, and which folder it shows. The views are listed in views.js. */
import { here, go, note } from "./address.js";
import { api } from "./api.js";
import { h, put } from "./dom.js";
import { startGlossary } from "./glossary.js";
import { fits } from "./kinds.js";
import { addressOf, chosen, drawPicker, drawTabs, nothing } from "./navigation.js";
import { failure, loading, offerJobs, viewHead } from "./parts/frame.js";
import { trustStrip } from "./parts/trust_strip.js";
import { clearViewShortcuts, shortcut, startShortcuts } from "./shortcuts.js";
import { startPlain } from "./plain.js";
import { nextTheme, startTheme } from "./theme.js";
import { holds, shared } from "./transport.js";
import { VIEWS as ALL } from "./views.js";

const VIEWS = ALL.filter((view) => holds(view.name));
const main = /** @type {HTMLElement} */ (document.getElementById("main"));
const runSelect = /** @type {HTMLSelectElement} */ (document.getElementById("run"));
/** @type {any} */
let current = null; // what the open view handed back
let opened = 0; // counts openings, so that a slow one cannot paint over a later one
/** @type {Answers.RunCard[]} */
let cards = [];
/** @type {any} */
let seen = null; // the key of the folder that a view showed last
/** @type {any} */
let shown = null; // the card whose views the tabs offer

async function open({ focus = true } = {}) {
  const { view: name, params } = here();
  const view = VIEWS.find((each) => each.name === name) ?? VIEWS[0];
  const mine = (opened += 1);
  const began = document.activeElement;
  current?.stop?.();
  current = null;
  clearViewShortcuts();
  document.title = `${view.title}${params.run ? ` · ${params.run}` : ""} · conceptlens`;
  const host = h("div", { class: `view view-${view.name}` }, loading());
  const strip = h("div", {});
  put(main, strip, host);
  const loaded = view.load(); // its modules come while the server is asked
  loaded.catch(() => {}); // what is wrong with them is told below
  api.early(view.alone ? null : params.run, view.alone || params.run ? (view.first?.(params) ?? []) : []);
  try {
    const known = !params.run || cards.some((card) => card.key === params.run);
    if (!cards.length || view.alone || !known) await look();
    if (mine !== opened) return;
    offerTour();
    const card = chosen(view, params.run, cards, seen);
    shown = card;
    drawTabs(VIEWS, view.name, card, cards);
    drawPicker(view, card, cards);
    if (!view.alone && (card ? card.kind && !fits(view, card) : !params.run)) {
      put(host, viewHead(view.title, "This view has nothing to show here."), nothing(VIEWS, view, params, card));
      return;
    }
    const run = card?.key ?? params.run; // one that is not there, or is broken, is refused by the server in its words
    if (card?.kind && (!view.alone || params.run)) seen = card.key;
    if (!view.alone && !params.run) note({ run });
    document.title = `${view.title}${view.alone ? "" : ` · ${card?.name ?? run}`} · conceptlens`;
    const drawStrip = () => put(strip, trustStrip(cards.find((each) => each.key === card?.key), cards));
    if (!view.alone && !shared) drawStrip(); // a shared file has all verdicts above it
    const renewStrip = () => look().then(drawStrip); // for a view in which something is measured
    const start = await loaded;
    const handle = await start(host, view.alone ? params : { ...params, run }, { cards, card, views: VIEWS, renewStrip });
    if (mine !== opened) {
      handle?.stop?.();
      return;
    }
    current = handle ?? null;
    const touring = document.activeElement?.closest(".tour"); // who follows the tour stays on its buttons
    const stayed = [began, document.body].includes(document.activeElement); // who went on by keys is not called back
    if (focus && stayed && !touring) /** @type {HTMLElement | null} */ (host.querySelector("h1"))?.focus({ preventScroll: true });
  } catch (error) {
    if (mine === opened) put(host, viewHead(view.title, "This view cannot be shown."), failure(error));
    if (/** @type {any} */ (error).code === "bug" || !/** @type {any} */ (error).status) console.warn(error);
    if (/** @type {any} */ (error).status === 401) location.assign("login");
  }
}

/** The folders as they are now, and what may be started for them. */
async function look() {
  const { runs, starts = [] } = await api.runs();
  cards = runs;
  offerJobs({ starts, cards });
}

/** The tour is offered where the demo's two models are served. */
function offerTour() {
  const button = document.getElementById("tour");
  const both = ["demo", "demo-evidence"].every((name) => cards.some((card) => card.name === name));
  if (button && !shared) button.hidden = !both;
}

startTheme();
startShortcuts();
shortcut("p", "plain words: points in place of logits and nats", startPlain(() => open({ focus: false })), { view: false });
document.getElementById("tour")?.addEventListener("click", () => import("./tour.js").then((m) => m.startTour(cards)));
shortcut("t", "light or dark theme, or that of the system", nextTheme, { view: false });
for (let place = 0; place < 9; place += 1)
  shortcut(
    String(place + 1),
    "views, from left to right",
    () => {
      const view = VIEWS[place];
      if (view) location.hash = addressOf(view, shown);
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
