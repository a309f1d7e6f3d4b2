/** All images of a split: as a grid or a map, colored, filtered, enclosed by a lasso; likely label errors. */
import { format, here, note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { heat, token } from "../colors.js";
import { dataset } from "../dataset/api.js";
import { imageCanvas } from "../dataset/canvas.js";
import { controls } from "../dataset/controls.js";
import { axesLine, colorLegend } from "../dataset/legend.js";
import { mask, rowsOf } from "../dataset/filter.js";
import { gridPlaces, scatter } from "../dataset/geometry.js";
import { imageLink, imageSheet, thumbnail } from "../dataset/image_sheet.js";
import { overview } from "../dataset/overview.js";
import { reading } from "../dataset/reading.js";
import { ordered, settingsOf } from "../dataset/settings.js";
import { channels, colorsBy } from "../dataset/splat.js";
import { Sprites } from "../dataset/sprites.js";
import { suspectList } from "../dataset/suspect_list.js";
import { guessOf, measure, measures, readTable, truthOf } from "../dataset/table.js";
import { tagPlaces, tagsOf, tagger } from "../dataset/tags.js";
import { choice, h, put, segment, whenQuiet } from "../dom.js";
import { saveJSON } from "../download.js";
import { viewHead } from "../parts/frame.js";
import { plural } from "../words.js";

const CELL = 52; // pixels of a picture in the grid, at first
const LISTED = 24;

/** @param {HTMLElement} host @param {Record<string, string>} params @param {any} app */
export async function datasetView(host, params, { card }) {
  const { run } = params;
  const whole = await api.run(run);
  const splits = Object.keys(whole.splits);
  const split = splits.includes(params.split) ? params.split : splits.includes("test") ? "test" : splits[0];
  let table = readTable(await dataset.columns(run, split));
  const settings = settingsOf(table, params);
  let tags = await tagsOf(run, table);
  /** @type {Map<string, Float32Array>} */
  const maps = new Map();
  /** @type {Uint32Array | null} */
  let chosen = null;
  let picked = Number((params.image ?? "").split("/")[1] ?? -1);
  let fits = mask(table, settings, tags);
  let rows = rowsOf(fits);

  const sheet = h("div", { "aria-live": "polite" });
  const line = h("p", { class: "note", role: "status" });
  const tip = h("output", { class: "tip", hidden: true });
  const [list, counts, read, tools] = [h("ul", { class: "thumbs" }), h("div", {}), h("div", {}), h("div", { class: "row" })];
  const sprites = new Sprites(run, table, () => view.draw());
  const view = imageCanvas({ sprites, onpick: pick, onhover: hover, onlasso: choose });
  const splitChoice = splits.length > 1 ? choice("Split", splits, split, (to) => (location.hash = format("dataset", { run, split: to }))) : null;
  const control = controls(table, settings, () => [...tags.keys()], change, splitChoice);

  /** @param {Partial<import("../dataset/settings.js").Settings>} changes */
  function change(changes) {
    Object.assign(settings, changes);
    note(changes);
    const moved = ["layout", "map", "x", "y", "order"].some((key) => key in changes);
    refresh(moved);
  }

  /** @param {Record<string, string>} changes */
  function filterBy(changes) {
    change(changes);
    control.draw();
    view.canvas.scrollIntoView({ block: "center" });
  }

  /** @param {Uint32Array | null} next */
  function choose(next) {
    chosen = next;
    refresh(settings.layout === "grid");
    announce(next ? `${plural(next.length, "image")} chosen` : "All images");
  }

  /** @param {typeof tags} next */
  function retag(next) {
    tags = next;
    control.draw();
    refresh(false);
  }

  let [turn, unfit] = [0, false]; // counts refreshes: a map that came late is not drawn over what was chosen since

  /** @param {boolean} moved */
  async function refresh(moved) {
    const mine = (turn += 1);
    unfit ||= moved;
    fits = mask(table, { ...settings, rows: chosen }, tags);
    rows = ordered(table, rowsOf(fits), settings.order);
    drawTools();
    later();
    const across = settings.layout === "grid" ? Math.max(3, Math.floor((view.canvas.clientWidth || 800) / CELL)) : null;
    try {
      const places = await placesNow(across);
      if (mine !== turn) return;
      view.show({ places, colors: colorsNow(), fits, rows, across });
      drawLine();
      if (unfit) view.fit();
      unfit = false;
    } catch (error) {
      if (mine === turn) put(line, /** @type {any} */ (error).message, ` ${/** @type {any} */ (error).command ?? ""}`);
    }
  }

  /** @param {number | null} across */
  async function placesNow(across) {
    if (across) return gridPlaces(rows, table.size, across);
    if (settings.layout === "axes") return scatter(measure(table, settings.x), measure(table, settings.y));
    const { map } = settings;
    const [by, how] = map.split("-");
    if (!maps.has(map)) {
      put(line, `Computing the map…${how === "umap" ? " UMAP takes from half a minute to some minutes." : ""}`);
      maps.set(map, await dataset.places(run, split, by, how));
    }
    const flat = /** @type {Float32Array} */ (maps.get(map));
    return scatter(flat.filter((_, at) => at % 2 === 0), flat.filter((_, at) => at % 2 === 1)); // prettier-ignore
  }

  function colorsNow() {
    const palette = [0, 1, 2, 3, 4, 5, 6, 7].map((place) => channels(token(`--series-${place}`)));
    const [good, bad] = [channels(token("--series-0")), channels(token("--series-1"))];
    const look = { palette, gray: channels(token("--edge")), heat };
    const { label, labels, guess, right } = table.arrays;
    if (settings.color === "class") return colorsBy(table.size, { ...look, member: label ?? firstOf(labels) });
    if (settings.color === "prediction") return colorsBy(table.size, { ...look, member: guess });
    if (settings.color === "right or wrong") return colorsBy(table.size, { ...look, palette: [bad, good], member: right });
    if (settings.color === "tag") return colorsBy(table.size, { ...look, member: tagPlaces(tags, table.size) });
    if (settings.color in table.columns) return colorsBy(table.size, { ...look, member: table.arrays[`column.${settings.color}`] });
    return colorsBy(table.size, { ...look, values: measure(table, settings.color) });
  } // prettier-ignore

  /** The first class of an image that may have several. @param {Int8Array} labels */
  const firstOf = (labels) =>
    Int16Array.from({ length: table.size }, (_, row) =>
      table.classes.findIndex((__, name) => labels[row * table.classes.length + name] === 1),
    );

  /** @param {number} row */
  function hover(row) {
    tip.hidden = row < 0;
    if (row >= 0) tip.textContent = [table.ids[row], truthOf(table, row), guessOf(table, row) && `predicted ${guessOf(table, row)}`].filter(Boolean).join(" · "); // prettier-ignore
  }

  /** @param {number} row */
  function pick(row) {
    picked = row;
    note({ image: `${split}/${row}` });
    view.pick(row);
    put(sheet, imageSheet(run, table, row, { onpick: pick, onneighbors: choose }));
  }

  function drawLine() {
    const of = rows.length < table.size ? ` of ${plural(table.size, "image")}` : "";
    const axes = settings.layout === "axes" ? `. ${axesLine(table, settings.x, settings.y)}` : "";
    put(line, `${plural(rows.length, "image")}${of}${chosen ? ", selected by hand" : ""}${axes}`);
  }

  function drawTools() {
    drawLine();
    put(
      tools,
      segment("Drag to", [["move", "Move"], ["lasso", "Lasso"]], view.canvas.classList.contains("lasso") ? "lasso" : "move", (mode) => view.lasso(mode === "lasso")),
      h("button", { type: "button", class: "icon", "aria-label": "Zoom in", onclick: () => view.zoom(1.5) }, "+"),
      h("button", { type: "button", class: "icon", "aria-label": "Zoom out", onclick: () => view.zoom(1 / 1.5) }, "−"),
      h("button", { type: "button", onclick: () => view.fit() }, "Show all"),
      chosen ? h("button", { type: "button", class: "chip", onclick: () => choose(null) }, `${plural(chosen.length, "image")} chosen ✕`) : null,
      colorLegend(table, settings.color, [...tags.keys()]),
    );
  } // prettier-ignore

  const later = whenQuiet(() => {
    put(list, [...rows.slice(0, LISTED)].map((row) => h("li", {}, thumbnail(run, table, row, pick), imageLink(run, table, row)))); // prettier-ignore
    put(counts, overview(table, fits, filterBy));
  }, 200);

  function offerReading() {
    put(read);
    if (table.tokens) return;
    const offer = reading(run, table, async () => {
      table = readTable(await dataset.columns(run, split));
      location.hash = format("dataset", { ...here().params, run, split, read: "1" });
    });
    read.append(offer);
    stops.push(() => offer.stop());
  }

  /** @type {Array<() => void>} */
  const stops = [() => view.stop()];
  const recolor = () => {
    view.recolor();
    refresh(false);
  };
  const stage = h("div", { class: "dataset-stage" }, view.canvas, tip);
  window.addEventListener("theme", recolor);
  stops.push(() => window.removeEventListener("theme", recolor));
  put(
    host,
    viewHead("Data set", "All images of a split at once. Click an image to see its neighbors and to correct its labels.", {
      downloads: [["Names of the images shown (JSON)", () => saveJSON([...rows].map((row) => table.ids[row]), `${run}-images`)]],
    }),
    read,
    h(
      "div",
      { class: "dataset" },
      h("section", { class: "card", "aria-label": "Images" }, control, tools, stage, line, tagger(run, table, () => rows, retag), list),
      h("div", { class: "stack" }, sheet, measures(table).length ? suspectList(run, table, pick, choose) : null),
    ),
    counts,
  ); // prettier-ignore
  put(sheet, h("p", { class: "card note" }, `Click an image${card?.data ? ` of ${card.data}` : ""} to see its labels, the prediction and its neighbors.`));
  offerReading();
  await refresh(true);
  if (picked >= 0 && picked < table.size) pick(picked);
  return { stop: () => stops.forEach((stop) => stop()) };
}
