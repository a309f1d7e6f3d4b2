/** Edit a region towards a concept within a budget: the path as it is searched, a strip, what changed; and undo. */
import { announce } from "../announce.js";
import { lines } from "../charts/lines.js";
import { choice, tableHead, eachFrame, h, put, scrolling } from "../dom.js";
import { cellsOf, middle, regionWords } from "../region.js";
import { source, studio } from "../studio.js";
import { fixed, percent, plural } from "../words.js";
import { failure } from "./frame.js";

const METHODS = [
  ["tokens", "choose tokens (CORTEX)"],
  ["embeddings", "move vectors, take the nearest"],
];

/**
 * @param {{run: string, about: any, state: Record<string, string>, reading: () => any,
 *   onregion: (region: any) => void, onedited: (reading: any) => void, onundo: () => void,
 *   onchange: (changes: Record<string, any>) => void}} options
 */
export function editPanel({ run, about, state, reading, onregion, onedited, onundo, onchange }) {
  const names = about.concepts;
  const [rows, columns] = about.grid;
  /** @type {any} */
  let region = null;
  let target = names.includes(state.target) ? state.target : names[names.length - 1];
  let steps = Math.min(Math.max(Number(state.steps) || 120, 1), about.limits.steps);
  let seed = Math.max(0, Math.floor(Number(state.seed) || 0));
  let method = METHODS.some(([key]) => key === state.method) ? state.method : "tokens";
  /** @type {any} */
  let stopper = null;
  /** @type {any} */
  let last = null; // the path and the strip of the last edit
  const line = h("p", { class: "note", role: "status", id: "edit-line" });
  const chart = h("div", { id: "edit-path" });
  const strip = h("ol", { class: "edit-strip", "aria-label": "The edit, from before to after" });
  const after = h("div", {});
  const start = h("button", { type: "button", class: "main", onclick: run_ }, "Edit the region");
  const cancel = h("button", { type: "button", hidden: true, onclick: () => stopper?.abort() }, "Cancel");
  const undo = h("button", { type: "button", disabled: true, onclick: () => onundo() }, "Undo");
  const slider = h("input", {
    type: "range",
    min: "10",
    max: String(about.limits.steps),
    step: "10",
    value: String(steps),
    "aria-label": "Budget of steps",
    oninput: () => {
      steps = Number(slider.value);
      budget.textContent = `${steps} steps`;
      onchange({ steps: steps === 120 ? "" : steps });
    },
  });
  const budget = h("span", { class: "num" }, `${steps} steps`);
  const seedField = h("input", {
    type: "number",
    min: "0",
    max: "2147483647",
    value: String(seed),
    onchange: () => {
      seed = Math.max(0, Math.floor(Number(seedField.value) || 0));
      onchange({ seed: seed || "" });
    },
  });

  const drawPath = eachFrame(() => {
    if (last?.path.length)
      put(
        chart,
        lines([{ name: last.target, points: last.path }], {
          label: `Probability of ${last.target} along the edit`,
          x: "step",
          height: 190,
          read: percent,
          domain: [0, 1],
        }),
      );
  });
  const frame = (/** @type {string} */ picture, /** @type {string} */ words) =>
    strip.append(
      h(
        "li",
        {},
        h("img", { src: source(picture), alt: `The image, ${words}`, class: "pixels" }),
        h("span", { class: "note" }, words),
      ),
    );

  async function run_() {
    const from = reading();
    stopper = new AbortController();
    last = { target, path: [], region: regionWords(region), steps, seed, method, changed: null };
    busy(true);
    put(chart);
    put(strip);
    put(after);
    if (from.picture) frame(from.picture, "before");
    line.textContent = "Searching…";
    try {
      await studio.edit(
        run,
        { tokens: from.tokens, cells: cellsOf(region, columns), target, steps, method, seed },
        (event) => see(event, from),
        stopper.signal,
      );
    } catch (error) {
      if (/** @type {any} */ (error).name === "AbortError") {
        line.textContent = "Cancelled; the image is unchanged.";
        announce("Edit cancelled");
      } else {
        line.textContent = "";
        put(after, failure(error));
      }
    } finally {
      busy(false);
    }
  }

  /** @param {any} event @param {any} from */
  function see(event, from) {
    if (!last) return; // another image was opened meanwhile
    if (event.kind === "waiting") line.textContent = `Waiting for ${plural(event.ahead, "other edit")}…`;
    else if (event.kind === "step") {
      last.path.push([event.step, event.probability]);
      line.textContent = `Step ${event.step + 1} of ${steps}: ${last.target} ${percent(event.probability)}`;
      if (event.picture) frame(event.picture, `step ${event.step + 1}`);
      drawPath();
    } else if (event.kind === "failed") {
      line.textContent = "";
      put(after, failure(new Error(event.message)));
    } else {
      last.changed = event.changed;
      last.before = from.probabilities[names.indexOf(last.target)];
      last.after = event.probability;
      if (event.reading.picture) frame(event.reading.picture, "after");
      const place = names.indexOf(last.target);
      line.textContent =
        `${last.target}: ${fixed(from.probabilities[place])} → ${fixed(event.probability)} by the extractor, ` +
        `${event.changed.length} of ${cellsOf(region, columns).length} tokens of the region changed` +
        `${event.stopped ? "; the time limit was reached, so this is the best result so far" : ""} (${event.seconds} s).`;
      announce(line.textContent);
      put(after, changes(event.changed));
      onedited(event.reading);
    }
  }

  const changes = (/** @type {any[]} */ changed) =>
    changed.length
      ? h(
          "details",
          {},
          h("summary", {}, `${plural(changed.length, "token")} changed`),
          scrolling(
            "Tokens that changed",
            { class: "scroll changed" },
            h(
              "table",
              {},
              tableHead(["Row", "Column", "Before", "After"]),
              h(
                "tbody",
                {},
                changed.map((/** @type {any} */ each) =>
                  h(
                    "tr",
                    {},
                    [each.row + 1, each.column + 1, each.before, each.after].map((value) => h("td", {}, String(value))),
                  ),
                ),
              ),
            ),
          ),
        )
      : h("p", { class: "note" }, "No token changed.");

  /** @param {boolean} on */
  function busy(on) {
    cancel.hidden = !on;
    start.disabled = on || !region;
    if (on) cancel.focus();
    else if (document.activeElement === cancel || document.activeElement === document.body) start.focus();
  }

  const words = h("p", { class: "note" });
  function say() {
    words.textContent = region
      ? `Region: rows ${region.top + 1} to ${region.bottom}, columns ${region.left + 1} to ${region.right} (${plural(cellsOf(region, columns).length, "token")}).`
      : "Draw a region on the image: drag over it, or move with the arrow keys and hold Shift.";
    start.disabled = !region || !cancel.hidden;
  }

  const node = h(
    "div",
    { class: "edit-panel" },
    words,
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", onclick: () => onregion(middle(about.grid)) }, "Middle"),
      h(
        "button",
        { type: "button", onclick: () => onregion({ top: 0, left: 0, bottom: rows, right: columns }) },
        "Everything",
      ),
      h("button", { type: "button", class: "quiet", onclick: () => onregion(null) }, "Clear"),
    ),
    h(
      "div",
      { class: "row fields" },
      choice(
        "Towards",
        names.map((/** @type {string} */ name) => [name, name]),
        target,
        (name) => {
          target = name;
          onchange({ target });
        },
      ),
      choice("How", METHODS, method, (key) => {
        method = key;
        onchange({ method: key === "tokens" ? "" : key });
      }),
      h("label", { class: "field seed" }, "Seed", seedField),
    ),
    h("label", { class: "opacity budget" }, h("span", { class: "note" }, "Budget"), slider, budget),
    h("div", { class: "row" }, start, cancel, undo),
    line,
    chart,
    strip,
    after,
  );
  say();
  return Object.assign(node, {
    setRegion(/** @type {any} */ next) {
      region = next;
      say();
      onchange({ region: regionWords(region) });
    },
    setUndo(/** @type {number} */ count) {
      undo.disabled = count === 0;
      undo.textContent = count > 1 ? `Undo (${count})` : "Undo";
    },
    clear() {
      put(chart);
      put(strip);
      put(after);
      line.textContent = "";
      last = null;
    },
    stop: () => stopper?.abort(),
    chart: () => chart.querySelector("svg"),
    data: () => last,
  });
}
