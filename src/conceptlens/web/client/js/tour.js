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
  finding: "It is gray because it failed its test: a map that never looks at the image finds the right place more often. A map that looks right can be wrong.",
  pass: "It passed its test: it finds the right place more often than a map that never looks at the image. Still, it shows where the model looked, not what decides.",
  unmeasured: "Nobody has tested it yet. The command conceptlens trust compares it with maps that never look at the image. Until then, do not rely on it: a map that looks right can be wrong.",
};

/** How often both are right, as their cards say it; nothing where one does not. @param {any[]} cards */
export function accuracies(...cards) {
  const shares = cards.map((card) => card.scores?.["class.accuracy"]);
  if (!shares.every(known)) return "";
  const [one, other] = shares.map((share) => Math.round(100 * share));
  return `They are right for ${one === other ? `${one} of 100 cells each` : `${one} and ${other} of 100 cells`}. `;
}

/** @param {{attends: any, sums: any}} runs @param {ReturnType<typeof stop>} found */
export function steps({ attends, sums }, found) {
  const { image, edit, truth, said, then } = found;
  return [
    {
      to: format("runs", {}),
      at: ".run-cards",
      title: "Two models of the same cells",
      text: `Both models name the type of a blood cell from the answers to eleven questions that a person can check, such as the shape of the nucleus. ${accuracies(attends, sums)}This tour shows what the accuracy does not tell you.`,
    },
    {
      to: format("image", { run: sums.key, show: "wrong", image }),
      at: '[aria-label="Concepts"]',
      title: "What the model reads",
      text: `This cell is a ${truth}. Each line is one question with the model's answer, its confidence, and the label. A cross marks a wrong answer.`,
    },
    {
      to: format("image", { run: sums.key, show: "wrong", image }),
      at: '[aria-label="Why"]',
      title: "Why it says so",
      text: `The model says ${said}. Each bar shows how much one answer speaks for or against that class. The bars add up to the decision; nothing else decides. Click a bar to see its map.`,
    },
    {
      to: format("what-if", { run: sums.key, show: "wrong", image, edits: edit }),
      at: '[aria-label="Prediction now"]',
      title: "One correction",
      text: `We set one answer: ${edit.replace("=", " is ")}. The model now says ${then}. Enter your name to save this as a correction; the next training can learn from it.`,
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
      text: `${attends.trust === "unexamined" ? "This model was not tested yet; the command above the view does that." : "Here is everything that was tested. Findings come first, then what passed, then what could not be measured."} The data does not name patients, so nothing is known about groups of patients. A high accuracy tells you none of this.`,
    },
    {
      to: format("runs", {}),
      at: "main h1",
      title: "Now your own images",
      text: "The command conceptlens init FOLDER reads your images and tables and writes what training needs. The question mark at the top explains every term and lists the keys.",
    },
  ];
}

/** @type {any} null while no tour is open */
let panel = null;

/** @param {any[]} cards */
export async function startTour(cards) {
  const runs = demoRuns(cards);
  if (!runs || panel) return;
  const body = h("div", { "aria-live": "polite" }, h("p", {}, "Searching for an image that one correction puts right…"));
  panel = h("section", { class: "tour card", role: "dialog", "aria-label": "Tour" }, body);
  document.body.append(panel);
  try {
    const found = await mended(runs.sums.key);
    if (found) show(steps(runs, found), 0, body);
    else put(body, h("p", {}, "No image of this model is put right by one correction, so there is nothing to show."), closing());
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
