/**
 * Places of images in a unit square, what a lasso encloses, what is under a pointer. Pure.
 * @typedef {{x: Float32Array, y: Float32Array}} Places 0 to 1; y grows downwards
 * @typedef {{x: number, y: number, scale: number}} Camera the place at the upper left corner, and pixels of a unit
 */

/** Two columns of numbers as places; one that is not a number lies in the corner. @param {ArrayLike<number>} x @param {ArrayLike<number>} y @returns {Places} */
export function scatter(x, y) {
  return { x: unit(x), y: unit(y).map((value) => 1 - value) };
}

/** @param {ArrayLike<number>} values */
function unit(values) {
  let [low, high] = [Infinity, -Infinity];
  for (let row = 0; row < values.length; row += 1) {
    if (values[row] < low) low = values[row];
    if (values[row] > high) high = values[row];
  }
  const wide = high - low || 1;
  return Float32Array.from({ length: values.length }, (_, row) =>
    Number.isFinite(values[row]) ? (values[row] - low) / wide : 0,
  );
}

/** Rows in lines of equal cells that fill the width; rows that are left out have no place. @param {Uint32Array} rows @param {number} size @param {number} across @returns {Places} */
export function gridPlaces(rows, size, across) {
  const places = { x: new Float32Array(size).fill(-9), y: new Float32Array(size).fill(-9) };
  rows.forEach((row, place) => {
    places.x[row] = ((place % across) + 0.5) / across;
    places.y[row] = (Math.floor(place / across) + 0.5) / across;
  });
  return places;
}

/** Rows that fit and lie within a polygon, by the even–odd rule. @param {Places} places @param {Uint8Array} fits @param {Array<[number, number]>} polygon @returns {Uint32Array} */
export function inside(places, fits, polygon) {
  /** @type {number[]} */
  const rows = [];
  const last = polygon.length - 1;
  for (let row = 0; row < fits.length; row += 1) {
    if (!fits[row]) continue;
    const [x, y] = [places.x[row], places.y[row]];
    let within = false;
    for (let at = 0, before = last; at <= last; before = at, at += 1) {
      const [[ax, ay], [bx, by]] = [polygon[at], polygon[before]];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
    }
    if (within) rows.push(row);
  }
  return Uint32Array.from(rows);
}

/** The row nearest to a place, not farther than `most`; −1 if there is none. @param {Places} places @param {Uint8Array} fits @param {number} x @param {number} y @param {number} most */
export function nearest(places, fits, x, y, most) {
  let [best, least] = [-1, most * most];
  for (let row = 0; row < fits.length; row += 1) {
    if (!fits[row]) continue;
    const [dx, dy] = [places.x[row] - x, places.y[row] - y];
    const far = dx * dx + dy * dy;
    if (far < least) [best, least] = [row, far];
  }
  return best;
}

/** Zoom about a point of the canvas. @param {Camera} camera @param {number} factor @param {number} px @param {number} py @param {number} least @returns {Camera} */
export function zoomed(camera, factor, px, py, least) {
  const scale = Math.min(Math.max(camera.scale * factor, least), least * 400);
  const [x, y] = [camera.x + px / camera.scale, camera.y + py / camera.scale];
  return { x: x - px / scale, y: y - py / scale, scale };
}
