/** Colors of maps: viridis, whose order survives color blindness and gray. Opacity grows with the value as well. */
const ANCHORS = [
  [68, 1, 84],
  [65, 68, 135],
  [42, 120, 142],
  [34, 168, 132],
  [122, 209, 81],
  [253, 231, 37],
];

/** @param {number} t in [0, 1] @returns {[number, number, number]} */
export const heat = (t) => between(ANCHORS, t);

/** Evidence: orange takes away, blue adds. Neither is lost to color blindness; orange is striped as well, for gray. */
const SIGNED = [
  [190, 70, 0],
  [240, 125, 20],
  [252, 196, 120],
  [244, 244, 244],
  [125, 180, 250],
  [25, 105, 235],
  [10, 50, 165],
];

/** @param {number[][]} anchors @param {number} t @returns {any} */
const between = (anchors, t) => {
  const place = Math.min(Math.max(t, 0), 1) * (anchors.length - 1);
  const low = Math.min(Math.floor(place), anchors.length - 2);
  return anchors[low].map((each, channel) => Math.round(each + (place - low) * (anchors[low + 1][channel] - each)));
};

/** @param {number} t in [−1, 1] @returns {[number, number, number]} */
export const signedHeat = (t) => between(SIGNED, (t + 1) / 2);

/** The same brightness without color: of a map that did not pass its test. @param {number[]} color */
export const gray = ([red, green, blue]) => {
  const level = Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
  return [level, level, level];
};

/** The value of a custom property, as the theme has it now. @param {string} name */
export function token(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** "#rrggbb" as bytes. @param {string} word */
export const bytes = (word) => [1, 3, 5].map((at) => parseInt(word.slice(at, at + 2), 16));

/** Layers over the page's surface, as one canvas. @param {number} side @param {CanvasImageSource[]} layers */
export function composed(side, ...layers) {
  const whole = Object.assign(document.createElement("canvas"), { width: side, height: side });
  const pen = /** @type {CanvasRenderingContext2D} */ (whole.getContext("2d"));
  pen.fillStyle = token("--surface");
  pen.fillRect(0, 0, side, side);
  for (const layer of layers) pen.drawImage(layer, 0, 0);
  return whole;
}

/**
 * A frame around a box (x, y, width, height) that is seen on light and on dark.
 * @param {CanvasRenderingContext2D} pen @param {number[]} box @param {string} color @param {number} width
 */
export function frame(pen, box, color, width) {
  pen.strokeStyle = "rgb(0 0 0 / 0.75)";
  pen.lineWidth = width + 2.5;
  const [x, y, wide, high] = box;
  pen.strokeRect(x, y, wide, high);
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.strokeRect(x, y, wide, high);
}
