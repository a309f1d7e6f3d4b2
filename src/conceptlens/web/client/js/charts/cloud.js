/** Points in two or three dimensions on a canvas: drag turns or moves, the wheel zooms, arrow keys turn, points can be picked. */
import { h } from "../dom.js";
import { token } from "../colors.js";

const SHAPES = ["circle", "square", "triangle", "diamond"];

/**
 * @typedef {{key: string, at: number[], label: string, group: number, size?: number, shape?: number, color?: string, area?: string}} Point `area` is the name that a cluster of points is labeled with
 * @param {Point[]} points
 * @param {{label: string, dimensions: number, turn?: [number, number], onpick?: (key: string) => void, onturn?: (turn: [number, number]) => void, picked?: string | null}} options
 */
export function cloud(
  points,
  { label, dimensions, turn = [0.5, 0.35], onpick = () => {}, onturn = () => {}, picked = null },
) {
  const canvas = h("canvas", {
    class: "cloud-canvas",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "map of points",
    "aria-label": `${label}. ${points.length} points. ${dimensions === 3 ? "Arrow keys turn it" : "Arrow keys move it"}, plus and minus zoom, n and p go through the points, Enter opens one.`,
  });
  const tip = h("output", { class: "tip", hidden: true });
  const node = h("div", { class: "cloud" }, canvas, tip);
  const center = [0, 1, 2].map((axis) => middle(points.map((each) => each.at[axis] ?? 0)));
  const half = [0, 1, 2].map((axis) =>
    Math.max(...points.map((each) => Math.abs((each.at[axis] ?? 0) - center[axis])), 1e-9),
  );
  const reach = dimensions === 2 ? Math.max(half[0], half[1]) : Math.hypot(...half) * 0.65;
  let [yaw, pitch] = turn;
  let zoom = 1;
  let move = [0, 0];
  /** @type {any} */
  let hovered = null;
  /** @type {any[]} */
  let places = [];
  /** @type {any} by name, and those of the groups by number */
  let colors = [];

  /** @param {any} point */
  function project(point) {
    const [x, y, z] = [0, 1, 2].map((axis) => ((point.at[axis] ?? 0) - center[axis]) / reach);
    if (dimensions === 2) return [x, -y, 0];
    const [x1, z1] = [x * Math.cos(yaw) + z * Math.sin(yaw), -x * Math.sin(yaw) + z * Math.cos(yaw)];
    return [x1, -(y * Math.cos(pitch) - z1 * Math.sin(pitch)), y * Math.sin(pitch) + z1 * Math.cos(pitch)];
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    // In the plane the points fill the canvas; in space they must fit however they are turned.
    const scale =
      zoom *
      0.43 *
      (dimensions === 2
        ? reach * Math.min((width - 60) / half[0], (height - 40) / half[1])
        : Math.min(width * 0.8, height));
    if (dimensions === 3) axes(pen, width, height, scale);
    places = points.map((point) => {
      const [x, y, depth] = project(point);
      return { point, depth, x: width / 2 + x * scale + move[0], y: height / 2 + y * scale + move[1] };
    });
    const order = [...places].sort((a, b) => a.depth - b.depth);
    for (const place of order) dot(pen, place);
    areas(pen);
    const named = places.filter((place) => place.point.key === picked || place.point.key === hovered);
    for (const place of named) ring(pen, place);
  }

  /** The names of clusters, at their middle, where they do not lie on one another. @param {CanvasRenderingContext2D} pen */
  function areas(pen) {
    const found = new Map();
    for (const place of places)
      if (place.point.area) found.set(place.point.area, [...(found.get(place.point.area) ?? []), place]);
    /** @type {any[]} */
    const taken = [];
    pen.font = `12px ${getComputedStyle(canvas).fontFamily}`;
    pen.textAlign = "center";
    for (const [name, members] of found) {
      const x = members.reduce((/** @type {any} */ sum, /** @type {any} */ each) => sum + each.x, 0) / members.length;
      const y = Math.min(...members.map((/** @type {any} */ each) => each.y)) - 12;
      const wide = pen.measureText(name).width / 2;
      const at = Math.min(Math.max(x, wide + 4), canvas.clientWidth - wide - 4);
      if (taken.some((other) => Math.abs(other.y - y) < 15 && Math.abs(other.x - at) < other.wide + wide + 6)) continue;
      taken.push({ x: at, y, wide });
      pen.lineWidth = 4;
      pen.strokeStyle = colors.ground;
      pen.strokeText(name, at, y);
      pen.fillStyle = colors.soft;
      pen.fillText(name, at, y);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} width @param {number} height @param {number} scale */
  function axes(pen, width, height, scale) {
    pen.strokeStyle = colors.line;
    pen.lineWidth = 1;
    for (const end of [
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1],
    ]) {
      const [x, y] = project({ at: end.map((value, axis) => center[axis] + value * reach * 0.9) });
      pen.beginPath();
      pen.moveTo(width / 2 + move[0] - x * scale, height / 2 + move[1] - y * scale);
      pen.lineTo(width / 2 + move[0] + x * scale, height / 2 + move[1] + y * scale);
      pen.stroke();
    }
  }

  /** @param {CanvasRenderingContext2D} pen */
  function dot(pen, /** @type {{point: any, x: number, y: number, depth: any}} */ { point, x, y, depth }) {
    const size = (point.size ?? 6) * (dimensions === 3 ? 1 + 0.25 * depth : 1);
    pen.globalAlpha = dimensions === 3 ? 0.6 + 0.35 * ((depth + 1) / 2) : 0.9;
    pen.fillStyle = point.color ?? colors[point.group % 8];
    pen.strokeStyle = point.color ? colors.edge : colors.surface;
    pen.lineWidth = 1;
    pen.beginPath();
    trace(pen, SHAPES[point.shape ?? 0], x, y, size);
    pen.fill();
    pen.stroke();
    pen.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} pen */
  function ring(pen, /** @type {{point: any, x: number, y: number}} */ { point, x, y }) {
    pen.strokeStyle = colors.ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(x, y, (point.size ?? 6) + 4, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** @param {{point: Point, x: number, y: number} | null} place */
  function hover(place) {
    const key = place?.point.key ?? null;
    if (key === hovered) return;
    hovered = key;
    tip.hidden = !place;
    if (place) {
      tip.textContent = place.point.label;
      tip.style.left = `${Math.min(place.x + 10, canvas.clientWidth - 150)}px`;
      tip.style.top = `${place.y + 12}px`;
    }
    draw();
  }

  const near = (/** @type {any} */ event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    let least = 14;
    for (const place of places) {
      const far = Math.hypot(place.x - x, place.y - y);
      if (far < least) [least, best] = [far, place];
    }
    return best;
  };

  /** @type {any} */
  let drag = null;
  canvas.addEventListener("pointerdown", (/** @type {any} */ event) => {
    drag = { x: event.clientX, y: event.clientY, far: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (/** @type {any} */ event) => {
    if (!drag) {
      hover(near(event));
      return;
    }
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    drag = { x: event.clientX, y: event.clientY, far: drag.far + Math.abs(dx) + Math.abs(dy) };
    shift(dx, dy);
  });
  canvas.addEventListener("pointerup", (/** @type {any} */ event) => {
    if (drag && drag.far < 5) {
      const place = near(event);
      if (place) onpick(place.point.key);
    } else if (drag && dimensions === 3) onturn([yaw, pitch]);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener(
    "wheel",
    (/** @type {any} */ event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls unless the map is meant
      event.preventDefault();
      zoom = clamp(zoom * Math.exp(-event.deltaY / 400), 0.5, 12);
      draw();
    },
    { passive: false },
  );
  canvas.addEventListener("keydown", (/** @type {any} */ event) => {
    /** @type {Record<string, any>} */
    const steps = { ArrowLeft: [-12, 0], ArrowRight: [12, 0], ArrowUp: [0, -12], ArrowDown: [0, 12] };
    if (event.key in steps) {
      const [dx, dy] = steps[event.key];
      shift(dx, dy);
      if (dimensions === 3) onturn([yaw, pitch]);
    } else if (event.key === "+" || event.key === "=") {
      zoom = clamp(zoom * 1.25, 0.5, 12);
      draw();
    } else if (event.key === "-") {
      zoom = clamp(zoom / 1.25, 0.5, 12);
      draw();
    } else if (event.key === "n" || event.key === "p") {
      const at = points.findIndex((each) => each.key === (hovered ?? picked));
      const next = (at + (event.key === "n" ? 1 : -1) + points.length) % points.length;
      hover(places[next]);
    } else if (event.key === "Enter" && hovered) onpick(hovered);
    else return;
    event.preventDefault();
  });

  /** @param {number} dx @param {number} dy */
  function shift(dx, dy) {
    if (dimensions === 3) {
      yaw += dx / 120;
      pitch = clamp(pitch + dy / 120, -1.5, 1.5);
    } else move = [move[0] + dx, move[1] + dy];
    draw();
  }

  function recolor() {
    colors = Object.assign(
      [0, 1, 2, 3, 4, 5, 6, 7].map((place) => token(`--series-${place}`)),
      {
        line: token("--line"),
        ink: token("--ink"),
        surface: token("--surface"),
        ground: token("--ground"),
        soft: token("--soft"),
        edge: token("--edge"),
      },
    );
    draw();
  }
  const watch = new ResizeObserver(draw);
  watch.observe(canvas);
  window.addEventListener("theme", recolor);
  requestAnimationFrame(recolor);
  return Object.assign(node, {
    canvas,
    setPicked(/** @type {string | null} */ key) {
      picked = key;
      draw();
    },
    hover(/** @type {string} */ key) {
      hover(places.find((place) => place.point.key === key) ?? null);
    },
    stop() {
      watch.disconnect();
      window.removeEventListener("theme", recolor);
    },
    compose() {
      const whole = h("canvas", { width: canvas.width, height: canvas.height });
      const pen = whole.getContext("2d");
      pen.fillStyle = token("--surface");
      pen.fillRect(0, 0, whole.width, whole.height);
      pen.drawImage(canvas, 0, 0);
      return whole;
    },
  });
}

/** @param {CanvasRenderingContext2D} pen @param {string} shape @param {number} x @param {number} y @param {number} r */
function trace(pen, shape, x, y, r) {
  if (shape === "square") pen.rect(x - r * 0.85, y - r * 0.85, 1.7 * r, 1.7 * r);
  else if (shape === "triangle") {
    pen.moveTo(x, y - r);
    pen.lineTo(x + r, y + 0.8 * r);
    pen.lineTo(x - r, y + 0.8 * r);
    pen.closePath();
  } else if (shape === "diamond") {
    pen.moveTo(x, y - r * 1.15);
    pen.lineTo(x + r * 1.15, y);
    pen.lineTo(x, y + r * 1.15);
    pen.lineTo(x - r * 1.15, y);
    pen.closePath();
  } else pen.arc(x, y, r, 0, 2 * Math.PI);
}

/** @param {number} value @param {number} low @param {number} high */
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
/** @param {any[]} values */
const middle = (values) => (values.length ? (Math.max(...values) + Math.min(...values)) / 2 : 0);
