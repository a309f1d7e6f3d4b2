/** How concepts of a network make each other, layer by layer, up to what it says: GIG's graph, to move through. */
import { note } from "../address.js";
import { api } from "../api.js";
import { h, put } from "../dom.js";
import { saveCanvas, saveJSON, saveSVG } from "../download.js";
import { fromFile, fromParams, toParams } from "../graph/selection.js";
import { graphSession } from "../graph/session.js";
import { loading, missing, viewHead } from "../parts/frame.js";
import { shortcut } from "../shortcuts.js";

const ABOUT =
  "Each square is a concept that the network uses. A line shows how much a concept adds to one in the next layer, up to the class. Open a concept to see what it stands for.";

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{card: any}} app */
export async function graphView(host, params, { card }) {
  const { run } = params;
  /** @type {any} */
  let current = null;
  const head = h("div", {});
  const body = h("div", {}, loading());
  const input = h("input", {
    type: "file",
    accept: "application/json,.json",
    hidden: true,
    "aria-label": "A selection that was saved",
    onchange: () => input.files[0] && reload(input.files[0]),
  });
  const problem = h("p", { class: "notice", role: "alert", hidden: true });
  put(host, head, input, problem, body);
  put(
    head,
    viewHead("Graph", ABOUT, {
      actions: [
        h("button", { type: "button", onclick: () => current?.saveSelection() }, "Save selection"),
        h("button", { type: "button", onclick: () => input.click() }, "Load selection"),
      ],
      downloads: [
        ["Visible part (PNG)", () => current && saveCanvas(current.canvas.compose(), `${run}-graph`)],
        ["Whole graph (SVG)", async () => current && saveSVG(await current.svg(), `${run}-graph`)],
        ["What is shown (JSON)", () => current && saveJSON(current.data(), `${run}-graph-shown`)],
        ["The file of the graph (JSON)", async () => current && saveJSON(await current.file(), `${run}-graph`)],
      ],
    }),
  );

  /** @param {string | null} text */
  function say(text) {
    problem.hidden = !text;
    problem.textContent = text ?? "";
  }

  /** @param {File} file */
  async function reload(file) {
    input.value = "";
    say(null);
    try {
      if (file.size > 1_000_000) throw new Error("This file is too large for a selection.");
      const found = fromFile(await file.text());
      note({ ...toParams(found), table: "" });
      await open(found);
    } catch (error) {
      say(/** @type {any} */ (error).message);
    }
  }

  /** @param {any} selection */
  async function open(selection) {
    current?.stop();
    current = null;
    put(body, loading());
    let answer;
    try {
      answer = await api.graph(run, selection.graph);
    } catch (error) {
      if (/** @type {any} */ (error).code !== "missing" && /** @type {any} */ (error).status !== 422) throw error;
      const title = /** @type {any} */ (error).status === 422 ? "There is no such graph" : "No graph to show";
      put(
        body,
        missing(
          title,
          /** @type {any} */ (error).status === 422 ? `There is no graph called ${selection.graph}.` : /** @type {any} */ (error).message,
          /** @type {any} */ (error).command,
        ),
      );
      return;
    }
    current = graphSession({ body, run, card, answer, selection, table: params.table, onother: open, say });
  }

  await open(fromParams(params));
  shortcut("/", "find a node", () => /** @type {HTMLElement | null} */ (host.querySelector("input[type=search]"))?.focus());
  shortcut("f", "all of the graph", () => current?.canvas.fit());
  return { stop: () => current?.stop() };
}
