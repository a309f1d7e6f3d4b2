/** A folder of results as a card: of a model its scores, of others what they are. */
import { format } from "../address.js";
import { spark } from "../charts/spark.js";
import { h } from "../dom.js";
import { KINDS, viewsOf } from "../kinds.js";
import { moment, percent, plural, short } from "../words.js";
import { trustTag } from "./trust_strip.js";

const STATUS = {
  done: ["done", ""],
  running: ["training now", "live"],
  failed: ["failed", "bad"],
  broken: ["cannot be read", "bad"],
};

/** Where a folder's views are, by name. @param {Answers.RunCard} card @param {any[]} views */
function links(card, views) {
  return h(
    "nav",
    { class: "row links", "aria-label": `Views of ${card.name}` },
    viewsOf(views, card).map((view) => h("a", { href: format(view.name, { run: card.key }) }, view.title)),
  );
}

/** The name, which leads to the first view of the folder. @param {Answers.RunCard} card @param {any[]} views */
function title(card, views) {
  const first = viewsOf(views, card)[0];
  return h("h2", {}, first ? h("a", { href: format(first.name, { run: card.key }) }, card.name) : card.name);
}

/** A folder that is no trained model: its kind, what it is, when it was made; `inside`: how many trainings it holds. @param {Answers.RunCard} card @param {any[]} views @param {number} inside @param {() => void} show */
export function resultCard(card, views, inside, show) {
  const [word, look] = STATUS[card.status] ?? [card.status, ""];
  return h(
    "article",
    { class: "card run-card", "aria-label": `${KINDS[card.kind ?? "bottleneck"].one} ${card.name}` },
    h(
      "header",
      {},
      title(card, views),
      h("span", { class: "tag kind" }, KINDS[card.kind ?? "bottleneck"].one),
      card.status === "done"
        ? null
        : h("span", { class: `tag ${look}` }, card.status === "running" ? "not finished" : word),
    ),
    card.reason ? h("p", { class: "tag warn" }, card.reason) : null,
    card.about ? h("p", { class: "what" }, card.about) : null,
    h("p", { class: "note" }, [card.data, card.changed && moment(card.changed)].filter(Boolean).join(" · ")),
    h(
      "footer",
      {},
      h(
        "div",
        { class: "row spread" },
        links(card, views),
        inside
          ? h("button", { type: "button", class: "quiet", onclick: show }, `Show its ${plural(inside, "training")}`)
          : null,
      ),
    ),
  );
}

/** A trained model. @param {Answers.RunCard} card @param {any[]} views @param {boolean} picked @param {any} toggle */
export function runCard(card, views, picked, toggle) {
  const [word, kind] = STATUS[card.status] ?? [card.status, ""];
  return h(
    "article",
    { class: "card run-card", "aria-label": `Run ${card.name}` },
    h(
      "header",
      {},
      title(card, views),
      card.kind ? h("span", { class: "tag kind" }, KINDS[card.kind ?? "bottleneck"].one) : null,
      card.status === "broken"
        ? null
        : h(
            "label",
            { class: "row pick" },
            h("input", {
              type: "checkbox",
              value: card.key,
              checked: picked,
              onchange: (/** @type {any} */ event) => toggle(card.key, event.target.checked),
              "aria-label": `Compare ${card.name}`,
            }),
            "Compare",
          ),
      card.status === "done"
        ? null
        : h(
            "span",
            { class: `tag ${kind}` },
            card.status === "running" && card.epoch ? `${word}: epoch ${card.epoch} of ${card.epochs ?? "?"}` : word,
          ),
    ),
    card.reason ? h("p", { class: "tag warn" }, card.reason) : null,
    card.unverified && card.status !== "broken"
      ? h("span", { class: "tag", title: "This folder has no manifest: a changed file is not noticed." }, "Unverified")
      : null,
    trustTag(card),
    card.method
      ? h(
          "p",
          { class: "what" },
          h("span", { class: "strong" }, card.method),
          card.regularizer && card.regularizer !== "none" ? ` with ${card.regularizer}` : null,
          ` on ${card.data ?? "?"}`,
        )
      : null,
    card.method
      ? h(
          "p",
          { class: "note" },
          [
            card.images && plural(card.images, "image"),
            card.encoder,
            card.seed !== null && `seed ${card.seed}`,
            card.changed && moment(card.changed).replaceAll(" ", "\u00a0"),
          ]
            .filter(Boolean)
            .join(" · "),
        )
      : null,
    card.bypass ? h("p", { class: "note" }, `Bypass: ${card.bypass}`) : null,
    card.scores ? scores(card.scores) : null,
    card.rank && card.rank.values.length > 1
      ? h(
          "div",
          { class: "rank" },
          h("span", { class: "note" }, "Rank by epoch"),
          spark(card.rank.values, `${card.rank.name} rank by epoch`),
          h("span", { class: "num" }, short(card.rank.values.at(-1))),
        )
      : null,
    card.status === "broken" ? null : h("footer", {}, links(card, views)),
  );
}

/** @param {Record<string, any>} values */
function scores(values) {
  const shown = [
    ["class.balanced_accuracy", "class accuracy (balanced)", "class balanced accuracy"],
    ["concept.balanced_accuracy", "concept accuracy (balanced)", "concept balanced accuracy"],
    ["class.macro_auc", "class AUC", "class AUC"],
  ];
  return h(
    "dl",
    { class: "scores" },
    shown
      .filter(([key]) => values[key] !== undefined)
      .map(([key, name, full]) =>
        h("div", { title: `${full}, ${values.split}` }, h("dd", {}, percent(values[key])), h("dt", {}, name)),
      ),
  );
}
