/** One token of an image: its number, how important it is, which codes are nearest, and whose set it is in. */
import { h } from "../dom.js";
import { percent, plural } from "../words.js";
import { annotateForm } from "./annotate.js";
import { codeColor } from "./token_grid.js";

const SHOWN = 8; // concepts

/** How often each concept's set holds each token. @returns {Map<number, Array<{concept: string, count: number, images: number}>>} @param {any} sets */
export function membership(sets) {
  const found = new Map();
  for (const each of sets ?? [])
    each.tokens.forEach((/** @type {number} */ token, /** @type {number} */ place) => {
      if (!found.has(token)) found.set(token, []);
      found.get(token).push({ concept: each.concept, count: each.counts[place], images: each.images, n: each.n });
    });
  return found;
}

/** A token by its number, and by its name where somebody gave it one. @param {number} token @param {Record<number, string>} names */
export const tokenWords = (token, names) => (names[token] ? `${token} “${names[token]}”` : `${token}`);

/**
 * @param {{reading: any, cell: number, columns: number, heat: any, concept: string, member: Map<number, any[]>, names: Record<number, string>, ontoken: (token: number) => void}} options
 */
export function tokenFacts({ reading, cell, columns, heat, concept, member, names, ontoken }) {
  const tokens = reading.tokens.flat();
  const token = tokens[cell];
  const same = tokens.filter((/** @type {any} */ each) => each === token).length;
  const near = reading.near[token] ?? [];
  const held = [...(member.get(token) ?? [])].sort((a, b) => b.count / b.images - a.count / a.images);
  const most = Math.max(...held.map((each) => each.count / each.images), 0);
  const dot = (/** @type {number} */ code) => h("span", { class: "dot", style: { background: codeColor(code) } });
  return h(
    "div",
    { class: "token-facts" },
    h("p", { class: "token-name" }, dot(token), h("b", {}, `Token ${tokenWords(token, names)}`), " ", where(cell, columns)),
    annotateForm({ kind: "token", of: String(token) }),
    h(
      "dl",
      { class: "facts" },
      h("dt", {}, "In this image"),
      h("dd", {}, plural(same, "place")),
      h("dt", {}, "Importance"),
      h("dd", {}, heat ? rankWords(heat.levels, cell, concept) : "not known for this concept"),
      h("dt", {}, "Nearest codes"),
      h(
        "dd",
        {},
        near.length
          ? near.map((/** @type {any} */ each) =>
              h(
                "button",
                {
                  type: "button",
                  class: "chip small",
                  title: `distance ${each.distance}`,
                  "aria-label": `Show token ${tokenWords(each.code, names)}, at a distance of ${each.distance}`,
                  onclick: () => ontoken(each.code),
                },
                dot(each.code),
                tokenWords(each.code, names),
              ),
            )
          : "not written",
      ),
    ),
    h("h3", {}, "How often per image it is in a concept's set"),
    held.length
      ? h(
          "ul",
          { class: "shares", "aria-label": `Sets that hold token ${token}` },
          held.slice(0, SHOWN).map((each) =>
            h(
              "li",
              { title: `among the ${each.n} most important tokens ${each.count} times in ${each.images} images` },
              h("span", { class: "name" }, each.concept),
              h(
                "span",
                { class: "track" },
                h("span", {
                  class: "bar-fill",
                  style: { width: `${(100 * each.count) / each.images / most}%` },
                }),
              ),
              h("span", { class: "num" }, `${(each.count / each.images).toFixed(2)}×`),
            ),
          ),
          held.length > SHOWN ? h("li", { class: "note" }, `and ${held.length - SHOWN} more`) : null,
        )
      : h("p", { class: "note" }, "In no set."),
  );
}

/** @param {number} cell @param {number} columns */
export const where = (cell, columns) =>
  h("span", { class: "note" }, `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`);

/** "63% of the most, 4th of 256 for Basophil". @param {any[]} levels @param {number} cell @param {string} concept */
export function rankWords(levels, cell, concept) {
  const size = Math.abs(levels[cell]);
  const above = levels.filter((each) => Math.abs(each) > size).length;
  return `${percent(size / 255, 0)} of the largest, rank ${above + 1} of ${levels.length} for ${concept}`;
}
