/**
 * Points as pixels, written straight into the memory of a canvas: 50,000 of them in a few milliseconds, with or without
 * a graphics card. Pure: it knows arrays only.
 * @typedef {import("./geometry.js").Places} Places
 * @typedef {import("./geometry.js").Camera} Camera
 */

/**
 * Draws squares of `side` pixels, those that do not fit first and faintly, so that what is sought lies above.
 * @param {Uint32Array} pixels width × height, as ImageData has them (ABGR on every machine that runs browsers)
 * @param {number} width
 * @param {number} height
 * @param {Places} places
 * @param {Camera} camera in the same pixels
 * @param {Uint32Array} colors (N,)
 * @param {Uint8Array} fits (N,)
 * @param {{side: number, faint: number}} look `faint` is the color of what does not fit; 0 leaves it out
 */
export function splat(pixels, width, height, places, camera, colors, fits, { side, faint }) {
  const { x, y } = places;
  const half = side >> 1;
  for (const want of faint ? [0, 1] : [1]) {
    const size = want ? side : Math.max(1, half);
    for (let row = 0; row < fits.length; row += 1) {
      if (fits[row] !== want) continue;
      const left = Math.round((x[row] - camera.x) * camera.scale) - half;
      const top = Math.round((y[row] - camera.y) * camera.scale) - half;
      if (left < 0 || top < 0 || left + size > width || top + size > height) continue;
      const color = want ? colors[row] : faint;
      for (let line = top * width + left, down = 0; down < size; down += 1, line += width)
        for (let at = line; at < line + size; at += 1) pixels[at] = color;
    }
  }
}

/** A color as ImageData keeps it. @param {number[]} rgb @param {number} [alpha] 0 to 255 */
export const packed = ([red, green, blue], alpha = 255) =>
  ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** The numbers of "rgb(1, 2, 3)". @param {string} text @returns {number[]} */
export const channels = (text) => (text.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number);

/**
 * A color of each image: of its group where `member` is given (−1: gray), else of its value from `low` to `high`.
 * @param {number} size
 * @param {{member?: ArrayLike<number>, values?: ArrayLike<number>, palette: number[][], gray: number[], heat: (t: number) => number[]}} by
 */
export function colorsBy(size, { member, values, palette, gray, heat }) {
  const colors = new Uint32Array(size).fill(packed(gray));
  if (member) {
    const shades = palette.map((shade) => packed(shade));
    for (let row = 0; row < size; row += 1) if (member[row] >= 0) colors[row] = shades[member[row] % shades.length];
  } else if (values) {
    let [low, high] = [Infinity, -Infinity];
    for (let row = 0; row < size; row += 1) {
      if (values[row] < low) low = values[row];
      if (values[row] > high) high = values[row];
    }
    const shades = Array.from({ length: 256 }, (_, place) => packed(heat(place / 255)));
    const scale = 255 / (high - low || 1);
    for (let row = 0; row < size; row += 1)
      if (Number.isFinite(values[row])) colors[row] = shades[Math.round((values[row] - low) * scale)];
  }
  return colors;
}
