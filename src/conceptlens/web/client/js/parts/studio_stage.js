/** The image of the studio and its tokens: how important each is, hiding some, editing a region, with undo. */
import { note } from "../address.js";
import { announce } from "../announce.js";
import { shares } from "../charts/shares.js";
import { h, opacitySlider, put, segment } from "../dom.js";
import { parseRegion } from "../region.js";
import { latest, source, studio } from "../studio.js";
import { plural } from "../words.js";
import { card } from "./frame.js";
import { editPanel } from "./studio_edit.js";
import { maskPanel } from "./studio_mask.js";
import { membership, rankWords, tokenFacts, tokenWords } from "./token_facts.js";
import { tokenGrid } from "./token_grid.js";

const MODES = [
  ["look", "Look"],
  ["mask", "Hide tokens"],
  ["region", "Edit a region"],
];

/**
 * @param {{run: string, about: any, live: boolean, sets: any, params: Record<string, string>}} options
 * @returns the cards, `show` for another image, and what the view saves of it
 */
export function studioStage({ run, about, live, sets, params }) {
  const [, columns] = about.grid;
  const member = membership(sets);
  /** @type {any} */
  let current = null; // the reading that is shown
  /** @type {any[]} */
  let past = []; // readings before each edit
  let heats = new Map();
  let concept = Math.max(0, about.concepts.indexOf(params.concept));
  let named = about.concepts.includes(params.concept);
  let mode = MODES.some(([key]) => key === params.mode) ? params.mode : "look";
  /** @type {any} */
  let pinned = null;
  const state = { ...params };

  const facts = h("div", { "aria-live": "off" });
  const caption = h("p", { class: "note caption", role: "status" });
  const said = h("div", {});
  const tool = h("div", {});

  const grid = tokenGrid({
    grid: about.grid,
    mode,
    name: (cell) => {
      const heat = heats.get(concept);
      const token = current?.tokens.flat()[cell];
      return `token ${tokenWords(token, about.names)}${heat ? ` · ${rankWords(heat.levels, cell, about.concepts[concept])}` : ""}`;
    },
    onhover: (cell) => showFacts(cell ?? pinned),
    onpick: (cell) => {
      pinned = cell;
      note({ pin: cell ?? "" });
      showFacts(cell);
    },
    onchosen: (cells) => mask?.setCells(cells),
    onregion: (region) => edit?.setRegion(region),
  });

  const mask = live
    ? maskPanel({
        run,
        names: about.concepts,
        state,
        reading: () => current,
        concept: () => concept,
        top: (n) => {
          const heat = heats.get(concept);
          if (!heat) return [];
          const order = heat.levels.map((/** @type {number} */ level, /** @type {number} */ cell) => [Math.abs(level), cell]);
          return order
            .sort((/** @type {number[]} */ a, /** @type {number[]} */ b) => b[0] - a[0])
            .slice(0, n)
            .map((/** @type {any} */ [, cell]) => cell);
        },
        onchosen: (cells) => {
          grid.setChosen(cells);
          mask.setCells(cells);
        },
        onchange: note,
      })
    : null;

  const edit = live
    ? editPanel({
        run,
        about,
        state,
        reading: () => current,
        onregion: (region) => {
          grid.setRegion(region);
          edit.setRegion(region);
        },
        onedited: (reading) => {
          past.push({ reading: current, heats });
          show(reading, { edited: true });
        },
        onundo: undo,
        onchange: note,
      })
    : null;

  function undo() {
    const before = past.pop();
    if (!before) return;
    heats = before.heats;
    current = before.reading;
    edit.clear();
    drawCurrent();
    announce("Undone");
  }

  /** @param {any} reading */
  function show(reading, { edited = false } = {}) {
    if (!edited) {
      past = [];
      edit?.stop();
      edit?.clear();
    }
    current = reading;
    heats = new Map(reading.heat.map((/** @type {any} */ each) => [each.concept, each]));
    if (!named && reading.concept !== null && reading.concept !== undefined && !edited) concept = reading.concept;
    drawCurrent();
  }

  function drawCurrent() {
    const address = current.picture ? source(current.picture) : null;
    picker.value = String(concept);
    grid.setReading(current, address);
    edit?.setUndo(past.length);
    const first = past[0]?.reading.tokens.flat();
    grid.setChanged(first ? current.tokens.flat().flatMap((/** @type {any} */ each, /** @type {any} */ cell) => (each === first[cell] ? [] : [cell])) : []);
    drawHeat();
    drawSaid();
    showFacts(pinned);
    mask?.refresh();
  }

  const askHeat = latest(
    (reading, of) => studio.importance(run, reading.tokens, of).then((heat) => ({ reading, heat })),
    ({ reading, heat }) => {
      if (reading !== current) return;
      heats.set(heat.concept, heat);
      if (heat.concept === concept) drawHeat();
    },
    (error) => {
      caption.textContent = error.message;
    },
  );

  function drawHeat() {
    const heat = heats.get(concept);
    const name = about.concepts[concept];
    grid.setHeat(heat?.levels ?? null);
    caption.textContent = heat
      ? `The brighter a token, the more the probability of ${name} depends on it.${current.picture ? "" : " The model has no decoder: each color stands for a code."}`
      : live
        ? `Importance for ${name} is being computed…`
        : `Importance for ${name} was not written for this image.`;
    if (!heat && live) askHeat(current, concept);
    showFacts(pinned);
  }

  function drawSaid() {
    put(
      said,
      shares(
        about.concepts.map((/** @type {string} */ name, /** @type {number} */ place) => ({
          name,
          probability: current.probabilities[place],
          was: past.length ? past[0].reading.probabilities[place] : undefined,
          said: place === concept,
        })),
      ),
    );
  }

  /** @param {number | null | undefined} cell */
  function showFacts(cell) {
    put(
      facts,
      cell === null || cell === undefined || !current
        ? h(
            "p",
            { class: "note" },
            "Point at a token, or move over the image with the arrow keys. Enter keeps it here.",
          )
        : tokenFacts({
            reading: current,
            cell,
            columns,
            heat: heats.get(concept),
            concept: about.concepts[concept],
            member,
            names: about.names,
            ontoken: linkToken,
          }),
    );
  }

  let unlink = 0;
  /** @param {number} token */
  function linkToken(token) {
    clearTimeout(unlink);
    const cells = current.tokens.flat().flatMap((/** @type {number} */ each, /** @type {number} */ cell) => (each === token ? [cell] : []));
    grid.link(cells);
    if (!cells.length) announce(`Token ${token} is not in this image`);
    unlink = setTimeout(() => grid.link(null), 1600);
  }

  const picker = h("select", {
    "aria-label": "Concept whose importance is shown",
    onchange: () => {
      concept = Number(picker.value);
      named = true;
      note({ concept: about.concepts[concept] });
      drawHeat();
      drawSaid();
      mask?.redraw();
    },
  });
  about.concepts.forEach((/** @type {string} */ name, /** @type {number} */ place) =>
    picker.append(h("option", { value: String(place), selected: place === concept }, name)),
  );
  const opacity = Number(params.opacity ?? 0.65);
  const slider = opacitySlider("Opacity of the importance", opacity, (value) => {
    grid.setOpacity(value);
    note({ opacity: value });
  });
  const lined = h("input", {
    type: "checkbox",
    checked: params.lines !== "0",
    onchange: () => {
      grid.setLines(lined.checked);
      note({ lines: lined.checked ? "" : "0" });
    },
  });
  const setMode = (/** @type {string} */ key) => {
    mode = key;
    note({ mode: key === "look" ? "" : key });
    grid.setMode(key);
    drawTool();
    if (key === "mask" && current) mask.refresh();
  };
  const chooser = live ? segment("What the pointer does", MODES, mode, setMode) : null;

  function drawTool() {
    put(
      tool,
      mode === "mask"
        ? card("Hide tokens", { note: "See what the image and the concept lose without them." }, mask)
        : mode === "region"
          ? card(
              "Edit the region",
              {
                note: "The tokens of the region are optimized until the extractor predicts the target; the best result is kept. An extractor can be fooled. Judge yourself whether the picture shows the target, or use independent judges (codebook edit --judge).",
              },
              edit,
            )
          : null,
    );
  }

  const node = h(
    "div",
    { class: "studio" },
    h(
      "div",
      { class: "stack" },
      card(
        "The image and its tokens",
        { tools: h("span", { class: "note" }, `${about.grid.join(" × ")} tokens of ${plural(about.codes, "code")}`) },
        chooser,
        grid,
        h(
          "div",
          { class: "row under" },
          picker,
          h("label", { class: "opacity" }, h("span", { class: "note" }, "Opacity"), slider),
          h("label", { class: "row lined" }, lined, "Grid"),
        ),
        caption,
      ),
    ),
    h(
      "div",
      { class: "stack" },
      tool,
      card("A token", {}, facts),
      card("Prediction of the extractor", { note: "Probability of each concept, by the study's own extractor." }, said),
    ),
  );

  grid.setOpacity(opacity);
  grid.setLines(lined.checked);
  if (!live) mode = "look";
  grid.setMode(mode);
  drawTool();
  showFacts(null);
  const region = parseRegion(params.region, about.grid);
  const cells = (params.cells ?? "")
    .split(",")
    .filter((word) => /^\d+$/.test(word))
    .map(Number)
    .filter((cell) => cell < about.grid[0] * columns);

  /** What the address says of the first image: a region, hidden tokens, a token that is kept. */
  function restore() {
    if (region && live) {
      grid.setRegion(region);
      edit.setRegion(region);
    }
    if (cells.length && live) {
      grid.setChosen(cells);
      mask.setCells(cells);
    }
    if (/^\d+$/.test(params.pin ?? "") && Number(params.pin) < about.grid[0] * columns) {
      pinned = Number(params.pin);
      grid.setPicked(pinned);
      showFacts(pinned);
    }
  }

  return {
    node,
    show,
    restore,
    undo,
    /** Show where a token is; null: no longer. */
    link(/** @type {number | null} */ token) {
      clearTimeout(unlink);
      if (!current) return;
      grid.link(token === null ? null : current.tokens.flat().flatMap((/** @type {any} */ each, /** @type {any} */ cell) => (each === token ? [cell] : [])));
    },
    /** Another image may choose the concept by itself again. */
    forgetConcept() {
      named = false;
    },
    concept: () => about.concepts[concept],
    nextMode() {
      const at = MODES.findIndex(([key]) => key === mode);
      const [next] = MODES[(at + 1) % MODES.length];
      chooser.set(next);
      setMode(next);
    },
    compose: () => current && grid.compose(),
    chart: () => edit?.chart() ?? null,
    data: () => ({
      image: current && { ...current, picture: undefined },
      edits: past.length,
      mask: mask?.data() ?? null,
      edit: edit?.data() ?? null,
    }),
    stop() {
      clearTimeout(unlink);
      edit?.stop();
    },
  };
}
