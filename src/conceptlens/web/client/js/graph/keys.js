/** The keyboard on a graph: move, zoom, go from node to node, open and keep them. @type {Record<string, any>} */

const STEPS = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{scene: () => any, now: () => number | null, pan: (dx: number, dy: number) => void, zoom: (factor: number) => void, fit: () => void, go: (number: number) => void, onpick: (number: number) => void, onkeep: (number: number) => void, leave: () => void}} does
 */
export function keys(canvas, does) {
  canvas.addEventListener("keydown", (event) => {
    const scene = does.scene();
    if (!scene || event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    const now = does.now();
    const { order } = scene.place;
    if (key in STEPS && event.shiftKey) {
      const to = along(scene, key, /** @type {number} */ (now));
      if (to !== null) does.go(to);
    } else if (key in STEPS) does.pan(STEPS[key][0], STEPS[key][1]);
    else if (key === "+" || key === "=") does.zoom(1.25);
    else if (key === "-") does.zoom(0.8);
    else if (key === "0") does.fit();
    else if (key === "n" || key === "p") {
      const at = now === null ? (key === "n" ? -1 : 0) : order.indexOf(now);
      does.go(order[(at + (key === "n" ? 1 : -1) + order.length) % order.length]);
    } else if (key === "Enter" && now !== null) does.onpick(now);
    else if (key === "k" && now !== null) does.onkeep(now);
    else if (key === "Escape" && now !== null) does.leave();
    else return;
    event.preventDefault();
  });
}

/** Along the strongest edge that is shown, or to the next node of the same layer. @param {string} key @param {number} number */
function along(/** @type {{model: import("./model.js").Model, place: any, visible: any}} */ { model, place, visible }, key, number) {
  if (number === null) return place.order[0] ?? null;
  const way = place.down
    ? { ArrowUp: "on", ArrowDown: "back", ArrowLeft: -1, ArrowRight: 1 }[key]
    : { ArrowRight: "on", ArrowLeft: "back", ArrowUp: -1, ArrowDown: 1 }[key];
  if (typeof way === "number") {
    const row = place.order.filter((/** @type {any} */ each) => model.nodes[each].row === model.nodes[number].row);
    return row[Math.min(Math.max(row.indexOf(number) + way, 0), row.length - 1)];
  }
  /** @type {number[]} */
  const list = way === "on" ? model.outOf[number] : model.into[number];
  const edge = list.find((each) => visible.has(each));
  if (edge === undefined) return null;
  return way === "on" ? model.edges.target[edge] : model.edges.source[edge];
}
