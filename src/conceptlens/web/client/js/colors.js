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
export function heat(t) {
  const place = Math.min(Math.max(t, 0), 1) * (ANCHORS.length - 1);
  const low = Math.min(Math.floor(place), ANCHORS.length - 2);
  const part = place - low;
  return ANCHORS[low].map((each, channel) => Math.round(each + part * (ANCHORS[low + 1][channel] - each)));
}

/** The value of a custom property, as the theme has it now. */
export function token(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** "#rrggbb" as bytes. */
export const bytes = (word) => [1, 3, 5].map((at) => parseInt(word.slice(at, at + 2), 16));

/** Layers over the page's surface, as one canvas. */
export function composed(side, ...layers) {
  const whole = Object.assign(document.createElement("canvas"), { width: side, height: side });
  const pen = whole.getContext("2d");
  pen.fillStyle = token("--surface");
  pen.fillRect(0, 0, side, side);
  for (const layer of layers) pen.drawImage(layer, 0, 0);
  return whole;
}

/** A frame around a box (x, y, width, height) that is seen on light and on dark. */
export function frame(pen, box, color, width) {
  pen.strokeStyle = "rgb(0 0 0 / 0.75)";
  pen.lineWidth = width + 2.5;
  pen.strokeRect(...box);
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.strokeRect(...box);
}
