/** The tokens that make each concept: how often each is among the most important, and where it is in this image. */
import { choice, h, put, rove } from "../dom.js";
import { count, plural } from "../words.js";
import { tokenWords } from "./token_facts.js";
import { codeColor } from "./token_grid.js";

const SHOWN = 40;

/**
 * @param {{found: any, names: Record<number, string>, concept: string, onconcept: (name: string) => void, onlink: (token: number | null) => void}} options
 * `found` is tokens.json
 */
export function tokenSets({ found, names, concept, onconcept, onlink }) {
  const sets = found.sets;
  const list = h("ol", { class: "token-set" });
  const words = h("p", { class: "note" });

  /** @param {string} name */
  function draw(name) {
    const place = Math.max(
      0,
      sets.findIndex((/** @type {any} */ each) => each.concept === name),
    );
    const set = sets[place];
    const frequent = new Set(found.frequent?.[place]?.tokens ?? []);
    const others = new Map();
    for (const each of sets)
      if (each !== set) for (const token of each.tokens) others.set(token, (others.get(token) ?? 0) + 1);
    const own = set.tokens.filter((/** @type {number} */ token) => !others.has(token)).length;
    const common = set.tokens.filter((/** @type {number} */ token) => frequent.has(token)).length;
    words.textContent =
      `${plural(set.tokens.length, "token")}, each counted when it is among the ${set.n} most important tokens of ` +
      `${plural(set.images, "image")}. In no other concept's set: ${own}. Also among the most frequent tokens, ` +
      `important or not (marked ○): ${common}.`;
    const most = Math.max(...set.counts, 1);
    list.setAttribute("aria-label", `Tokens of ${set.concept}`);
    list.classList.toggle("named", set.tokens.slice(0, SHOWN).some((/** @type {number} */ token) => names[token]));
    put(
      list,
      set.tokens.slice(0, SHOWN).map((/** @type {number} */ token, /** @type {number} */ at) => {
        const on = () => onlink(token);
        const off = () => onlink(null);
        return h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "set-token",
              tabindex: at ? "-1" : "0",
              "aria-label": `Token ${tokenWords(token, names)}, ${set.counts[at]} times${frequent.has(token) ? ", also frequent" : ""}${others.has(token) ? `, in ${plural(others.get(token), "other set")}` : ", in this set only"}`,
              onpointerenter: on,
              onpointerleave: off,
              onfocus: on,
              onblur: off,
            },
            h("span", { class: "dot", style: { background: codeColor(token) } }),
            h("span", { class: "id" }, `${tokenWords(token, names)}${frequent.has(token) ? " ○" : ""}`),
            h(
              "span",
              { class: "track" },
              h("span", { class: "bar-fill", style: { width: `${(100 * set.counts[at]) / most}%` } }),
            ),
            h("span", { class: "num" }, count(set.counts[at])),
          ),
        );
      }),
      set.tokens.length > SHOWN
        ? h("li", { class: "note" }, `and ${set.tokens.length - SHOWN} more, in the JSON`)
        : null,
    );
  }
  rove(list, ".set-token", "grid");
  const chooser = choice(
    "Concept",
    sets.map((/** @type {any} */ each) => [each.concept, each.concept]),
    concept,
    (name) => {
      onconcept(name);
      draw(name);
    },
  );
  draw(concept);
  return h("div", { class: "token-sets" }, chooser, words, list);
}
