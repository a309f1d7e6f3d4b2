/** What charts are drawn with: straight lines, words, and a line that follows the pointer. */

/** A straight line. @param {any} root @param {any} look */
export const rule = (root, look, /** @type {[any, any]} */ [x1, y1], /** @type {[any, any]} */ [x2, y2]) =>
  root.append("line").attr("class", look).attr("x1", x1).attr("x2", x2).attr("y1", y1).attr("y2", y2);

/** Words beside a mark. @param {"start" | "middle" | "end" | null} anchor @param {any} root @param {string} words @param {number} x @param {number} y */
export const nameAt = (root, words, x, y, anchor = "end") =>
  root.append("text").attr("class", "name").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(words);

/**
 * A line at the place nearest to the pointer.
 * @param {SVGSVGElement} svg @param {any} root @param {{x: any, width: number, top: number, bottom: number, places: number[], show: (at: number | null) => void}} options
 *   `places`: where it may stand, in order; `show` is told where it stands, null for nowhere
 */
export function cursor(svg, root, { x, width, top, bottom, places, show }) {
  const line = rule(root, "cursor", [null, top], [null, bottom]).attr("display", "none");
  const gap = (/** @type {number} */ place, /** @type {number} */ wanted) => Math.abs(place - wanted);
  show(null);
  svg.addEventListener("pointermove", (event) => {
    if (!places.length) return;
    const box = svg.getBoundingClientRect();
    const wanted = x.invert(((event.clientX - box.left) / box.width) * width);
    const at = places.reduce((best, place) => (gap(place, wanted) < gap(best, wanted) ? place : best));
    line.attr("display", null).attr("x1", x(at)).attr("x2", x(at));
    show(at);
  });
  svg.addEventListener("pointerleave", () => {
    line.attr("display", "none");
    show(null);
  });
}
