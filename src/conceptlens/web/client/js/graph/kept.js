/** The nodes that are kept, as chips: open one, or keep it no longer. */
import { h, put } from "../dom.js";

export function keptChips(/** @type {{model: import("./model.js").Model, onpick: (...args: any[]) => void, onkeep: (...args: any[]) => void, onnone: (...args: any[]) => void}} */ { model, onpick, onkeep, onnone }) {
  const node = h("div", { class: "chips" });
  const chip = (/** @type {number} */ number) => {
    const title = model.title(model.nodes[number]);
    return h(
      "span",
      { class: "graph-kept" },
      h("button", { type: "button", class: "chip", onclick: () => onpick(number) }, title),
      h(
        "button",
        { type: "button", class: "quiet icon", "aria-label": `No longer keep ${title}`, onclick: () => onkeep(number) },
        "×",
      ),
    );
  };
  /** @param {Set<number>} kept */
  function draw(kept) {
    const none = h("button", { type: "button", class: "chip", onclick: onnone }, "Keep none");
    put(node, [...kept].map(chip), kept.size > 1 ? none : null);
  }
  return { node, draw };
}
