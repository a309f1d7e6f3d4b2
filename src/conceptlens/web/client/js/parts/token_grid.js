/**
 * An image with its token grid over it: looked at, tokens chosen, or a region drawn, by mouse, finger or keys.
 * Arrow keys move, Shift with them extends, Enter picks, Escape lets go.
 */
import { h } from "../dom.js";
import { composed, frame, heat } from "../colors.js";
import { between, cellsOf } from "../region.js";

const SIDE = 560;

/** A color for a code where there is no picture: neighbors in number are far apart in hue. @param {number} code */
export function codeColor(code) {
  return `hsl(${Math.round((code * 137.508) % 360)} 45% ${45 + (code % 3) * 9}%)`;
}

/** @type {Record<string, string>} */
const DOES = {
  look: "Enter picks a token, Escape lets go.",
  mask: "Enter chooses a token or lets it go, Shift with an arrow key chooses on the way, Escape lets all go.",
  region: "Shift with arrow keys extends the region, Enter begins one, Escape takes it away.",
};

/**
 * @param {{grid: [number, number], mode: string, name: (cell: number) => string,
 *   onhover: (cell: number | null) => void, onpick: (cell: number | null) => void,
 *   onchosen: (cells: Set<number>) => void, onregion: (region: import("../region.js").Region | null) => void}} options
 */
export function tokenGrid({ grid, mode, name, onhover, onpick, onchosen, onregion }) {
  const [rows, columns] = grid;
  const cells = rows * columns;
  const canvas = h("canvas", { width: SIDE, height: SIDE, "aria-hidden": "true" });
  const marks = h("canvas", { width: SIDE, height: SIDE, class: "marks", "aria-hidden": "true" });
  const tip = h("output", { class: "tip", hidden: true });
  const node = h(
    "div",
    { class: "picture token-grid", tabindex: "0", role: "application", "aria-roledescription": "image with tokens" },
    canvas,
    marks,
    tip,
  );
  /** @type {any} */
  let image = null;
  /** @type {any[]} */
  let tokens = [];
  let title = "";
  /** @type {any} */
  let levels = null;
  let opacity = 0.6;
  let lined = true;
  /** @type {any} */
  let at = null; // the cell that is pointed at
  /** @type {any} */
  let picked = null;
  let chosen = new Set();
  /** @type {any} */
  let region = null;
  /** @type {any} */
  let anchor = null; // where a region began
  /** @type {any} */
  let linked = null;
  let changed = new Set(); // by edits
  /** @type {any} */
  let dragging = null; // "add", "drop" or "region"

  const box = (/** @type {number} */ cell) => [
    ((cell % columns) * SIDE) / columns,
    (Math.floor(cell / columns) * SIDE) / rows,
    SIDE / columns,
    SIDE / rows,
  ];

  function draw() {
    const pen = canvas.getContext("2d");
    pen.clearRect(0, 0, SIDE, SIDE);
    pen.imageSmoothingQuality = "high";
    if (image?.complete && image.naturalWidth) pen.drawImage(image, 0, 0, SIDE, SIDE);
    else if (!image)
      tokens.forEach((code, cell) => {
        pen.fillStyle = codeColor(code);
        pen.fillRect(...box(cell));
      });
    if (levels)
      for (let cell = 0; cell < cells; cell += 1) {
        const t = Math.abs(levels[cell]) / 255;
        pen.fillStyle = `rgb(${heat(t).join(" ")} / ${opacity * Math.min(1, 0.06 + 1.1 * t)})`;
        pen.fillRect(...box(cell));
      }
    if (lined) {
      pen.strokeStyle = "rgb(255 255 255 / 0.28)";
      pen.lineWidth = 1;
      pen.beginPath();
      for (let row = 1; row < rows; row += 1) {
        pen.moveTo(0, (row * SIDE) / rows);
        pen.lineTo(SIDE, (row * SIDE) / rows);
      }
      for (let column = 1; column < columns; column += 1) {
        pen.moveTo((column * SIDE) / columns, 0);
        pen.lineTo((column * SIDE) / columns, SIDE);
      }
      pen.stroke();
    }
    drawMarks();
  }

  function drawMarks() {
    const pen = marks.getContext("2d");
    pen.clearRect(0, 0, SIDE, SIDE);
    if (linked) {
      pen.fillStyle = "rgb(10 15 20 / 0.6)";
      for (let cell = 0; cell < cells; cell += 1) if (!linked.has(cell)) pen.fillRect(...box(cell));
    }
    for (const cell of chosen) {
      const [x, y, w, tall] = box(cell);
      pen.fillStyle = "rgb(10 15 20 / 0.72)";
      pen.fillRect(x, y, w, tall);
      pen.strokeStyle = "#ff9b83";
      pen.lineWidth = 2;
      pen.strokeRect(x + 1, y + 1, w - 2, tall - 2);
    }
    for (const cell of changed) {
      const [x, y, w] = box(cell);
      pen.fillStyle = "#f29b4c";
      pen.strokeStyle = "rgb(0 0 0 / 0.75)";
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x + w, y);
      pen.lineTo(x + w, y + w / 3);
      pen.lineTo(x + (2 * w) / 3, y);
      pen.closePath();
      pen.fill();
      pen.stroke();
    }
    if (region) {
      const [x, y] = box(region.top * columns + region.left);
      frame(
        pen,
        [x, y, ((region.right - region.left) * SIDE) / columns, ((region.bottom - region.top) * SIDE) / rows],
        "#7cc0ff",
        3.5,
      );
    }
    if (picked !== null) frame(pen, box(picked), "#ffffff", 3);
    if (at !== null && at !== picked) frame(pen, box(at), "#ffe08a", 2);
  }

  function describe() {
    node.setAttribute("aria-label", `${title}. Arrow keys move over its ${rows} by ${columns} tokens. ${DOES[mode]}`);
    node.classList.toggle("drawing", mode !== "look");
  }

  /** @param {number | null} cell */
  function hover(cell) {
    if (cell === at) return;
    at = cell;
    drawMarks();
    tip.hidden = cell === null;
    if (cell !== null) tip.textContent = name(cell);
    onhover(cell);
  }

  /** @param {number} cell @param {boolean} on */
  function choose(cell, on) {
    if (chosen.has(cell) === on) return;
    if (on) chosen.add(cell);
    else chosen.delete(cell);
    drawMarks();
    onchosen(chosen);
  }

  /** @param {any} next */
  function setRegion(next) {
    region = next;
    drawMarks();
    onregion(region);
  }

  const under = (/** @type {any} */ event) => {
    const frame = canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - frame.left) / frame.width) * columns);
    const row = Math.floor(((event.clientY - frame.top) / frame.height) * rows);
    const inside = column >= 0 && row >= 0 && column < columns && row < rows;
    if (!inside && !dragging) return null;
    const clamp = (/** @type {number} */ value, /** @type {number} */ most) => Math.min(Math.max(value, 0), most - 1);
    return clamp(row, rows) * columns + clamp(column, columns);
  };

  node.addEventListener("pointerdown", (/** @type {any} */ event) => {
    const cell = under(event);
    if (cell === null || event.button) return;
    hover(cell);
    if (mode === "look") return;
    event.preventDefault();
    node.focus({ preventScroll: true });
    node.setPointerCapture(event.pointerId);
    if (mode === "mask") {
      dragging = chosen.has(cell) ? "drop" : "add";
      choose(cell, dragging === "add");
    } else {
      dragging = "region";
      anchor = cell;
      setRegion(between(cell, cell, columns));
    }
  });
  node.addEventListener("pointermove", (/** @type {any} */ event) => {
    const cell = under(event);
    hover(cell);
    if (cell === null || !dragging) return;
    if (dragging === "region") setRegion(between(anchor, cell, columns));
    else choose(cell, dragging === "add");
  });
  const release = () => {
    dragging = null;
  };
  node.addEventListener("pointerup", release);
  node.addEventListener("pointercancel", release);
  node.addEventListener("pointerleave", () => {
    if (!dragging) hover(null);
  });
  node.addEventListener("click", (/** @type {any} */ event) => {
    if (mode !== "look") return;
    const cell = under(event);
    pick(cell === picked ? null : cell);
  });
  node.addEventListener("blur", () => hover(null));

  /** @param {number | null} cell */
  function pick(cell) {
    picked = cell;
    drawMarks();
    onpick(cell);
  }

  /** @param {any} event @param {number} by */
  function step(event, by) {
    const fresh = at === null && picked === null && !region;
    const from = at ?? picked ?? (region ? region.top * columns + region.left : null);
    const start = from ?? Math.floor(rows / 2) * columns + Math.floor(columns / 2);
    const wraps = Math.abs(by) === 1 && Math.floor((start + by) / columns) !== Math.floor(start / columns);
    const next = fresh || wraps || start + by < 0 || start + by >= cells ? start : start + by;
    if (event.shiftKey && mode === "region") {
      if (anchor === null || !region) anchor = start;
      setRegion(between(anchor, next, columns));
    }
    if (event.shiftKey && mode === "mask") {
      choose(start, true);
      choose(next, true);
    }
    hover(next);
  }

  node.addEventListener("keydown", (/** @type {any} */ event) => {
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in moves) step(event, moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") {
      const cell = at ?? picked;
      if (cell === null) return;
      if (mode === "look") pick(cell === picked ? null : cell);
      else if (mode === "mask") choose(cell, !chosen.has(cell));
      else {
        anchor = cell;
        setRegion(between(cell, cell, columns));
      }
    } else if (event.key === "Escape") {
      hover(null);
      if (mode === "look") pick(null);
      else if (mode === "mask") {
        chosen = new Set();
        drawMarks();
        onchosen(chosen);
      } else {
        anchor = null;
        setRegion(null);
      }
    } else return;
    event.preventDefault();
  });

  describe();
  return Object.assign(node, {
    /** @param {{tokens: number[][], picture: string | null, title: string}} reading */
    setReading(reading, /** @type {string} */ address) {
      tokens = reading.tokens.flat();
      title = reading.title;
      image = null;
      if (address) {
        image = new Image();
        image.onload = draw;
        image.src = address;
      }
      describe();
      draw();
    },
    /** Importance of each token, from −255 to 255; null for none. */
    setHeat(/** @type {any[]} */ values) {
      levels = values;
      draw();
    },
    setOpacity(/** @type {number} */ value) {
      opacity = value;
      draw();
    },
    setLines(/** @type {boolean} */ on) {
      lined = on;
      draw();
    },
    setMode(/** @type {string} */ next) {
      mode = next;
      anchor = null;
      describe();
    },
    setPicked(/** @type {any} */ cell) {
      picked = cell;
      drawMarks();
    },
    setChosen(/** @type {any} */ next) {
      chosen = new Set(next);
      drawMarks();
    },
    setRegion(/** @type {any} */ next) {
      region = next;
      anchor = next ? cellsOf(next, columns)[0] : null;
      drawMarks();
    },
    /** Cells whose token is another one than at first: a corner of each is marked. */
    setChanged(/** @type {any} */ next) {
      changed = new Set(next);
      drawMarks();
    },
    /** Cells that something else points at; null for none. */
    link(/** @type {any} */ some) {
      linked = some ? new Set(some) : null;
      drawMarks();
    },
    compose() {
      return composed(SIDE, canvas, marks);
    },
  });
}
