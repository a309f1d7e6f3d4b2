/** Where nodes stand: a block for each layer, in the order in which they lead to what comes after them. */
import { SHARED } from "./model.js";

export const NODE = 64; // side of a node
const ACROSS = 92; // from node to node, with room for a name
const ALONG = 106;
const BETWEEN = 150; // from layer to layer
const WORDS = 170; // for the names of classes, which stand below them
const HEAD = 40; // above a block, for its title
const ALONE = 14; // nodes of a layer that stand in one line, however long

/**
 * @param {import("./model.js").Model} model
 * @param {import("./model.js").Shown} shown
 * @param {{down: boolean, width: number, height: number}} view `down`: outputs on top, as on a phone; else at the right
 * @returns {{x: Float32Array, y: Float32Array, width: number, height: number, down: boolean, blocks: Array<{row: number, title: string, x: number, y: number, width: number, height: number}>, order: number[]}}
 */
export function layout(model, shown, { down, width, height }) {
  const lines = ordered(model, shown);
  const sizes = lines.map((line) => line.length);
  const most = Math.max(...sizes, 1);
  const long = longest(sizes, most, down, width, height);
  const x = new Float32Array(model.nodes.length);
  const y = new Float32Array(model.nodes.length);
  const blocks = [];
  /** @type {any[]} */
  const order = [];
  const [forward, sideways] = down ? [ALONG, ACROSS] : [ACROSS, ALONG];
  const wide = Math.min(long, most) * sideways; // of the widest block, across the direction of the layers
  const rows = lines.map((_, row) => row);
  if (down) rows.reverse();
  const columnsOf = (/** @type {number} */ row) => Math.ceil(lines[row].length / long);
  const depth = (/** @type {number} */ row) => Math.max(columnsOf(row) * forward, row === lines.length - 1 && !down ? WORDS : 0);
  const depths = rows.filter((row) => lines[row].length).map(depth);
  const between = down ? BETWEEN : spread(depths, wide + HEAD, width / height);
  let at = 0;
  for (const row of rows) {
    /** @type {number[]} */
      const line = lines[row];
    if (!line.length) continue;
    const columns = columnsOf(row);
    const inColumn = Math.ceil(line.length / columns);
    const deep = depth(row);
    // Classes are few and have names below them: they stand farther apart where there is room.
    const apart = row === lines.length - 1 && !down ? Math.min(wide / inColumn, 2 * sideways) : sideways;
    const span = inColumn * apart;
    line.forEach((number, place) => {
      const ahead = at + (deep - columns * forward) / 2 + (Math.floor(place / inColumn) + 0.5) * forward;
      const beside = (wide - span) / 2 + ((place % inColumn) + 0.5) * apart;
      // Names stand below a node: it is a little above the middle of its cell.
      [x[number], y[number]] = down ? [beside, ahead - 14 + HEAD] : [ahead, beside - 14 + HEAD];
      order.push(number);
    });
    const block = down
      ? { x: 0, y: at + HEAD, width: wide, height: deep }
      : { x: at, y: HEAD, width: deep, height: wide };
    blocks.push({ row, title: row === model.rows.length - 1 ? "output" : model.rows[row], ...block });
    at += deep + between;
  }
  at -= between;
  return down
    ? { x, y, width: wide, height: at + HEAD, down, blocks, order }
    : { x, y, width: at, height: wide + HEAD, down, blocks, order };
}

/** The room between layers: few of them stand as far apart as their height lets them without being seen smaller. @param {any[]} depths @param {number} tall @param {number} aspect */
function spread(depths, tall, aspect) {
  const left = tall * aspect - depths.reduce((sum, deep) => sum + deep, 0);
  return Math.min(Math.max(left / Math.max(depths.length - 1, 1), BETWEEN), 3 * BETWEEN);
}

/** How many nodes stand in a line so that all together is seen as large as can be. @param {any[]} sizes @param {number} most @param {boolean} down @param {number} width @param {number} height */
function longest(sizes, most, down, width, height) {
  if (most <= ALONE) return most;
  let best = most;
  let largest = 0;
  const [forward, sideways] = down ? [ALONG, ACROSS] : [ACROSS, ALONG];
  const [far, broad] = down ? [height, width] : [width, height];
  for (let long = Math.min(ALONE, most); long <= most; long += 1) {
    const ahead = sizes.reduce((sum, size) => sum + Math.ceil(size / long) * forward, (sizes.length - 1) * BETWEEN);
    const scale = Math.min(far / ahead, broad / (long * sideways));
    if (scale > largest) [largest, best] = [scale, long];
  }
  return best;
}

/** The nodes of each row, next to what they lead to; of two classes, what they share stands between them. @param {import("./model.js").Model} model @param {import("./model.js").Shown} shown */
function ordered(model, shown) {
  /** @type {number[][]} */
  const lines = model.rows.map(() => []);
  for (const number of shown.nodes) lines[model.nodes[number].row].push(number);
  const place = new Float32Array(model.nodes.length).fill(0.5);
  const { source, target, weight } = model.edges;
  const two = new Set(shown.nodes.filter((number) => model.nodes[number].kind === "output")).size === 2;
  const pull = new Float32Array(model.nodes.length);
  const total = new Float32Array(model.nodes.length);
  /** @type {number[][]} */
  const byRow = model.rows.map(() => []);
  for (const edge of shown.edges) byRow[model.nodes[source[edge]].row].push(edge);
  for (let row = lines.length - 1; row >= 0; row -= 1) {
    for (const edge of byRow[row]) {
      pull[source[edge]] += weight[edge] * place[target[edge]];
      total[source[edge]] += weight[edge];
    }
    const key = (/** @type {number} */ number) => {
      const node = model.nodes[number];
      if (node.kind === "error") return 9;
      const side = two && node.kind === "concept" ? (shown.owner[number] === SHARED ? 1 : 2 * shown.owner[number]) : 0;
      return side + (total[number] > 0 ? pull[number] / total[number] : 0.5);
    };
    if (row < lines.length - 1) {
      const keys = new Map(lines[row].map((number) => [number, key(number)]));
      lines[row].sort((a, b) => Number(keys.get(a)) - Number(keys.get(b)) || a - b);
    }
    lines[row].forEach((number, at) => {
      place[number] = lines[row].length > 1 ? at / (lines[row].length - 1) : 0.5;
    });
  }
  return lines;
}

/** The ends and the bend of an edge: [x0, y0, x1, y1, middle]. @param {any} place @param {any} from @param {any} to */
export function ends(place, from, to) {
  const half = NODE / 2;
  if (place.down) {
    const [y0, y1] = [place.y[from] - half, place.y[to] + half + 30]; // below the names
    return [place.x[from], y0, place.x[to], y1, (y0 + y1) / 2];
  }
  const [x0, x1] = [place.x[from] + half, place.x[to] - half];
  return [x0, place.y[from], x1, place.y[to], (x0 + x1) / 2];
}
