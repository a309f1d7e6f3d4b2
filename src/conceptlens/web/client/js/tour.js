/**
 * Three minutes with the demo's two models: what a model reads, why it says so, one correction, and why the other model
 * should not be trusted. A step is an address, what to look at there, and a few sentences; the steps stand in a panel beside
 * the page, which can be used all the while.
 */
import { format } from "./address.js";
import { announce } from "./announce.js";
import { api } from "./api.js";
import { h, put } from "./dom.js";
import { known } from "./words.js";

/** The folders of the tour, as `conceptlens demo` names them. @param {any[]} cards */
export function demoRuns(cards) {
  const done = (/** @type {string} */ name) => cards.find((card) => card.name === name && card.kind === "bottleneck" && card.has.includes("model"));
  const [attends, sums] = [done("demo"), done("demo-evidence")];
  return attends && sums ? { attends, sums } : null;
}

/** A wrong image that one right answer mends; else one whose class one answer changes. @param {string} run */
async function mended(run) {
  const asked = { split: "test", size: "12" };
  const { items } = await api.images(run, { ...asked, show: "wrong" });
  for (const item of items) {
    const prediction = await api.predictionAlone(run, item.split, item.row);
    for (const edit of prediction.truth_edits ?? []) {
      const { after } = await api.intervene(run, { state: prediction.state, edits: [edit] });
      if (after.said.join() === prediction.truth?.join()) return stop(item, prediction, edit, after.said.join(", "));
    }
  }
  for (const item of (await api.images(run, { ...asked, show: "uncertain" })).items) {
    const prediction = await api.predictionAlone(run, item.split, item.row);
    const flip = await api.flip(run, { state: prediction.state, edits: [] });
    if (flip.edits?.length === 1) return stop(item, prediction, flip.edits[0], flip.after);
  }
  return null;
}

/** What the steps speak of: an image, one answer, and the class before and after it. @param {any} item @param {Answers.Prediction} prediction @param {any} edit @param {any} then */
const stop = (item, prediction, edit, then) => ({
  image: `${item.split}/${item.row}`,
  edit,
  then,
  said: prediction.predicted.join(", "),
  truth: prediction.truth?.join(", ") ?? "cell without a label",
});

/** What the test of its maps found, in the words of the tour. @type {Record<string, string>} */
const MAP_WORDS = {
  finding: "It is gray because it was tested: a map that never sees the image finds the right place more often. Do not believe a map because it looks right.",
  pass: "It was tested and finds the right place more often than a map that never sees the image. Even so it shows where the model looked, not what decides.",
  unmeasured: "Nobody has tested it yet: conceptlens trust compares it with maps that never see the image. Until then, do not believe a map because it looks right.",
};

/** How often both are right, as their cards say it; nothing where one does not. @param {any[]} cards */
export function accuracies(...cards) {
  const shares = cards.map((card) => card.scores?.["class.accuracy"]);
  if (!shares.every(known)) return "";
  const [one, other] = shares.map((share) => Math.round(100 * share));
  return `They are right for ${one === other ? `${one} cells in 100 each` : `${one} and ${other} cells in 100`}. `;
}

/** @param {{attends: any, sums: any}} runs @param {ReturnType<typeof stop>} found */
export function steps({ attends, sums }, found) {
  const { image, edit, truth, said, then } = found;
  return [
    {
      to: format("runs", {}),
      at: ".run-cards",
      title: "Two models of the same cells",
      text: `Both name the class of a blood cell through eleven questions that a person can check, such as the shape of the nucleus. ${accuracies(attends, sums)}The tour shows what that does not tell you.`,
    },
    {
      to: format("image", { run: sums.key, show: "wrong", image }),
      at: '[aria-label="Concepts"]',
      title: "What the model reads",
      text: `This cell is a ${truth}. Each line is one question: what the model answers, how sure it is, and what the label says. A cross marks an answer that is wrong.`,
    },
    {
      to: format("image", { run: sums.key, show: "wrong", image }),
      at: '[aria-label="Why"]',
      title: "Why it says so",
      text: `It says ${said}. Each bar is what one answer adds for that class or takes from it, and all bars together are the decision. Nothing else decides. Press a bar to see its map.`,
    },
    {
      to: format("what-if", { run: sums.key, show: "wrong", image, edits: edit }),
      at: '[aria-label="Prediction now"]',
      title: "One correction",
      text: `We set one answer: ${edit.replace("=", " is ")}. The model now says ${then}. With your name you can save this as a correction, and the next training learns from it.`,
    },
    {
      to: format("image", { run: attends.key, image }),
      at: ".map-panel",
      title: "The other model shows where it looked",
      text: `Its map looks like a reason. ${MAP_WORDS[attends.verdicts?.maps ?? "unmeasured"]}`,
    },
    {
      to: format("trust", { run: attends.key }),
      at: ".trust > *",
      title: "Why it should not be trusted yet",
      text: `${attends.trust === "unexamined" ? "Nothing of this model was examined yet; the command above the view does it." : "Here is everything that was examined. Findings come first, then what passed, then what nobody could measure."} Of patients nothing is known: the data names none. A high accuracy says nothing of all this.`,
    },
    {
      to: format("runs", {}),
      at: "main h1",
      title: "Now your own images",
      text: "conceptlens init FOLDER looks at your images and tables and writes what training needs. The question mark above lists keys and every term in plain words.",
    },
  ];
}

/** @type {any} null while no tour is open */
let panel = null;

/** @param {any[]} cards */
export async function startTour(cards) {
  const runs = demoRuns(cards);
  if (!runs || panel) return;
  const body = h("div", { "aria-live": "polite" }, h("p", {}, "Looking for an image that one correction mends…"));
  panel = h("section", { class: "tour card", role: "dialog", "aria-label": "Tour" }, body);
  document.body.append(panel);
  try {
    const found = await mended(runs.sums.key);
    if (found) show(steps(runs, found), 0, body);
    else put(body, h("p", {}, "No image of this model is mended by one answer, so that there is nothing to show."), closing());
  } catch (error) {
    put(body, h("p", {}, /** @type {any} */ (error).message), closing());
  }
}

const closing = () => h("button", { type: "button", onclick: end }, "End the tour");

function end() {
  panel?.remove();
  panel = null;
  point(null);
  document.getElementById("tour")?.focus();
}

/** Frame what a step speaks of, once it is there; nothing for null. @param {string | null} selector */
function point(selector, tries = 400) {
  for (const each of document.querySelectorAll(".tour-target")) each.classList.remove("tour-target");
  if (!selector || !panel) return;
  const target = document.querySelector(`main ${selector}, ${selector}`);
  if (!target) {
    if (tries) setTimeout(() => panel?.dataset.at === selector && point(selector, tries - 1), 150);
    return;
  }
  target.classList.add("tour-target");
  target.scrollIntoView({ block: "center", behavior: "instant" });
}

/** @param {any} all @param {number} place @param {any} body */
function show(all, place, body) {
  const step = all[place];
  const last = place === all.length - 1;
  if (location.hash !== step.to) location.hash = step.to;
  panel.dataset.at = step.at;
  point(step.at);
  setTimeout(() => panel?.dataset.at === step.at && point(step.at), 1200); // a view that was drawn anew meanwhile
  const next = h(
    "button",
    { type: "button", class: "main", onclick: () => (last ? end() : show(all, place + 1, body)) },
    last ? "End the tour" : "Next",
  );
  put(
    body,
    h("p", { class: "note" }, `Step ${place + 1} of ${all.length}`),
    h("h2", {}, step.title),
    h("p", {}, step.text),
    h(
      "div",
      { class: "row" },
      next,
      place ? h("button", { type: "button", onclick: () => show(all, place - 1, body) }, "Back") : null,
      last ? null : h("button", { type: "button", class: "quiet", onclick: end }, "End"),
    ),
  );
  next.focus({ preventScroll: true });
  announce(`${step.title}. ${step.text}`);
}
