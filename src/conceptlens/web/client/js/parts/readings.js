/** What the model reads of each group, beside what a person said. */
import { h } from "../dom.js";
import { percent } from "../words.js";

/**
 * @param {any} prediction
 * @param {any[]} groups
 * @param {{onpick: (k: number) => void, onhover: (k: number | null) => void}} options
 */
export function readings(prediction, groups, { onpick, onhover }) {
  const body = h("tbody", {});
  for (const group of groups) {
    const concepts = group.values.map((/** @type {any} */ _, /** @type {number} */ place) => prediction.concepts[group.start + place]);
    if (!concepts[0].applies) {
      const label = concepts.find((/** @type {any} */ each) => each.label === true);
      body.append(
        h(
          "tr",
          {},
          h("th", { scope: "row" }, group.name),
          h("td", { class: "note" }, "does not apply"),
          h("td", { class: "note" }, label ? label.value : "–"),
        ),
      );
      continue;
    }
    if (group.kind === "exclusive") {
      const top = concepts.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.probability > a.probability ? b : a));
      const label = concepts.find((/** @type {any} */ each) => each.label === true);
      body.append(row(group.name, top, top.value, label ? label.value : null, label ? label === top : null));
    } else {
      for (const each of concepts) {
        if (concepts.length > 8 && each.probability < 0.5 && each.label !== true) continue;
        body.append(
          row(
            each.name,
            each,
            each.probability >= 0.5 ? "yes" : "no",
            each.label === null ? null : each.label ? "yes" : "no",
            each.label === null ? null : each.label === each.probability >= 0.5,
          ),
        );
      }
    }
  }
  /** @param {string} name @param {any} concept @param {string} said @param {string | null} truth @param {boolean | null} right */
  function row(name, concept, said, truth, right) {
    return h(
      "tr",
      {
        "data-concept": concept.index,
        onpointerenter: () => onhover(concept.index),
        onpointerleave: () => onhover(null),
      },
      h(
        "th",
        { scope: "row" },
        h(
          "button",
          {
            type: "button",
            class: "plain",
            title: concept.text,
            onclick: () => onpick(concept.index),
            onfocus: () => onhover(concept.index),
            onblur: () => onhover(null),
          },
          name,
        ),
      ),
      h(
        "td",
        {},
        said,
        " ",
        h(
          "span",
          { class: "note" },
          percent(said === "no" && concept.value !== "no" ? 1 - concept.probability : concept.probability, 0),
        ),
      ),
      h(
        "td",
        {},
        truth === null
          ? h("span", { class: "note" }, "–")
          : right
            ? h("span", { class: "good" }, "✓", h("span", { class: "hidden" }, truth))
            : h("span", { class: "bad" }, `✕ ${truth}`),
      ),
    );
  }
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "readings" },
      h("thead", {}, h("tr", {}, h("th", {}, "Concept"), h("th", {}, "Model"), h("th", {}, "Label"))),
      body,
    ),
  );
}
