/** An image as the model sees it, with a map over it and patches that can be pointed at, by mouse, finger or arrow keys. */
import { h } from "../dom.js";
import { gray, bytes, composed, frame, heat, signedHeat } from "../colors.js";

const SIDE = 560;

/**
 * @param {{source: string, alt: string, grid: [number, number] | null, onhover?: (patch: number | null) => void, onpick?: (patch: number | null) => void, name?: (patch: number) => string}} options
 */
export function picture({
  source,
  alt,
  grid,
  onhover = () => {},
  onpick = () => {},
  name = (patch) => `patch ${patch}`,
}) {
  const canvas = h("canvas", { width: SIDE, height: SIDE, role: "img", "aria-label": alt });
  const marks = h("canvas", { width: SIDE, height: SIDE, class: "marks", "aria-hidden": "true" });
  const tip = h("output", { class: "tip", hidden: true });
  const node = h(
    "div",
    {
      class: "picture",
      tabindex: grid ? "0" : null,
      role: grid ? "application" : null,
      "aria-label": grid
        ? `${alt}. Arrow keys move over its ${grid[0]} by ${grid[1]} patches, Enter picks one, Escape lets go.`
        : null,
      "aria-roledescription": grid ? "image with patches" : null,
    },
    canvas,
    marks,
    tip,
  );
  const image = new Image();
  /** @type {any} */
  let map = null;
  /** @type {any} */
  let index = null;
  let opacity = 0.6;
  /** @type {any} */
  let hovered = null;
  /** @type {any} */
  let picked = null;
  /** @type {any} */
  let linked = null; // patches that something else points at

  const ready = new Promise((resolve, reject) => {
    image.onload = resolve;
    image.onerror = () => reject(new Error("The image could not be shown."));
  });
  image.src = source;
  ready.then(draw, () => {});

  function draw() {
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, SIDE, SIDE);
    if (image.complete && image.naturalWidth) {
      pen.imageSmoothingQuality = "high";
      pen.drawImage(image, 0, 0, SIDE, SIDE);
    }
    if (index) paint(pen, index.grid, (/** @type {any} */ patch) => [...bytes(index.color(patch)), 255 * opacity], false);
    else if (map?.signed) paintSigned(pen, map, opacity);
    else if (map)
      paint(
        pen,
        map.grid,
        (/** @type {any} */ patch) => {
          const t = map.level(patch);
          if (map.failed) return [...gray(heat(t)), 255 * opacity * (0.35 + 0.65 * t)]; // without color, the dark must tell
          return [...heat(t), 255 * opacity * Math.min(1, 0.06 + 1.15 * t)];
        },
        true,
      );
    drawMarks();
  }

  function drawMarks() {
    const pen = marks.getContext("2d");
    pen.clearRect(0, 0, SIDE, SIDE);
    if (!grid) return;
    const [rows, columns] = grid;
    const box = (/** @type {number} */ patch) => [
      ((patch % columns) * SIDE) / columns,
      (Math.floor(patch / columns) * SIDE) / rows,
      SIDE / columns,
      SIDE / rows,
    ];
    if (linked) {
      pen.fillStyle = "rgb(10 15 20 / 0.55)";
      for (let patch = 0; patch < rows * columns; patch += 1) if (!linked.has(patch)) pen.fillRect(...box(patch));
    }
    if (picked !== null) frame(pen, box(picked), "#ffffff", 3);
    if (hovered !== null && hovered !== picked) frame(pen, box(hovered), "#ffe08a", 2);
  }

  /** @param {number | null} patch */
  function hover(patch) {
    if (patch === hovered) return;
    hovered = patch;
    drawMarks();
    tip.hidden = patch === null;
    if (patch !== null) tip.textContent = name(patch);
    onhover(patch);
  }

  /** @param {number | null} patch */
  function pick(patch) {
    picked = patch;
    drawMarks();
    onpick(patch);
  }

  if (grid) {
    const [rows, columns] = grid;
    const under = (/** @type {any} */ event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
      const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
      return column < 0 || row < 0 || column >= columns || row >= rows ? null : row * columns + column;
    };
    node.addEventListener("pointermove", (/** @type {any} */ event) => hover(under(event)));
    node.addEventListener("pointerleave", () => hover(null));
    node.addEventListener("click", (/** @type {any} */ event) => {
      const patch = under(event);
      pick(patch === picked ? null : patch);
    });
    node.addEventListener("blur", () => hover(null));
    node.addEventListener("keydown", (/** @type {any} */ event) => {
      const at = hovered ?? picked ?? Math.floor(rows / 2) * columns + Math.floor(columns / 2);
      /** @type {Record<string, number>} */
      const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
      if (event.key in moves) {
        const step = moves[event.key];
        const wraps = Math.abs(step) === 1 && Math.floor((at + step) / columns) !== Math.floor(at / columns);
        const next =
          hovered === null && picked === null
            ? at
            : wraps || at + step < 0 || at + step >= rows * columns
              ? at
              : at + step;
        hover(next);
      } else if (event.key === "Enter" || event.key === " ") pick(hovered ?? at);
      else if (event.key === "Escape") {
        hover(null);
        pick(null);
      } else return;
      event.preventDefault();
    });
  }

  return Object.assign(node, {
    ready,
    canvas,
    /** A number for each patch (L); null for none. The largest is drawn strongest, zero is drawn as nothing; one that did not pass its test has no color. */
    setMap(/** @type {number[]} */ values, signed = false, failed = false) {
      const high = values ? Math.max(...(signed ? values.map(Math.abs) : values)) : 0;
      map = values ? { grid, signed, failed, level: (/** @type {any} */ patch) => (high > 0 ? values[patch] / high : 0) } : null;
      draw();
    },
    /** The nearest code of each patch (L) with its legend; null for none. */
    setIndex(/** @type {any} */ found) {
      if (!found) index = null;
      else {
        const colors = new Map(found.legend.map((/** @type {any} */ each) => [each.code, each.color]));
        index = { grid: found.grid, color: (/** @type {any} */ patch) => colors.get(found.codes[patch]) ?? "#808080" };
      }
      draw();
    },
    setOpacity(/** @type {number} */ value) {
      opacity = value;
      draw();
    },
    /** Patches that something else on the page points at; null for none. */
    link(/** @type {any} */ patches) {
      linked = patches ? new Set(patches) : null;
      drawMarks();
    },
    setPicked(/** @type {any} */ patch) {
      picked = patch;
      drawMarks();
    },
    /** The picture with its map, as one canvas. */
    compose() {
      return composed(SIDE, canvas, marks);
    },
  });
}

/** One small canvas with a pixel a patch, drawn large: smooth for a map, in squares for an index. @param {CanvasRenderingContext2D} pen @param {any} grid @param {(patch: number) => number[]} color @param {boolean} smooth */
function paint(pen, grid, color, smooth) {
  const [rows, columns] = grid;
  const small = h("canvas", { width: columns, height: rows });
  const brush = small.getContext("2d");
  const data = brush.createImageData(columns, rows);
  for (let patch = 0; patch < rows * columns; patch += 1) data.data.set(color(patch), 4 * patch);
  brush.putImageData(data, 0, 0);
  pen.imageSmoothingEnabled = smooth;
  pen.imageSmoothingQuality = "high";
  pen.drawImage(small, 0, 0, pen.canvas.width, pen.canvas.height);
  pen.imageSmoothingEnabled = true;
}

/** What patches add, in blue, and take away, in striped orange, over the picture in pale gray. @param {CanvasRenderingContext2D} pen @param {number} opacity */
function paintSigned(pen, /** @type {{grid: any, level: (patch: number) => number, failed: any}} */ { grid, level, failed }, opacity) {
  const { width, height } = pen.canvas;
  const cover = (/** @type {GlobalCompositeOperation} */ operation, /** @type {string} */ style) => {
    pen.globalCompositeOperation = operation;
    pen.fillStyle = style;
    pen.fillRect(0, 0, width, height);
    pen.globalCompositeOperation = "source-over";
  };
  cover("saturation", "#808080");
  cover("source-over", "rgb(255 255 255 / 0.3)");
  // Small amounts of many patches add up, so that they must be seen: opacity grows less than linearly.
  const side = (/** @type {number} */ sign) => (/** @type {any} */ patch) => {
    const t = level(patch);
    return [...(failed ? gray(signedHeat(t)) : signedHeat(t)), t * sign > 0 ? 255 * opacity * Math.abs(t) ** 0.6 : 0];
  };
  paint(pen, grid, side(1), true);
  const below = h("canvas", { width, height });
  const brush = below.getContext("2d");
  paint(brush, grid, side(-1), true);
  brush.globalCompositeOperation = "destination-out";
  brush.strokeStyle = "rgb(0 0 0 / 0.75)";
  brush.lineWidth = 5;
  for (let x = -height; x < width; x += 14) {
    brush.beginPath();
    brush.moveTo(x, height);
    brush.lineTo(x + height, 0);
    brush.stroke();
  }
  pen.drawImage(below, 0, 0);
}
