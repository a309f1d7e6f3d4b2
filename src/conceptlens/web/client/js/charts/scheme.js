/**
 * A method as a picture: patches → slots → concepts → class, drawn from a few words. What is the method's own is marked.
 * It runs from left to right, and on a phone from top to bottom.
 */
import { s } from "../dom.js";

const GLYPH = 62; // side of a picture
/** @type {Record<string, string>} */
const ABOUT = { patches: "patches", image: "image vector", layers: "layers" };

/** @param {any} of as the server has it (docs/api.md) @param {{label: string}} options */
export function scheme(of, { label }) {
  const upright = window.innerWidth < 620;
  const stops = [
    { key: "reads", draw: TOKENS[of.reads], words: [ABOUT[of.reads], `encoder ${of.encoder}`], also: "encoder" },
    of.slots ? { key: "slots", draw: slots, words: [of.slots], by: of.gather, step: "gather" } : null,
    of.concepts ? { key: "concepts", draw: bars, words: [of.concepts], by: of.score, step: "score" } : null,
    { key: "class", draw: classes, words: ["class"], by: of.decide, step: "decide" },
  ].filter(Boolean);
  const at = upright ? down(stops.length) : across(stops.length, Boolean(of.bypass));
  const own = (/** @type {string | undefined} */ key) => (of.own.includes(key) ? "own" : "");
  const svg = s("svg", {
    class: "scheme",
    viewBox: `0 0 ${at.width} ${at.height}`,
    role: "img",
    "aria-label": `${label}. ${told(of, stops)}`,
  });
  const pen = (/** @type {any[]} */ ...nodes) => svg.append(...nodes.filter(Boolean));
  pen(marker());
  if (of.bypass) pen(...at.bypass(stops.length, of.bypass, own("bypass")));
  stops.forEach((/** @type {any} */ stop, /** @type {number} */ place) => {
    const [x, y] = at.center(place);
    if (place) {
      const { path, words, anchor } = at.arrow(place);
      pen(s("path", { class: `flow ${own(stop.step)}`, d: path, "marker-end": "url(#scheme-tip)" }));
      pen(...lines(stop.by, /** @type {[any, any]} */ (words), { anchor, room: at.room, up: !upright, look: own(stop.step) }));
      if (stop.step === "score" && of.text) pen(...at.texts(place, own("text")));
    }
    pen(s("g", { transform: `translate(${x - GLYPH / 2},${y - GLYPH / 2})`, class: own(stop.key) }, stop.draw()));
    const [left, top, anchor] = /** @type {[number, number, string]} */ (at.caption(place));
    stop.words.forEach((/** @type {string} */ word, /** @type {number} */ row) =>
      pen(
        s(
          "text",
          {
            x: left,
            y: top + 16 * row,
            "text-anchor": anchor,
            class: own(row ? stop.also : stop.key) || (row ? "less" : ""),
          },
          word,
        ),
      ),
    );
  });
  if (of.beside) pen(...at.beside(of.beside, own("beside")));
  return svg;
}

/** The same in words, for those who do not see it. @param {any} of @param {any[]} stops */
function told(of, stops) {
  const way = stops.map((stop) => (stop.by ? `${stop.by}, ${stop.words[0]}` : stop.words.join(", "))).join("; ");
  const more = [
    of.text && "texts of the concepts are read",
    of.beside && `beside it in training: ${of.beside}`,
    of.bypass && `past the concepts: ${of.bypass}`,
  ].filter(Boolean);
  return `From left to right: ${[way, ...more].join(". ")}.`;
}

/** From left to right. @param {number} count @param {boolean} bypassed */
function across(count, bypassed) {
  const [width, middle] = [760, 128];
  const gap = (width - 150) / (count - 1);
  const center = (/** @type {number} */ place) => [72 + gap * place, middle];
  return {
    width,
    height: bypassed ? 244 : 204,
    room: Math.floor((gap - GLYPH - 18) / 6.6),
    center,
    caption: (/** @type {number} */ place) => [center(place)[0], middle + GLYPH / 2 + 20, "middle"],
    arrow(/** @type {number} */ place) {
      const [from, to] = [center(place - 1)[0] + GLYPH / 2 + 8, center(place)[0] - GLYPH / 2 - 10];
      return { path: `M${from} ${middle}H${to}`, words: [(from + to) / 2, middle - 10], anchor: "middle" };
    },
    texts(/** @type {number} */ place, /** @type {number} */ look) {
      const x = (center(place - 1)[0] + center(place)[0]) / 2;
      return [
        page(x - 17, 14, look),
        s("text", { x: x + 24, y: 34, class: look || "less" }, "texts"),
        s("path", { class: `flow thin ${look}`, d: `M${x} 56V${middle - 42}`, "marker-end": "url(#scheme-tip)" }),
      ];
    },
    beside(/** @type {string} */ words, /** @type {any} */ look) {
      const x = center(0)[0];
      return [
        ...lines(words, [x, 38], { anchor: "middle", room: 17, up: true, look: look || "less" }),
        s("path", { class: `training ${look}`, d: `M${x} 48V${middle - GLYPH / 2 - 8}` }),
        s("text", { x: x + 8, y: 72, class: "less small" }, "in training"),
      ];
    },
    bypass(/** @type {number} */ stops, /** @type {string} */ words, /** @type {any} */ look) {
      const [from, to, low] = [center(0)[0], center(stops - 1)[0], 214];
      const top = middle + GLYPH / 2 + 44;
      return [
        s("path", {
          class: `bypass ${look}`,
          d: `M${from} ${top}V${low - 12}Q${from} ${low} ${from + 12} ${low}H${to - 12}Q${to} ${low} ${to} ${low - 12}V${middle + GLYPH / 2 + 30}`,
          "marker-end": "url(#scheme-tip)",
        }),
        s("text", { x: (from + to) / 2, y: low + 18, "text-anchor": "middle", class: look }, `bypass: ${words}`),
      ];
    },
  };
}

/** From top to bottom. @param {number} count */
function down(count) {
  const [width, x, step] = [340, 70, 138];
  const center = (/** @type {number} */ place) => [x, 46 + step * place];
  const right = x + GLYPH / 2 + 14;
  return {
    width,
    height: 46 + step * (count - 1) + 52,
    room: 24,
    center,
    caption: (/** @type {number} */ place) => [right, center(place)[1] + 2, "start"],
    arrow(/** @type {number} */ place) {
      const [from, to] = [center(place - 1)[1] + GLYPH / 2 + 8, center(place)[1] - GLYPH / 2 - 10];
      return { path: `M${x} ${from}V${to}`, words: [x + 12, (from + to) / 2 + 2], anchor: "start" };
    },
    texts(/** @type {number} */ place, /** @type {any} */ look) {
      const y = (center(place - 1)[1] + center(place)[1]) / 2;
      return [
        page(286, y - 22, look),
        s("text", { x: 303, y: y + 36, "text-anchor": "middle", class: look || "less" }, "texts"),
        s("path", { class: `flow thin ${look}`, d: `M280 ${y}H252`, "marker-end": "url(#scheme-tip)" }),
      ];
    },
    beside(/** @type {string} */ words, /** @type {string} */ look) {
      const y = center(0)[1];
      return [
        ...lines(words, [right + 106, y - 6], { anchor: "start", room: 14, up: false, look: look || "less" }),
        s("text", { x: right + 106, y: y - 24, class: "less small" }, "in training"),
      ];
    },
    bypass(/** @type {number} */ stops, /** @type {string} */ words, /** @type {string} */ look) {
      const [top, low, left] = [center(0)[1], center(stops - 1)[1], 22];
      return [
        s("path", {
          class: `bypass ${look}`,
          d: `M${x - GLYPH / 2 - 6} ${top}H${left + 8}Q${left} ${top} ${left} ${top + 8}V${low - 8}Q${left} ${low} ${left + 8} ${low}H${x - GLYPH / 2 - 4}`,
          "marker-end": "url(#scheme-tip)",
        }),
        s(
          "text",
          {
            x: 0,
            y: 0,
            "text-anchor": "middle",
            class: look,
            transform: `translate(14,${(top + low) / 2}) rotate(-90)`,
          },
          `bypass: ${words}`,
        ),
      ];
    },
  };
}

/** Words broken into lines; `up`: the last of them stands at the place. @param {string} words */
function lines(words, /** @type {[any, any]} */ [x, y], /** @type {{anchor: any, room: any, up: any, look: any}} */ { anchor, room, up, look }) {
  const rows = [""];
  for (const word of (words ?? "").split(" ")) {
    if (rows.length && rows[rows.length - 1].length + word.length >= room) rows.push("");
    rows[rows.length - 1] = `${rows.at(-1)} ${word}`.trim();
  }
  const first = up ? y - 15 * (rows.length - 1) : y;
  return rows.map((row, place) => s("text", { x, y: first + 15 * place, "text-anchor": anchor, class: look }, row));
}

const marker = () =>
  s(
    "defs",
    {},
    s(
      "marker",
      {
        id: "scheme-tip",
        viewBox: "0 0 8 8",
        refX: 6,
        refY: 4,
        markerWidth: 9,
        markerHeight: 9,
        markerUnits: "userSpaceOnUse",
        orient: "auto-start-reverse",
      },
      s("path", { class: "tip-fill", d: "M0 0 8 4 0 8Z" }),
    ),
  );

/** @param {number} x @param {number} y @param {number} side @param {string} look */
const square = (x, y, side, look) => s("rect", { x, y, width: side, height: side, rx: 2, class: look });

function patches() {
  /** @type {Record<string, string>} */
  const marked = { 5: "c0", 6: "c0", 9: "c1", 10: "c0", 3: "c2", 14: "c1" };
  return Array.from({ length: 16 }, (_, place) =>
    square(16 * (place % 4), 16 * Math.floor(place / 4), 13, marked[place] ?? "cell"),
  );
}

const vector = () => [
  s("rect", { x: 1, y: 1, width: 60, height: 60, rx: 5, class: "frame" }),
  ...["c0", "cell", "c1", "cell", "c2"].map((look, place) =>
    s("rect", { x: 24, y: 6 + 10.4 * place, width: 14, height: 8.4, rx: 1.5, class: look }),
  ),
];

const layers = () =>
  [0, 1, 2].flatMap((place) => [
    s("rect", { x: 20 - 10 * place, y: 10 * place, width: 42, height: 42, rx: 4, class: "frame" }),
    square(27 - 10 * place, 7 + 10 * place, 9, `c${place}`),
    square(39 - 10 * place, 7 + 10 * place, 9, "cell"),
  ]);

/** @type {Record<string, any>} */
const TOKENS = { patches, image: vector, layers };

const slots = () => [0, 1, 2].map((place) => s("circle", { cx: 31, cy: 10 + 21 * place, r: 8.5, class: `c${place}` }));

const bars = () =>
  [46, 20, 58, 12, 34].map((width, place) =>
    s("rect", { x: 2, y: 3 + 12.4 * place, width, height: 8, rx: 2, class: place < 3 ? `c${place}` : "cell" }),
  );

const classes = () =>
  [44, 30, 36].flatMap((width, place) => [
    s("circle", { cx: 9, cy: 11 + 20 * place, r: 6.5, class: place ? "frame" : "chosen" }),
    s("rect", { x: 21, y: 8 + 20 * place, width: width - 8, height: 6, rx: 2, class: place ? "cell" : "chosen" }),
  ]);

/** @param {number} x @param {number} y @param {number} look */
const page = (x, y, look) =>
  s(
    "g",
    { transform: `translate(${x},${y})`, class: look },
    s("rect", { x: 0, y: 0, width: 34, height: 40, rx: 3, class: "frame" }),
    ...[8, 15, 22, 29].map((row, place) =>
      s("rect", { x: 6, y: row, width: [22, 18, 22, 12][place], height: 3, rx: 1, class: "cell" }),
    ),
  );
