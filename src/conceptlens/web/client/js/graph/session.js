/** One graph on the page: the canvas, the sheet of a node, tables, and the selection in the address. */
import { note } from "../address.js";
import { announce } from "../announce.js";
import { api } from "../api.js";
import { eachFrame, h, put, whenQuiet } from "../dom.js";
import { saveJSON } from "../download.js";
import { card as box } from "../parts/frame.js";
import { count, plural } from "../words.js";
import { graphCanvas } from "./canvas.js";
import { graphControls, graphLegend } from "./controls.js";
import { crops } from "./crops.js";
import { finder } from "./finder.js";
import { keptChips } from "./kept.js";
import { layout } from "./layout.js";
import { Model } from "./model.js";
import { place, shownData, toFile, toParams } from "./selection.js";
import { nodeSheet } from "./sheet.js";
import { summary } from "./summary.js";
import { graphSVG } from "./svg.js";
import { graphTables, selected } from "./tables.js";

const NARROW = "(max-width: 46rem)";

/** @returns what the view keeps of it: the canvas, `stop`, and what can be saved */
export function graphSession(/** @type {{body: any, run: string, card: Answers.RunCard, answer: any, selection: any, table: any, onother: (...args: any[]) => void, say: (words: string) => void}} */ { body, run, card, answer, selection, table, onother, say }) {
  const model = new Model(answer);
  const name = answer.name;
  const numberOf = (/** @type {string} */ id) => model.byId.get(id) ?? null;
  /** @type {any} */
  const state = {
    outputs: selection.classes.map((/** @type {any} */ each) => model.outputs.indexOf(each)).filter((/** @type {number} */ each) => each >= 0),
    min: selection.min ?? model.startAt(),
    hidden: new Set(selection.hidden),
    linked: selection.linked,
    picked: selection.node === null ? null : numberOf(selection.node),
    kept: new Set(selection.kept.map(numberOf).filter((/** @type {any} */ each) => each !== null)),
    at: selection.at,
  };
  const lost = selection.kept.length - state.kept.size + (selection.node !== null && state.picked === null ? 1 : 0);
  if (lost) say(`${plural(lost, "node")} of this selection ${lost === 1 ? "is" : "are"} not in this graph.`);
  const asked = selection.min !== null;
  const narrow = matchMedia(NARROW);
  const pictures = crops(
    (number) => api.graphSheet(run, name, number),
    (number) => canvas.came(number),
  );
  const canvas = graphCanvas({
    label: answer.title,
    crops: pictures,
    onpick: (number) => pick(number),
    onkeep: (number) => keep(number),
    onmove: whenQuiet((at) => {
      state.at = at;
      note({ at: place(at) });
    }, 150),
  });
  const side = h("div", { class: "graph-side" });
  const counted = h("p", { class: "note", role: "status" });
  const legend = h("div", {});
  const tables = graphTables({
    what: table === "edges" ? "edges" : "nodes",
    onpick: (number) => pick(number, { show: true }),
    onchange: (what) => note({ table: what === "nodes" ? "" : what }),
  });
  /** @type {any} */
  let shown = null;
  /** @type {any} */
  let spot = null;

  const now = () => ({
    graph: name,
    classes: state.outputs.map((/** @type {any} */ each) => model.outputs[each]),
    min: asked || state.touched ? state.min : null,
    hidden: [...state.hidden],
    linked: state.linked,
    node: state.picked === null ? null : model.nodes[state.picked].id,
    kept: [...state.kept].map((/** @type {number} */ number) => model.nodes[number].id),
    at: state.at,
  });
  const write = () => note(toParams(now()));

  /** @param {"stay" | "fit" | number[]} at where the camera is afterwards */
  function draw(at) {
    shown = model.shown(state);
    const view = {
      down: narrow.matches,
      width: canvas.canvas.clientWidth || 900,
      height: canvas.canvas.clientHeight || 600,
    };
    // While a threshold moves, nodes stay where they are: the eye can follow.
    if (at !== "stay" || !spot || state.linked || spot.down !== view.down) spot = layout(model, shown, view);
    canvas.setScene({ model, shown, place: spot, outputs: state.outputs }, at === "fit" ? null : at);
    put(legend, graphLegend(model, state.outputs, canvas.scene()));
    const cut = answer.edges.all - answer.edges.source.length;
    counted.textContent = `${plural(shown.nodes.length, "node")}; ${count(shown.edges.length)} of ${plural(shown.counted, "edge")}${
      cut ? `. The weakest ${count(cut)} of the file are left out` : ""
    }`;
    retell();
  }

  function retell() {
    tables.update({ model, shown, place: spot, outputs: state.outputs, picked: state.picked, kept: state.kept });
  }

  const change = eachFrame(() => {
    draw("stay");
    write();
  });

  /** @param {number | null} number */
  function pick(number, { show = false, focus = false } = {}) {
    state.picked = number;
    canvas.setPicked(number);
    if (show && number !== null) canvas.show(number);
    drawSheet();
    retell();
    write();
    if (number !== null) announce(`${model.title(model.nodes[number])}: its sheet is open`);
    if (focus) side.querySelector("h2")?.focus();
  }

  /** @param {number | null} number */
  function keep(number) {
    if (!state.kept.delete(number)) state.kept.add(number);
    canvas.setKept(state.kept);
    announce(`${model.title(model.nodes[Number(number)])} ${state.kept.has(number) ? "is kept" : "is no longer kept"}`);
    if (number === state.picked) drawSheet();
    else chips.draw(state.kept);
    retell();
    write();
  }

  const chips = keptChips({
    model,
    onpick: (number) => pick(number, { show: true }),
    onkeep: keep,
    onnone() {
      state.kept = new Set();
      canvas.setKept(state.kept);
      drawSheet();
      retell();
      write();
    },
  });

  function drawSheet() {
    chips.draw(state.kept);
    const number = state.picked;
    if (number === null) {
      put(
        side,
        summary(answer, (image) => api.graphImage(run, name, image)),
      );
      return;
    }
    put(
      side,
      nodeSheet({
        model,
        number,
        outputs: state.outputs,
        kept: state.kept.has(number),
        load: () => api.graphNode(run, name, number),
        sheet: api.graphSheet(run, name, number),
        image: (image) => api.graphImage(run, name, image),
        redraw: `conceptlens resume ${card?.folder ?? run}`,
        onpick: (other) => pick(other, { show: true }),
        onkeep: () => keep(number),
        onshow: () => canvas.show(number),
        onhover: (other) => canvas.setPicked(other ?? state.picked),
        onclose: () => {
          pick(null);
          canvas.canvas.focus({ preventScroll: true });
        },
      }),
    );
  }

  const search = finder(model, (number) => pick(number, { show: true }));
  const zoomTools = h(
    "div",
    { class: "graph-zoom", role: "group", "aria-label": "Zoom" },
    h("button", { type: "button", class: "icon", "aria-label": "Nearer", onclick: () => canvas.zoom(1.4) }, "+"),
    h("button", { type: "button", class: "icon", "aria-label": "Farther", onclick: () => canvas.zoom(1 / 1.4) }, "−"),
    h("button", { type: "button", "aria-label": "All of the graph", onclick: () => canvas.fit() }, "All"),
  );
  canvas.append(zoomTools);
  const controls = graphControls({
    model,
    answer,
    state,
    onclasses(outputs) {
      state.outputs = outputs;
      draw("fit");
      write();
    },
    onthreshold(min) {
      [state.min, state.touched] = [min, true];
      change();
    },
    onchange: change,
    ongraph(other) {
      const next = { ...now(), graph: other, classes: [], min: null, node: null, kept: [], at: null };
      note({ ...toParams(next) });
      onother(next);
    },
  });
  put(
    body,
    controls,
    h(
      "div",
      { class: "graph-main" },
      box(answer.title, { tools: search, id: "graph" }, counted, canvas, legend, chips.node),
      side,
    ),
    box("As a table", { tools: tables.tools, note: null }, tables.node),
  );
  const turn = () => draw("fit");
  narrow.addEventListener("change", turn);
  canvas.setKept(state.kept);
  canvas.setPicked(state.picked);
  draw(state.at ?? "fit");
  if (state.picked !== null && !state.at) canvas.show(state.picked);
  drawSheet();

  return {
    canvas,
    stop() {
      narrow.removeEventListener("change", turn);
      canvas.stop();
    },
    saveSelection: () => saveJSON(toFile(now(), { run, title: answer.title }), `${run}-selection`),
    svg: () => graphSVG(canvas.scene(), (number) => loaded(model, number, api.graphSheet(run, name, number))),
    file: () => api.graphFile(run, name),
    data: () => ({
      run,
      title: answer.title,
      selection: now(),
      ...shownData(model, selected({ model, shown, place: spot, picked: null, kept: state.kept })),
    }),
  };
}

/** A node's sheet as a picture, or null. @param {import("./model.js").Model} model @param {number} number @param {string} address */
const loaded = (model, number, address) =>
  model.nodes[number].crops
    ? new Promise((done) => {
        const picture = new Image();
        picture.onload = () => done(picture);
        picture.onerror = () => done(null);
        picture.src = address;
      })
    : Promise.resolve(null);
