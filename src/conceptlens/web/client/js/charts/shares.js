/** Probabilities of the classes, largest first; a mark where each stood before. */
import { h } from "../dom.js";
import { percent } from "../words.js";

/**
 * @param {Array<{name: string, probability: number, was?: number, said?: boolean}>} classes
 * @param {number} most
 */
export function shares(classes, most = 6) {
  const list = h("ul", { class: "shares", "aria-label": "Probability of each class" });
  const order = [...classes].sort((a, b) => b.probability - a.probability);
  order.slice(0, most).forEach((each, place) => {
    list.append(
      h(
        "li",
        { class: (each.said ?? place === 0) ? "said" : null },
        h("span", { class: "name", title: each.name }, each.name),
        h(
          "span",
          { class: "track" },
          h("span", { class: "bar-fill", style: { width: `${100 * each.probability}%` } }),
          each.was === undefined
            ? null
            : h("span", {
                class: "was",
                title: `before: ${percent(each.was)}`,
                style: { left: `calc(${100 * each.was}% - 1px)` },
              }),
        ),
        h("span", { class: "num" }, percent(each.probability)),
      ),
    );
  });
  return list;
}
