/** Series differ in color and in dash, for readers who cannot distinguish all colors. */
import { s } from "../dom.js";

export const DASHES = [null, "6 3", "2 3", "9 3 2 3", "1 2.5", "12 4", "4 2 1 2", "8 2"];

/** A share on an axis, with as many digits as it takes. @param {number} value */
export const tick = (value) => `${Number((100 * value).toPrecision(4))}%`;

/** The piece of line that stands before a name. @param {number} place */
export function swatch(place) {
  return s(
    "svg",
    { class: "chart", viewBox: "0 0 22 10", "aria-hidden": "true" },
    s("path", { class: `line s${place % 8}`, d: "M1 5H21", "stroke-dasharray": DASHES[place % DASHES.length] }),
  );
}

/**
 * Ticks of which no two read alike, as 0.1 and 0.14 do where an axis has whole percentages.
 * @template T @param {T[]} ticks @param {(tick: T) => string | number} read @returns {T[]}
 */
export function distinct(ticks, read) {
  const seen = new Set();
  return ticks.filter((tick) => {
    const text = String(read(tick));
    return !seen.has(text) && seen.add(text);
  });
}

const LABEL = 46; // pixels that a tick's label takes

/** Of evenly spaced ticks as many as have room. @param {number[]} ticks @param {number} room in pixels */
export const roomy = (ticks, room) => ticks.filter((_, place) => place % Math.ceil((ticks.length * LABEL) / room) === 0);
