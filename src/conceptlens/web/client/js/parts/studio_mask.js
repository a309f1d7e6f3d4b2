/** Hide chosen tokens of an image, or all with their ids, and see what is left of it and of its probability. */
import { announce } from "../announce.js";
import { shares } from "../charts/shares.js";
import { choice, h, put, segment, whenQuiet } from "../dom.js";
import { latest, studio } from "../studio.js";
import { percent, plural, signed } from "../words.js";
import { failure } from "./frame.js";

const FILLS = [
  ["code", "the mean code"],
  ["black", "black pixels"],
  ["mean", "the mean color"],
  ["blur", "a blur"],
];

/**
 * @param {{run: string, names: string[], state: Record<string, string>, reading: () => any, concept: () => number,
 *   top: (n: number) => number[], onchosen: (cells: number[]) => void, onchange: (changes: Record<string, any>) => void}} options
 */
export function maskPanel({ run, names, state, reading, concept, top, onchosen, onchange }) {
  /** @type {any[]} */
  let cells = [];
  /** @type {any} */
  let answer = null;
  let hide = state.hide === "ids" ? "ids" : "positions";
  let fill = FILLS.some(([key]) => key === state.fill) ? state.fill : "code";
  const line = h("p", { class: "note", role: "status" });
  const result = h("div", {});
  const ask = latest(
    (body) => studio.mask(run, body),
    (found) => {
      answer = found;
      draw();
    },
    (error) => put(result, failure(error)),
  );
  const later = whenQuiet(() => {
    if (cells.length && node.isConnected) ask({ tokens: reading().tokens, cells, hide, fill });
  }, 150);

  function change() {
    line.textContent = cells.length
      ? `${plural(cells.length, "token")} chosen.`
      : "No token is chosen. Choose some on the image, or take the most important ones.";
    if (!cells.length) {
      answer = null;
      put(result);
    }
    onchange({ cells: cells.join(","), hide: hide === "ids" ? "ids" : "", fill: fill === "code" ? "" : fill });
    later();
  }

  function draw() {
    const of = concept();
    const before = answer.before[of];
    const after = answer.after[of];
    put(
      result,
      h(
        "div",
        { class: answer.picture ? "masked" : null },
        answer.picture
          ? h("img", {
              src: answer.picture,
              alt: `The image with ${plural(answer.hidden.length, "token")} hidden`,
              class: "pixels",
            })
          : null,
        h(
          "div",
          {},
          h(
            "p",
            { id: "masked-words" },
            `${plural(answer.hidden.length, "place")} hidden: `,
            h("b", {}, `${names[of]} ${percent(before)} → ${percent(after)}`),
            ` (${signed(100 * (after - before), 1)} points).`,
          ),
          shares(
            names.map((name, place) => ({
              name,
              probability: answer.after[place],
              was: answer.before[place],
              said: place === of,
            })),
          ),
        ),
      ),
      h("p", { class: "note" }, answer.note),
    );
    announce(`${names[of]} ${percent(before)} before, ${percent(after)} with ${answer.hidden.length} places hidden`);
  }

  const pickTop = (/** @type {number} */ n) => {
    onchosen(top(n));
  };
  const node = h(
    "div",
    { class: "mask-panel" },
    h(
      "div",
      { class: "row" },
      segment(
        "What is hidden",
        [
          ["positions", "These places"],
          ["ids", "All with these ids"],
        ],
        hide,
        (key) => {
          hide = key;
          change();
        },
      ),
      choice("Filled with", FILLS, fill, (key) => {
        fill = key;
        change();
      }),
    ),
    h(
      "div",
      { class: "row" },
      [5, 10, 20].map((n) =>
        h(
          "button",
          { type: "button", "aria-label": `The ${n} most important`, onclick: () => pickTop(n) },
          n === 5 ? "5 most important" : `${n}`,
        ),
      ),
      h("button", { type: "button", class: "quiet", onclick: () => onchosen([]) }, "Clear"),
    ),
    line,
    result,
  );
  return Object.assign(node, {
    setCells(/** @type {any} */ next) {
      cells = [...next].sort((a, b) => a - b);
      change();
    },
    refresh: change,
    redraw: () => answer && draw(),
    data: () => (answer ? { cells, hide, fill, ...answer, picture: undefined } : null),
  });
}
