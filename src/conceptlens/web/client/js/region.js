/** Rectangles of a token grid, in the words of `conceptlens codebook edit --region`: rows,columns as 7:11,3:8. */

/** @typedef {{top: number, left: number, bottom: number, right: number}} Region ends are not included */

/** @param {string | undefined} text @param {[number, number]} grid @returns {Region | null} */
export function parseRegion(text, [rows, columns]) {
  const found = /^\s*(\d+):(\d+),(\d+):(\d+)\s*$/.exec(text ?? "");
  if (!found) return null;
  const [top, bottom, left, right] = found.slice(1).map(Number);
  return top < bottom && left < right && bottom <= rows && right <= columns ? { top, left, bottom, right } : null;
}

/** @param {Region | null} region */
export const regionWords = (region) => (region ? `${region.top}:${region.bottom},${region.left}:${region.right}` : "");

/** The rectangle between two cells. @param {number} one @param {number} other @param {number} columns @returns {Region} */
export function between(one, other, columns) {
  const rows = [Math.floor(one / columns), Math.floor(other / columns)];
  const cols = [one % columns, other % columns];
  return {
    top: Math.min(...rows),
    bottom: Math.max(...rows) + 1,
    left: Math.min(...cols),
    right: Math.max(...cols) + 1,
  };
}

/** Its cells, row by row. @param {Region | null} region @param {number} columns */
export function cellsOf(region, columns) {
  const found = [];
  if (region)
    for (let row = region.top; row < region.bottom; row += 1)
      for (let column = region.left; column < region.right; column += 1) found.push(row * columns + column);
  return found;
}

/** Half of each side, in the middle. @param {[number, number]} grid @returns {Region} */
export function middle([rows, columns]) {
  const tall = Math.max(1, Math.floor(rows / 2));
  const wide = Math.max(1, Math.floor(columns / 2));
  const [top, left] = [Math.floor((rows - tall) / 2), Math.floor((columns - wide) / 2)];
  return { top, left, bottom: top + tall, right: left + wide };
}
