/**
 * A graph that can be moved and zoomed. What is seen is painted once onto a sheet larger than the window; moving only
 * shifts that sheet, and the next one is painted a few milliseconds a frame. So a graph of any size moves smoothly.
 */
import { announce } from "../announce.js";
import { eachFrame, h, whenQuiet } from "../dom.js";
import { gestures } from "./gestures.js";
import { keys } from "./keys.js";
import { NODE } from "./layout.js";
import { part } from "./numbers.js";
import { PICTURES_FROM, edges, node as paintNode, paint, palette, titles } from "./paint.js";

const MARGIN = 0.5; // of the window, painted around it
const BUSY = 8; // milliseconds of painting in a frame while somebody moves
const IDLE = 24;
const FIRST = 300; // while there is nothing to see yet
const CLOSEST = 4;
const DIMMED = 0.25;

/**
 * @param {{label: string, onpick: (number: number | null) => void, onkeep: (number: number) => void, onmove: (camera: number[]) => void, crops: ReturnType<typeof import("./crops.js").crops>}} options
 */
export function graphCanvas({ label, onpick, onkeep, onmove, crops }) {
  const canvas = h("canvas", {
    class: "graph-canvas",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "graph",
    "aria-label": `${label}. Arrow keys move it, plus and minus zoom, 0 shows all of it, n and p go through the nodes, Shift with arrow keys goes along the strongest edge, Enter opens a node, k keeps it. A table of the same nodes and edges follows.`,
  });
  const tip = h("output", { class: "tip", hidden: true, "aria-hidden": "true" });
  const box = h("div", { class: "graph-box" }, canvas, tip);
  /** @type {any} what is drawn, a Scene of paint.js; null before the first one */
  let scene = null;
  let camera = { x: 0, y: 0, scale: 1 };
  let size = [0, 0];
  /** @type {any} */
  let hovered = null;
  /** @type {any} */
  let picked = null;
  /** @type {Iterable<number>} */
  let kept = new Set();
  /** @type {any} */
  let front = null; // the sheet that is shown
  /** @type {any} */
  let whole = null; // the last one that holds all of the graph: shown around the front one
  /** @type {any} */
  let back = null; // the one that is being painted
  /** @type {any[]} */
  const spare = [];
  let stale = true;
  let moved = 0; // when somebody last moved it
  let first = true;
  const ask = eachFrame(frame);
  const look = whenQuiet(() => scene && crops.want(camera.scale * NODE >= PICTURES_FROM ? inView() : []), 100);

  /** @returns {[number, number]} */
  const middle = () => [size[0] / 2, size[1] / 2];
  const fitScale = () =>
    scene ? Math.min((size[0] - 24) / scene.place.width, (size[1] - 24) / (scene.place.height + 30), 1.6) : 1;

  function fit() {
    if (!scene) return;
    camera = { x: scene.place.width / 2, y: scene.place.height / 2 - (scene.place.down ? 0 : 10), scale: fitScale() };
    changed();
  }

  function seen(pad = 0) {
    const [w, hh] = [(size[0] * (0.5 + pad)) / camera.scale, (size[1] * (0.5 + pad)) / camera.scale];
    return { left: camera.x - w, right: camera.x + w, top: camera.y - hh, bottom: camera.y + hh };
  }

  const holds = (/** @type {any} */ sheet, /** @type {any} */ area) =>
    sheet.area.left <= area.left &&
    sheet.area.right >= area.right &&
    sheet.area.top <= area.top &&
    sheet.area.bottom >= area.bottom;

  /** What of the window must be on a sheet: all of it where there is something to see. */
  function needed() {
    const area = seen();
    const all = { left: -NODE, top: -NODE, right: scene.place.width + NODE, bottom: scene.place.height + NODE };
    return {
      left: Math.max(area.left, all.left),
      top: Math.max(area.top, all.top),
      right: Math.min(area.right, all.right),
      bottom: Math.min(area.bottom, all.bottom),
    };
  }

  function begin() {
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.ceil(size[0] * (1 + 2 * MARGIN) * ratio);
    const high = Math.ceil(size[1] * (1 + 2 * MARGIN) * ratio);
    const sheet = back?.sheet ?? spare.pop() ?? h("canvas", {});
    sheet.width = wide;
    sheet.height = high;
    const pen = sheet.getContext("2d", { willReadFrequently: true });
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const area = seen(MARGIN);
    const at = { ...camera };
    /** @type {[number, number]} */
    const center = [wide / ratio / 2, high / ratio / 2];
    back = { sheet, pen, area, at, ratio, center, steps: paint(pen, scene, at, area, center) };
    stale = false;
    look();
  }

  const inView = () => {
    const area = seen(0.1);
    const { x, y } = scene.place;
    return scene.shown.nodes.filter(
      (/** @type {number} */ number) =>
        scene.model.nodes[number].crops &&
        x[number] > area.left &&
        x[number] < area.right &&
        y[number] > area.top &&
        y[number] < area.bottom,
    );
  };

  function frame() {
    if (!scene || !size[0]) return;
    const began = performance.now();
    const far = front && (front.at.scale !== camera.scale || !holds(front, needed()));
    if (!back && (stale || !front || far)) begin();
    if (back && stale) begin(); // what it shows is no longer so
    if (back) {
      const until = began + (!front ? FIRST : began - moved < 200 ? BUSY : IDLE);
      let done = step(back);
      while (!done && performance.now() < until) done = step(back);
      if (done) {
        const old = front;
        front = back;
        if (holds(front, { left: 0, top: 0, right: scene.place.width, bottom: scene.place.height })) whole = front;
        back = null;
        if (old && old !== whole) spare.push(old.sheet);
        if (first) performance.mark("graph-painted");
        first = false;
        canvas.dataset.painted = String(Number(canvas.dataset.painted ?? 0) + 1);
      }
      ask();
    }
    show();
  }

  /** Paint a piece, now: a browser would rather note down what to paint and do all of it at once, in one long frame. @param {any} sheet */
  function step(sheet) {
    const { done } = sheet.steps.next();
    sheet.pen.getImageData(0, 0, 1, 1);
    return done;
  }

  function show() {
    const ratio = window.devicePixelRatio || 1;
    const pen = canvas.getContext("2d", { alpha: false });
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.fillStyle = scene.colors.ground;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const about = hovered ?? picked;
    pen.globalAlpha = about === null ? 1 : DIMMED;
    const around = whole && whole !== front && !(front && holds(front, needed()));
    if (around) lay(pen, whole, ratio);
    if (front) {
      if (around) {
        pen.globalAlpha = 1;
        pen.fillRect(...target(front, ratio));
        pen.globalAlpha = about === null ? 1 : DIMMED;
      }
      lay(pen, front, ratio);
    }
    pen.globalAlpha = 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    over(pen, camera, middle(), about);
  }

  /** Where a sheet lies on the canvas, in its pixels. @param {any} sheet @param {number} ratio */
  function target(sheet, ratio) {
    const scale = camera.scale * ratio;
    const left = canvas.width / 2 + (sheet.area.left - camera.x) * scale;
    const top = canvas.height / 2 + (sheet.area.top - camera.y) * scale;
    return [left, top, (sheet.area.right - sheet.area.left) * scale, (sheet.area.bottom - sheet.area.top) * scale];
  }

  /** Put a sheet on the canvas: only what is seen of it, as enlarging the rest takes long. @param {CanvasRenderingContext2D} pen @param {any} sheet @param {number} ratio */
  function lay(pen, sheet, ratio) {
    const [left, top, wide, high] = target(sheet, ratio);
    if (sheet.at.scale === camera.scale) {
      pen.drawImage(sheet.sheet, Math.round(left), Math.round(top));
      return;
    }
    const [x0, y0] = [Math.max(left, 0), Math.max(top, 0)];
    const [x1, y1] = [Math.min(left + wide, canvas.width), Math.min(top + high, canvas.height)];
    if (x1 <= x0 || y1 <= y0) return;
    const part = sheet.sheet.width / wide;
    pen.drawImage(
      sheet.sheet,
      (x0 - left) * part,
      (y0 - top) * part,
      (x1 - x0) * part,
      (y1 - y0) * part,
      x0,
      y0,
      x1 - x0,
      y1 - y0,
    );
  }

  /** What stands over the sheet: the node one looks at with its edges, those that are kept, the names of layers. @param {CanvasRenderingContext2D} pen @param {any} view @param {number[]} center @param {any} about */
  function over(pen, view, center, about) {
    const { model, shown, place } = scene;
    const area = { left: -1e9, right: 1e9, top: -1e9, bottom: 1e9 };
    if (about !== null && shown.has[about]) {
      const { source, target: to } = model.edges;
      const own = [...model.into[about], ...model.outOf[about]].filter((edge) => scene.visible.has(edge));
      for (const _ of edges(pen, scene, view, area, center, own.reverse(), 1.3)); // all of it at once
      const near = new Set([about, ...own.map((edge) => (source[edge] === about ? to[edge] : source[edge]))]);
      for (const number of near) paintNode(pen, scene, view, center, number);
    }
    const ring = (/** @type {number} */ number, /** @type {any} */ wide, /** @type {string} */ color) => {
      const side = NODE * view.scale + 2 * wide + 6;
      pen.strokeStyle = color;
      pen.lineWidth = wide;
      pen.beginPath();
      pen.roundRect(
        center[0] + (place.x[number] - view.x) * view.scale - side / 2,
        center[1] + (place.y[number] - view.y) * view.scale - side / 2,
        side,
        side,
        8,
      );
      pen.stroke();
    };
    for (const number of kept) if (shown.has[number]) ring(number, 2.5, scene.colors.accent);
    if (about !== null && shown.has[about]) ring(about, 2, scene.colors.ink);
    titles(pen, scene, view, center);
  }

  function changed() {
    moved = performance.now();
    ask();
    look();
    tell();
  }

  /** The camera as it can stand in an address: where in the graph, and how near compared with all of it. */
  function tell() {
    if (!scene) return;
    const near = camera.scale / fitScale();
    onmove([camera.x / scene.place.width, camera.y / scene.place.height, near]);
  }

  /** @param {number} dx @param {number} dy */
  function pan(dx, dy) {
    camera = { ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale };
    camera.x = clamp(camera.x, 0, scene.place.width);
    camera.y = clamp(camera.y, 0, scene.place.height);
    changed();
  }

  /** Nearer or farther, with the point under the finger where it is. @param {number} factor */
  function zoom(factor, x = size[0] / 2, y = size[1] / 2) {
    const scale = clamp(camera.scale * factor, fitScale() * 0.6, Math.max(CLOSEST, fitScale()));
    const [dx, dy] = [x - size[0] / 2, y - size[1] / 2];
    camera = {
      x: camera.x + dx / camera.scale - dx / scale,
      y: camera.y + dy / camera.scale - dy / scale,
      scale,
    };
    changed();
  }

  /** @param {number} x @param {number} y */
  function hit(x, y) {
    if (!scene) return null;
    const wx = camera.x + (x - size[0] / 2) / camera.scale;
    const wy = camera.y + (y - size[1] / 2) / camera.scale;
    const reach = Math.max(NODE / 2 + 2, 7 / camera.scale);
    let best = null;
    let least = reach;
    for (const number of scene.shown.nodes) {
      const far = Math.max(Math.abs(scene.place.x[number] - wx), Math.abs(scene.place.y[number] - wy));
      if (far < least) [least, best] = [far, number];
    }
    return best;
  }

  /** @param {number | null} number */
  function hover(number, { say = false } = {}) {
    if (number === hovered) return;
    hovered = number;
    tip.hidden = number === null;
    if (number !== null) {
      tip.textContent = words(number);
      if (say) announce(tip.textContent);
      const x = size[0] / 2 + (scene.place.x[number] - camera.x) * camera.scale;
      const y = size[1] / 2 + (scene.place.y[number] - camera.y + NODE / 2) * camera.scale;
      tip.style.left = `${clamp(x - 60, 6, Math.max(6, size[0] - 240))}px`;
      tip.style.top = `${clamp(y + 34, 6, size[1] - 40)}px`;
    }
    ask();
  }

  /** @param {number} number */
  function words(number) {
    const { model, outputs } = scene;
    const each = model.nodes[number];
    if (each.kind === "output") return `output ${each.name}`;
    const looked = outputs.length ? outputs : model.outputs.map((/** @type {any} */ _, /** @type {any} */ place) => place);
    const told = looked
      .slice(0, 3)
      .map((/** @type {any} */ place) => `${part(each.shares[place])} of what the layer does to ${model.outputs[place]}`);
    return `${model.title(each)}: ${told.join(", ")}`;
  }

  /** Bring a node into the middle, near enough to see what it is. @param {number} number */
  function show_(number) {
    if (!scene || !scene.shown.has[number]) return;
    camera = {
      x: scene.place.x[number],
      y: scene.place.y[number],
      scale: Math.max(camera.scale, Math.min(1, CLOSEST)),
    };
    changed();
  }

  const into = (/** @type {number} */ number) => {
    const area = seen(-0.05);
    const { x, y } = scene.place;
    if (x[number] < area.left || x[number] > area.right || y[number] < area.top || y[number] > area.bottom) {
      camera = { ...camera, x: x[number], y: y[number] };
      changed();
    }
  };

  gestures(canvas, {
    pan,
    zoom,
    hover: (x, y) => hover(x === null ? null : hit(x, Number(y))),
    click(x, y, more) {
      const number = hit(x, y);
      if (more && number !== null) onkeep(number);
      else onpick(number);
    },
  });
  keys(canvas, {
    scene: () => scene,
    now: () => hovered ?? picked,
    pan,
    zoom,
    fit,
    go(number) {
      hover(number, { say: true });
      into(number);
    },
    onpick,
    onkeep,
    leave() {
      hover(null);
      onpick(null);
    },
  });
  canvas.addEventListener("blur", () => hover(null));

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || (size[0] === width && size[1] === height)) return;
    const before = scene && size[0] ? camera.scale / fitScale() : null;
    size = [width, height];
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    if (before !== null) camera.scale = before * fitScale();
    restart();
  }

  function restart() {
    stale = true;
    whole = null;
    ask();
  }

  function recolor() {
    if (!scene) return;
    scene.colors = palette();
    restart();
  }
  const watch = new ResizeObserver(resize);
  watch.observe(canvas);
  window.addEventListener("theme", recolor);

  return Object.assign(box, {
    canvas,
    scene: () => scene,
    /** Another scene; `at` is a camera as `onmove` tells it, null for all of the graph. */
    setScene(/** @type {any} */ next, at = null) {
      resize();
      scene = { ...next, colors: palette(), picture: crops.get, visible: new Set(next.shown.edges) };
      hovered = null;
      tip.hidden = true;
      front = at === "stay" ? front : null;
      restart();
      if (at === "stay") return;
      fit();
      if (at) {
        camera = { x: at[0] * scene.place.width, y: at[1] * scene.place.height, scale: at[2] * fitScale() };
        changed();
      }
    },
    setPicked(/** @type {number} */ number) {
      picked = number;
      ask();
    },
    setKept(/** @type {number[]} */ numbers) {
      kept = numbers;
      ask();
    },
    /** A picture came: it is put where it belongs, without painting the rest anew. */
    came(/** @type {number} */ number) {
      for (const sheet of [front, back]) {
        if (sheet && scene && sheet.at.scale * NODE >= PICTURES_FROM && scene.shown.has[number])
          paintNode(sheet.pen, scene, sheet.at, sheet.center, number);
      }
      ask();
    },
    fit,
    zoom,
    show: show_,
    /** What is seen, painted at once at twice its size. */
    compose() {
      const copy = h("canvas", { width: 2 * size[0], height: 2 * size[1] });
      const pen = copy.getContext("2d");
      pen.setTransform(2, 0, 0, 2, 0, 0);
      pen.fillStyle = scene.colors.surface;
      pen.fillRect(0, 0, ...size);
      for (const _ of paint(pen, scene, camera, seen(), middle())); // all of it at once
      over(pen, camera, middle(), picked);
      return copy;
    },
    stop() {
      watch.disconnect();
      window.removeEventListener("theme", recolor);
      crops.stop();
      scene = null;
    },
  });
}

/** @param {number} value @param {number} low @param {number} high */
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
