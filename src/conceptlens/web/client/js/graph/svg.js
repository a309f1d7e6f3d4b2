/** The whole graph that is shown as a drawing of lines, for print and for slides. */
import { s } from "../dom.js";
import { NODE, ends } from "./layout.js";
import { LEVELS, SHARED } from "./model.js";
import { part } from "./numbers.js";
import { frameOf, wrapped } from "./paint.js";

const CROP = 112;
const PICTURES = 300; // nodes up to which their pictures are put inside

/** @param {import("./paint.js").Scene} scene @param {(number: number) => Promise<CanvasImageSource | null>} picture */
export async function graphSVG(scene, picture) {
  const { model, shown, place, colors, outputs } = scene;
  const { source, target, value } = model.edges;
  const edges = shown.edges.map((edge) => {
    const [x0, y0, x1, y1, bend] = ends(place, source[edge], target[edge]).map((each) => Math.round(each));
    const level = model.level(edge) / LEVELS;
    const quiet = model.sign(edge) === "rest" ? 0.4 : 1;
    const curve = place.down ? `${x0} ${bend} ${x1} ${bend}` : `${bend} ${y0} ${bend} ${y1}`;
    return s(
      "path",
      {
        d: `M${x0} ${y0}C${curve} ${x1} ${y1}`,
        fill: "none",
        stroke: colors[model.sign(edge)],
        "stroke-width": (0.6 + 5.4 * level * quiet).toFixed(1),
        "stroke-opacity": ((0.12 + 0.7 * level) * quiet).toFixed(2),
      },
      s("title", {}, `${title(model, source[edge])} → ${title(model, target[edge])}: ${value[edge]}`),
    );
  });
  const few = shown.nodes.length <= PICTURES;
  const nodes = await Promise.all(
    shown.nodes.map(async (number) => box(scene, number, few ? inside(await picture(number)) : null, outputs)),
  );
  const names = place.blocks.map((block) =>
    place.down
      ? text(block.title, 6, block.y + 2, colors.soft, { "text-anchor": "start", "font-weight": 600 })
      : text(block.title, block.x + block.width / 2, 18, colors.soft, { "font-weight": 600 }),
  );
  const [wide, high] = [Math.ceil(place.width), Math.ceil(place.height)];
  return s(
    "svg",
    { viewBox: `0 0 ${wide} ${high}`, "font-family": "system-ui, sans-serif", "font-size": 11 },
    s("title", {}, model.answer.title),
    edges,
    names,
    nodes,
  );
}

/** @param {import("./model.js").Model} model @param {number} number */
const title = (model, number) => model.title(model.nodes[number]);

/** @param {number} number @param {string | null} crop @param {number[]} outputs */
function box(/** @type {any} */ { model, place, shown, colors, ...scene }, number, crop, outputs) {
  const node = model.nodes[number];
  const [x, y] = [Math.round(place.x[number] - NODE / 2), Math.round(place.y[number] - NODE / 2)];
  const frame = frameOf({ model, place, shown, colors, ...scene }, number);
  const middle = x + NODE / 2;
  const share = part(model.share(node, outputs), 0);
  const lines = node.kind === "output" ? wrapped(node.name, place.down ? 13 : 24) : [];
  return s(
    "g",
    {},
    s("title", {}, model.title(node)),
    s("rect", {
      x,
      y,
      width: NODE,
      height: NODE,
      rx: 8,
      fill: node.kind === "output" ? frame : node.kind === "error" ? colors.sunken : colors.surface,
      stroke: frame,
      "stroke-width": 3,
      "stroke-dasharray": node.kind === "error" ? "4 3" : null,
    }),
    node.kind === "concept" && shown.owner[number] === SHARED
      ? s("rect", { x: x - 5, y: y - 5, width: NODE + 10, height: NODE + 10, rx: 10, fill: "none", stroke: frame })
      : null,
    crop ? s("image", { href: crop, x: x + 3, y: y + 3, width: NODE - 6, height: NODE - 6 }) : null,
    lines.map((line, at) => text(line, middle, y + NODE + 14 + 13 * at, colors.ink, { "font-weight": 600 })),
    node.kind === "error" ? text(share, middle, y + NODE / 2 + 5, colors.ink, { "font-weight": 600 }) : null,
    node.kind === "output" ? null : text(node.name, middle, y + NODE + 14, colors.ink),
    node.kind === "concept" ? text(share, middle, y + NODE + 27, colors.soft) : null,
  );
}

/** @param {string} words @param {number} x @param {number} y @param {string} fill */
const text = (words, x, y, fill, more = {}) => s("text", { x, y, fill, "text-anchor": "middle", ...more }, words);

/** The first crop of a sheet as an address. @param {any} picture */
function inside(picture) {
  if (!picture) return null;
  const canvas = document.createElement("canvas");
  canvas.width = CROP;
  canvas.height = CROP;
  canvas.getContext("2d")?.drawImage(picture, 0, 0, CROP, CROP, 0, 0, CROP, CROP);
  return canvas.toDataURL("image/jpeg", 0.85);
}
