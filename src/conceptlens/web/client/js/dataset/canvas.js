/**
 * All images of a split on one canvas: points while they are many, pictures when few are in sight. Drag moves or, with
 * the lasso, encloses; the wheel zooms; keys do all of it as well.
 * @typedef {import("./geometry.js").Places} Places
 * @typedef {{places: Places, colors: Uint32Array, fits: Uint8Array, rows: Uint32Array, across: number | null}} Scene
 *   `across`: cells of a line of the grid; null on a map
 */
import { channels, packed, splat } from "./splat.js";
import { inside, nearest, zoomed } from "./geometry.js";
import { eachFrame, h } from "../dom.js";
import { token } from "../colors.js";

const PICTURES = 900; // in sight, at most: more are points
const STEP = 60; // pixels of an arrow key

/**
 * @param {{sprites: import("./sprites.js").Sprites, onpick: (row: number) => void, onhover: (row: number) => void, onlasso: (rows: Uint32Array) => void}} options
 */
export function imageCanvas({ sprites, onpick, onhover, onlasso }) {
  const canvas = /** @type {HTMLCanvasElement} */ (
    h("canvas", {
      class: "dataset-canvas",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "map of images",
      "aria-label":
        "All images. Arrow keys move, plus and minus zoom, 0 shows all, n and p go through the images, Enter opens one.",
    })
  );
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  /** @type {Scene | null} */
  let scene = null;
  let camera = { x: 0, y: 0, scale: 1 };
  let [picked, hovered, lassoing] = [-1, -1, false];
  /** @type {Array<[number, number]>} */
  let lasso = [];
  /** @type {ImageData | null} */
  let image = null;
  let ink = { line: "", ground: "", faint: 0 };

  const ratio = () => window.devicePixelRatio || 1;
  const least = () => Math.min(canvas.clientWidth, canvas.clientHeight) * (scene?.across ? 0.2 : 0.5);
  /** @param {number} row */
  const place = (row) => {
    const { x, y } = /** @type {Scene} */ (scene).places;
    return [(x[row] - camera.x) * camera.scale, (y[row] - camera.y) * camera.scale];
  };

  function fit() {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (scene?.across) camera = { x: 0, y: 0, scale: width };
    else {
      const scale = Math.min(width, height) - 60; // room for half a picture on every side
      camera = { x: 0.5 - width / 2 / scale, y: 0.5 - height / 2 / scale, scale };
    }
    draw();
  }

  /** Rows in sight, at most one more than pictures are drawn of. @param {Scene} shown */
  function inSight({ rows, places }) {
    const seen = [];
    const [left, top] = [camera.x, camera.y];
    const [right, bottom] = [left + canvas.clientWidth / camera.scale, top + canvas.clientHeight / camera.scale];
    for (const row of rows) {
      if (places.x[row] < left || places.x[row] > right || places.y[row] < top || places.y[row] > bottom) continue;
      seen.push(row);
      if (seen.length > PICTURES) break;
    }
    return seen;
  }

  const draw = eachFrame(() => {
    const [width, height] = [Math.round(canvas.clientWidth * ratio()), Math.round(canvas.clientHeight * ratio())];
    if (!scene || !width || !height) return;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    if (image?.width !== width || image?.height !== height) image = pen.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    const cell = scene.across ? camera.scale / scene.across : 0;
    const seen = inSight(scene);
    const pictures = seen.length <= PICTURES && (!cell || cell >= 8);
    const side = Math.round((cell ? Math.max(1, Math.min(cell - 1, 5)) : camera.scale > 3 * least() ? 5 : 4) * ratio());
    const inPixels = { ...camera, scale: camera.scale * ratio() };
    const look = { side, faint: cell ? 0 : ink.faint };
    splat(pixels, width, height, scene.places, inPixels, scene.colors, scene.fits, look);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.putImageData(image, 0, 0);
    pen.setTransform(ratio(), 0, 0, ratio(), 0, 0);
    if (pictures) drawPictures(seen, cell ? cell - 2 : sideOf(seen.length));
    for (const row of [hovered, picked]) if (row >= 0 && scene.fits[row]) ring(row, pictures, cell, seen.length);
    if (lasso.length > 1) outline();
  });

  /** As large as leaves room for the others. @param {number} count */
  const sideOf = (count) =>
    Math.min(48, Math.max(12, Math.sqrt((canvas.clientWidth * canvas.clientHeight) / (count + 1)) * 0.55));

  /** @param {number[]} rows @param {number} side */
  function drawPictures(rows, side) {
    const colors = /** @type {Scene} */ (scene).colors;
    pen.lineWidth = 2;
    for (const row of rows) {
      const sprite = sprites.find(row);
      if (!sprite) continue;
      const [x, y] = place(row).map((value) => value - side / 2);
      pen.drawImage(sprite.image, sprite.x, sprite.y, sprite.side, sprite.side, x, y, side, side);
      const color = colors[row];
      pen.strokeStyle = `rgb(${color & 255} ${(color >> 8) & 255} ${(color >> 16) & 255})`;
      pen.strokeRect(x, y, side, side);
    }
  }

  /** @param {number} row @param {boolean} pictures @param {number} cell @param {number} count */
  function ring(row, pictures, cell, count) {
    const [x, y] = place(row);
    const side = pictures ? (cell ? cell - 2 : sideOf(count)) + 6 : 14;
    for (const [color, wide] of /** @type {Array<[string, number]>} */ ([[ink.ground, 5], [ink.line, 2.5]])) { // prettier-ignore
      pen.strokeStyle = color;
      pen.lineWidth = wide;
      pen.strokeRect(x - side / 2, y - side / 2, side, side);
    }
  }

  function outline() {
    pen.beginPath();
    for (const [x, y] of lasso) pen.lineTo((x - camera.x) * camera.scale, (y - camera.y) * camera.scale);
    pen.closePath();
    pen.fillStyle = "rgb(120 160 220 / 0.2)";
    pen.fill();
    pen.strokeStyle = ink.line;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  /** @param {MouseEvent} event */
  const under = (event) => {
    if (!scene) return -1;
    const [x, y] = spot(event);
    const reach = (scene.across ? Math.max(8, camera.scale / scene.across / 1.4) : 24) / camera.scale;
    return nearest(scene.places, scene.fits, camera.x + x / camera.scale, camera.y + y / camera.scale, reach);
  };
  /** @param {number} row */
  function hover(row) {
    if (row === hovered) return;
    hovered = row;
    onhover(row);
    draw();
  }

  /** @type {{x: number, y: number, far: number} | null} */
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = spot(event);
    drag = { x, y, far: 0 };
    if (lassoing) lasso = [[camera.x + x / camera.scale, camera.y + y / camera.scale]];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return hover(under(event));
    const [x, y] = spot(event);
    const [dx, dy] = [x - drag.x, y - drag.y];
    drag = { x, y, far: drag.far + Math.abs(dx) + Math.abs(dy) };
    if (lassoing) lasso.push([camera.x + x / camera.scale, camera.y + y / camera.scale]);
    else camera = { ...camera, x: camera.x - dx / camera.scale, y: camera.y - dy / camera.scale };
    draw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const row = drag && drag.far < 5 ? under(event) : -1;
    if (row >= 0) onpick(row);
    else if (lassoing && scene && lasso.length > 2) onlasso(inside(scene.places, scene.fits, lasso));
    [drag, lasso] = [null, []];
    draw();
  });
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls unless the map is meant
      event.preventDefault();
      if (scene?.across && !event.ctrlKey) {
        camera = { ...camera, y: Math.max(camera.y + event.deltaY / camera.scale, 0) }; // a grid is scrolled
        draw();
      } else zoom(Math.exp(-event.deltaY / 400), ...spot(event));
    },
    { passive: false },
  );
  /** @param {number} factor @param {number} [x] @param {number} [y] */
  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    camera = zoomed(camera, factor, x, y, least());
    draw();
  }
  /** @type {Record<string, [number, number]>} */
  const arrows = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };
  canvas.addEventListener("keydown", (event) => {
    if (event.key in arrows) {
      const [dx, dy] = arrows[event.key];
      camera = { ...camera, x: camera.x + dx / camera.scale, y: camera.y + dy / camera.scale };
      draw();
    } else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else if ((event.key === "n" || event.key === "p") && scene?.rows.length) {
      const { rows } = scene;
      const at = rows.indexOf(hovered >= 0 ? hovered : picked);
      hover(rows[(at + (event.key === "n" ? 1 : -1) + rows.length) % rows.length]);
    } else if (event.key === "Enter" && hovered >= 0) onpick(hovered);
    else return;
    event.preventDefault();
  });

  function recolor() {
    const [red, green, blue] = channels(token("--line"));
    ink = { line: token("--ink"), ground: token("--ground"), faint: packed([red, green, blue]) };
    draw();
  }
  const watch = new ResizeObserver(() => draw());
  watch.observe(canvas);
  recolor();
  return {
    canvas,
    draw,
    fit,
    zoom,
    recolor,
    /** @param {Scene} next */
    show(next) {
      scene = next;
      draw();
    },
    /** @param {number} row */
    pick(row) {
      picked = row;
      draw();
    },
    /** @param {boolean} on */
    lasso(on) {
      lassoing = on;
      canvas.classList.toggle("lasso", on);
    },
    stop: () => watch.disconnect(),
  };
}
