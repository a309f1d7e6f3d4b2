/** Training curves of chosen runs, one over the other, smoothed as one likes; new lines come in while a run trains. */
import { api } from "../api.js";
import { lines } from "../charts/lines.js";
import { choice, h, put } from "../dom.js";
import { card } from "../parts/frame.js";
import { short } from "../words.js";
import { curve, curveNames, smoothed } from "./rows.js";

const FIRST = ["val/class.balanced_accuracy", "val/class.accuracy", "train/loss"];

/** @param {{curve: string, smooth: number}} state @param {(changes: Record<string, any>) => void} onchange */
export function curves(state, onchange) {
  const [node, plot, menu] = [h("div", {}), h("div", {}), h("div", { class: "row" })];
  /** @type {Map<string, {name: string, lines: any[], cursor: string | null}>} */
  const known = new Map();
  let names = "";
  /** @type {string[]} */
  let order = []; // a run keeps its color

  /** What is new of a run. @param {import("./rows.js").Row} row */
  async function read(row) {
    const history = known.get(row.key) ?? { name: row.name, lines: [], cursor: null };
    const answer = await api.history(row.key, history.cursor);
    if (answer.reset) history.lines = [];
    history.lines.push(...answer.lines);
    history.cursor = answer.cursor;
    known.set(row.key, history);
  }

  /** @param {import("./rows.js").Row[]} chosen */
  async function show(chosen) {
    order = chosen.map((row) => row.key);
    for (const key of known.keys()) if (!chosen.some((row) => row.key === key)) known.delete(key);
    await Promise.allSettled(chosen.map(read)); // what cannot be read now is read the next time
    if (!known.size) {
      put(node);
      names = "";
      return;
    }
    drawMenu();
    draw();
    if (!node.firstChild)
      put(node, card("Training curves", { note: "The selected runs in one plot." }, menu, plot));
  }

  function drawMenu() {
    const all = curveNames([...known.values()].map((each) => each.lines));
    if (all.join() === names) return; // an open menu stays open
    names = all.join();
    if (!all.includes(state.curve)) state.curve = FIRST.find((name) => all.includes(name)) ?? all[0] ?? "";
    const smooth = h("input", { type: "range", min: "0", max: "0.95", step: "0.05", value: String(state.smooth), "aria-label": "Smoothing", oninput: () => { state.smooth = Number(smooth.value); onchange({ smooth: state.smooth || "" }); draw(); } });
    put(menu, choice("Curve", all, state.curve, (name) => { state.curve = name; onchange({ curve: name }); draw(); }), h("label", { class: "field" }, "Smoothing", smooth));
  } // prettier-ignore

  function draw() {
    const [split, key] = state.curve.split(/\/(.*)/s);
    const series = order
      .flatMap((key) => known.get(key) ?? [])
      .map(({ name, lines: rows }) => ({ name, points: smoothed(curve(rows, split, key), state.smooth) }))
      .filter(({ points }) => points.length);
    put(plot, series.length ? lines(series, { label: state.curve, height: 300, read: short }) : h("p", { class: "note" }, "None of the selected runs has this curve.")); // prettier-ignore
  }

  return Object.assign(node, { show });
}
