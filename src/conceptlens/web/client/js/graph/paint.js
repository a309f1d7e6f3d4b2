/** A scene drawn with a pen, piece by piece: whoever draws may stop after each and go on in the next frame. */
import { token } from "../colors.js";
import { NODE, ends } from "./layout.js";
import { LEVELS, NOBODY, SHARED } from "./model.js";
import { part } from "./numbers.js";
import { shortened } from "../words.js";

const PIECE = 48; // edges, or nodes, between two looks at the clock
const CROP = 112; // side of a crop on its sheet
export const PICTURES_FROM = 20; // pixels of a node's side from which its crop is drawn
const NAMES_FROM = 35;
const SHARES_FROM = 46; // below, there is room for one line only

/**
 * @typedef {{model: import("./model.js").Model, shown: import("./model.js").Shown, place: ReturnType<typeof import("./layout.js").layout>, outputs: number[], visible: Set<number>, colors: Record<string, any>, picture: (number: number) => CanvasImageSource | null}} Scene
 * @typedef {{x: number, y: number, scale: number}} Camera `x`, `y`: the point of the scene in the middle
 * @typedef {{left: number, top: number, right: number, bottom: number}} Area of the scene
 */

/** The colors of the theme as it is now. */
export function palette() {
  const of = (/** @type {string} */ name) => token(`--${name}`);
  return {
    series: [0, 1, 2, 3, 4, 5, 6, 7].map((place) => of(`series-${place}`)),
    shared: of("series-6"),
    plus: of("plus-bar"),
    minus: of("minus-bar"),
    rest: of("edge"),
    surface: of("surface"),
    ground: of("ground"),
    sunken: of("sunken"),
    ink: of("ink"),
    soft: of("soft"),
    line: of("line"),
    accent: of("accent"),
    font: getComputedStyle(document.body).fontFamily,
  };
}

/** The color of a node's frame. @param {any} scene @param {number} number */
export function frameOf(scene, number) {
  const owner = scene.shown.owner[number];
  if (owner === NOBODY) return scene.colors.rest;
  if (owner === SHARED) return scene.colors.shared;
  return scene.colors.series[owner % 6];
}

/**
 * All of a scene within an area; yields where it may be interrupted.
 * @param {CanvasRenderingContext2D} pen in units of the screen @param {Scene} scene @param {Camera} camera
 * @param {Area} area @param {[number, number]} middle of the drawing, where the camera looks
 */
export function* paint(pen, scene, camera, area, middle) {
  yield* edges(pen, scene, camera, area, middle, scene.shown.edges);
  let done = 0;
  for (const number of scene.shown.nodes) {
    if (!inside(scene.place, number, area)) continue;
    node(pen, scene, camera, middle, number);
    done += 1;
    if (done % PIECE === 0) yield;
  }
}

/** Edges in the order given, those of one look in one stroke. @param {CanvasRenderingContext2D} pen @param {any} scene @param {import("./paint.js").Camera} camera @param {any} area @param {number[]} middle @param {any[]} list */
export function* edges(pen, scene, camera, area, middle, list, light = 1) {
  const { model, place, colors } = scene;
  const { source, target } = model.edges;
  const { scale } = camera;
  const thin = Math.min(1, Math.max(0.35, scale * 1.6));
  const across = (/** @type {number} */ x) => middle[0] + (x - camera.x) * scale;
  const down = (/** @type {number} */ y) => middle[1] + (y - camera.y) * scale;
  let look = "";
  let strokes = 0;
  const flush = () => {
    if (strokes) pen.stroke();
    strokes = 0;
  };
  pen.lineCap = "butt";
  for (const edge of list) {
    const [x0, y0, x1, y1, bend] = ends(place, source[edge], target[edge]);
    if (
      Math.max(x0, x1) < area.left ||
      Math.min(x0, x1) > area.right ||
      Math.max(y0, y1) < area.top ||
      Math.min(y0, y1) > area.bottom
    )
      continue;
    const level = model.level(edge) / LEVELS;
    const sign = model.sign(edge);
    if (look !== `${sign}${level}` || strokes >= PIECE) {
      const full = strokes >= PIECE;
      flush();
      if (full) yield;
      look = `${sign}${level}`;
      pen.strokeStyle = colors[sign];
      // What nobody explains goes everywhere: it must not hide the rest.
      const quiet = sign === "rest" ? 0.4 : 1;
      pen.globalAlpha = Math.min(1, (0.12 + 0.7 * level) * light * quiet);
      pen.lineWidth = (0.6 + 5.4 * level * quiet) * thin;
      pen.beginPath();
    }
    pen.moveTo(across(x0), down(y0));
    if (place.down) pen.bezierCurveTo(across(x0), down(bend), across(x1), down(bend), across(x1), down(y1));
    else pen.bezierCurveTo(across(bend), down(y0), across(bend), down(y1), across(x1), down(y1));
    strokes += 1;
  }
  flush();
  pen.globalAlpha = 1;
}

/** @param {any} place @param {number} number @param {any} area */
function inside(place, number, area) {
  const far = NODE;
  return (
    place.x[number] > area.left - far &&
    place.x[number] < area.right + far &&
    place.y[number] > area.top - far &&
    place.y[number] < area.bottom + far
  );
}

/** One node: a square from afar, with its crop and its name from nearby. @param {CanvasRenderingContext2D} pen @param {any} scene @param {import("./paint.js").Camera} camera @param {number[]} middle @param {number} number */
export function node(pen, scene, camera, middle, number) {
  const { model, place, colors, outputs } = scene;
  const each = model.nodes[number];
  const side = NODE * camera.scale;
  const x = middle[0] + (place.x[number] - camera.x) * camera.scale;
  const y = middle[1] + (place.y[number] - camera.y) * camera.scale;
  const frame = frameOf(scene, number);
  const [left, top] = [x - side / 2, y - side / 2];
  if (side < 9) {
    pen.fillStyle = frame;
    pen.fillRect(left, top, Math.max(side, 1.5), Math.max(side, 1.5));
    return;
  }
  const line = Math.min(3, Math.max(1.2, side / 22));
  pen.fillStyle = each.kind === "output" ? frame : each.kind === "error" ? colors.sunken : colors.surface;
  pen.beginPath();
  pen.roundRect(left, top, side, side, Math.min(8, side / 8));
  pen.fill();
  const picture = each.crops && side >= PICTURES_FROM ? scene.picture(number) : null;
  if (picture) pen.drawImage(picture, 0, 0, CROP, CROP, left + line, top + line, side - 2 * line, side - 2 * line);
  pen.strokeStyle = frame;
  pen.lineWidth = line;
  pen.setLineDash(each.kind === "error" ? [4, 3] : []);
  pen.stroke();
  pen.setLineDash([]);
  if (each.kind === "concept" && scene.shown.owner[number] === SHARED && side >= 16) {
    // Shared: a second frame, so that color alone does not say it.
    pen.lineWidth = Math.max(1, line / 2);
    pen.beginPath();
    pen.roundRect(left - line - 2, top - line - 2, side + 2 * line + 4, side + 2 * line + 4, Math.min(10, side / 7));
    pen.stroke();
  }
  if (side >= NAMES_FROM || (each.kind === "output" && side >= 20)) names(pen, scene, each, x, y, side, outputs);
}

/** @param {CanvasRenderingContext2D} pen @param {any} each @param {number} x @param {number} y @param {number} side @param {number[]} outputs */
function names(pen, /** @type {{model: import("./model.js").Model, colors: Record<string, any>, place: any}} */ { model, colors, place }, each, x, y, side, outputs) {
  const under = y + side / 2;
  const share = part(model.share(each, outputs), 0);
  const room = Math.floor((side * 1.4) / 6);
  pen.textAlign = "center";
  if (each.kind === "output") {
    pen.font = `600 12px ${colors.font}`;
    const most = place.down ? room : Math.max(12, Math.floor((side * 2.6) / 6.6));
    const lines = wrapped(each.name, most).slice(0, side < SHARES_FROM ? 1 : 2);
    lines.forEach((text, at) => written(pen, colors, text, x, under + 14 + 13 * at, colors.ink));
    return;
  }
  if (each.kind === "error") {
    pen.font = `600 13px ${colors.font}`;
    pen.fillStyle = colors.ink;
    pen.fillText(share, x, y + 5);
  }
  pen.font = `11px ${colors.font}`;
  const name = each.name.length > room ? each.name.replace(/^concept /, "#") : each.name;
  written(pen, colors, each.kind === "error" ? name : shortened(name, room), x, under + 14, colors.ink);
  if (each.kind === "concept" && side >= SHARES_FROM) written(pen, colors, share, x, under + 27, colors.soft);
}

/** Text on a ground of its own, so that edges do not run through it. @param {CanvasRenderingContext2D} pen @param {Record<string, any>} colors @param {string} text @param {number} x @param {number} y @param {string} color */
function written(pen, colors, text, x, y, color) {
  const half = text.length * 3 + 2;
  pen.globalAlpha = 0.8;
  pen.fillStyle = colors.ground;
  pen.fillRect(x - half, y - 10, 2 * half, 13);
  pen.globalAlpha = 1;
  pen.fillStyle = color;
  pen.fillText(text, x, y);
}

/** A name on at most three short lines. @param {string} name @param {number} most */
export function wrapped(name, most) {
  const lines = [];
  for (const word of name.replace(/[_-]/g, " ").split(/\s+/)) {
    if (lines.length && lines[lines.length - 1].length + word.length < most) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  }
  return lines.slice(0, 3).map((line) => shortened(line, most));
}

/** The names of layers, at the border of what is seen: wherever one looks, one knows where one is. @param {CanvasRenderingContext2D} pen @param {any} scene @param {import("./paint.js").Camera} camera @param {number[]} middle */
export function titles(pen, scene, camera, middle) {
  const { place, colors } = scene;
  pen.font = `600 12px ${colors.font}`;
  /** @type {any[]} */
  const taken = [];
  for (const block of place.blocks.toSorted((/** @type {any} */ a, /** @type {any} */ b) => b.row - a.row)) {
    const [from, size, at, half] = place.down
      ? [block.y, block.height, camera.y, middle[1]]
      : [block.x, block.width, camera.x, middle[0]];
    const low = half + (from - at) * camera.scale;
    const high = low + size * camera.scale;
    if (high < 10 || low > 2 * half - 10) continue;
    const between = (Math.max(low, 0) + Math.min(high, 2 * half)) / 2;
    const center = Math.min(Math.max(place.down ? low - 8 : between, 14), 2 * half - 14); // on a phone above its nodes
    const text = shortened(block.title, 18);
    const wide = pen.measureText(text).width + 14;
    const room = place.down ? 22 : wide + 4;
    if (taken.some((other) => Math.abs(other.center - center) < (other.room + room) / 2)) continue;
    taken.push({ center, room });
    const [x, y] = place.down ? [8 + wide / 2, center] : [center, 16];
    pen.globalAlpha = 0.88;
    pen.fillStyle = colors.surface;
    pen.beginPath();
    pen.roundRect(x - wide / 2, y - 10, wide, 20, 10);
    pen.fill();
    pen.globalAlpha = 1;
    pen.fillStyle = colors.soft;
    pen.textAlign = "center";
    pen.fillText(text, x, y + 4);
  }
}
