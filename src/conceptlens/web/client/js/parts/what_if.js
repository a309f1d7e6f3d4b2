/** One image with its edits: the concepts to set, and the class that follows. */
import { here, note } from "../address.js";
import { announce } from "../announce.js";
import { api, shared } from "../api.js";
import { shares } from "../charts/shares.js";
import { eachFrame, h, put, whenQuiet } from "../dom.js";
import { Edits } from "../edits.js";
import { decomposeLogit, apply, logits, probabilities, said } from "../head.js";
import { plain } from "../plain.js";
import { known, percent } from "../words.js";
import { advice } from "./advice.js";
import { corrections } from "./corrections.js";
import { dials } from "./dials.js";
import { card, copyButton } from "./frame.js";
import { picture } from "./picture.js";

/** @returns what the view keeps of it: `undo`, `stop`, `data` to save, and the picture */
export function whatIf(/** @type {{body: any, run: string, image: any, prediction: Answers.Prediction, whole: any, head: any, edits: string[], folder: any}} */ { body, run, image, prediction, whole, head, edits: list, folder }) {
  const { state } = prediction;
  const groups = whole.groups;
  const before = prediction.classes;
  /** @type {any} */
  let now = null; // {classes, said, bottleneck}
  let confirming = new AbortController();
  const edits = new Edits(groups, list, () => {
    tips.close();
    draw();
  });
  const verdict = h("p", { class: "verdict", "aria-live": "polite", id: "verdict" });
  const bars = h("div", { id: "shares" });
  const check = h("span", { class: "tag", id: "confirmed" });
  const chips = h("ul", { class: "chips", "aria-label": "Edits" });
  const controls = dials({ prediction, groups, head, edits });
  const tips = advice({ run, state, edits });
  const saver = corrections({ run, image, groups, edits, recipe: `${folder}/recipe.yaml`, concepts: prediction.concepts });
  const undo = h("button", { type: "button", onclick: () => edits.undo() }, "Undo");
  const reset = h("button", { type: "button", onclick: () => edits.set([]) }, "Reset");
  const truth = h(
    "button",
    {
      type: "button",
      disabled: !prediction.truth_edits?.length,
      title: prediction.truth_edits?.length
        ? "Set every concept to its label"
        : "The concepts of this image have no labels",
      onclick: () => edits.add(...prediction.truth_edits),
    },
    "Use the labels",
  );
  const open = here().params.sliders === "1";
  const sliders = h(
    "button",
    {
      type: "button",
      "aria-pressed": String(open),
      onclick: () => {
        const on = sliders.getAttribute("aria-pressed") !== "true";
        sliders.setAttribute("aria-pressed", String(on));
        note({ sliders: on ? "1" : "" });
        controls.open(on);
      },
    },
    "All sliders",
  );
  controls.open(open);
  const view = picture({
    source: prediction.picture.replace(/^\/(?=api)/, ""),
    alt: `Image ${prediction.image.id}`,
    grid: null,
  });

  function evaluate() {
    const bottleneck = apply(head, groups, state, edits.list);
    const found = logits(head, bottleneck, state.rest);
    const parts = probabilities(head, found);
    return {
      bottleneck,
      said: said(head, parts),
      classes: head.classes.map((/** @type {string} */ name, /** @type {number} */ place) => ({ name, logit: found[place], probability: parts[place] })),
    };
  }

  /** The second likeliest class, against which the image's account sets the first; none of a multi-label task. */
  function rival() {
    if (head.task === "multilabel") return null;
    const others = now.classes.filter((/** @type {any} */ each) => each.name !== now.said[0]);
    return others.length ? others.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.probability > a.probability ? b : a)).name : null;
  }

  function paint() {
    const was = new Map(before.map((each) => [each.name, each.probability]));
    put(
      bars,
      shares(
        now.classes.map((/** @type {any} */ each) => ({
          ...each,
          was: edits.list.length ? was.get(each.name) : undefined,
          said: now.said.includes(each.name),
        })),
        8,
      ),
    );
    const old = prediction.predicted.join(", ") || "none";
    const next = now.said.join(", ") || "none";
    const share = now.classes.find((/** @type {any} */ each) => each.name === now.said[0])?.probability;
    put(
      verdict,
      old === next ? h("strong", {}, next) : [h("s", {}, old), " → ", h("strong", {}, next)],
      known(share) ? h("span", { class: "note" }, ` ${percent(share)}`) : null,
      prediction.truth
        ? h(
            "span",
            { class: `tag ${next === prediction.truth.join(", ") ? "good" : "bad"}` },
            next === prediction.truth.join(", ")
              ? "✓ as labeled"
              : `✕ labeled ${prediction.truth.join(", ")}`,
          )
        : null,
    );
    controls.update(
      now.bottleneck,
      head.linear && now.said[0]
        ? decomposeLogit(head, now.said[0], rival(), now.bottleneck, state.rest).values
        : null,
    );
    put(
      chips,
      edits.list.map((each) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", class: "chip", "aria-label": `Remove ${each}`, onclick: () => edits.remove(each) },
            each.replace(/=score /, " = ").replace(/=(?! )/, " = "),
            h("span", { "aria-hidden": "true" }, " ✕"),
          ),
        ),
      ),
    );
    undo.disabled = edits.past.length === 0;
    reset.disabled = edits.list.length === 0;
    saver.update();
  }

  const draw = eachFrame(() => {
    if (head.linear) {
      now = evaluate();
      paint();
      check.textContent = "computed on this page";
      check.className = "tag";
    }
    confirm();
  });

  const announceNow = () => {
    if (edits.list.length)
      announce(
        `${now.said.join(", ")}, ${percent(now.classes.find((/** @type {any} */ each) => each.name === now.said[0])?.probability)}`,
      );
  };

  const confirm = whenQuiet(async () => {
    if (shared) {
      announceNow(); // there is no server to ask
      return;
    }
    confirming.abort();
    confirming = new AbortController();
    const sent = edits.list;
    try {
      const answer = await api.intervene(run, { state, edits: sent }, confirming.signal);
      if (sent !== edits.list) return;
      const gap = head.linear
        ? Math.max(...answer.after.classes.map((each, place) => Math.abs(each.logit - now.classes[place].logit)))
        : 0;
      now = { bottleneck: answer.bottleneck, said: answer.after.said, classes: answer.after.classes };
      check.textContent =
        gap > 1e-3
          ? `the server's result differs by ${gap.toFixed(3)}; the server's result is shown`
          : "✓ confirmed by the server";
      check.className = `tag ${gap > 1e-3 ? "warn" : "good"}`;
      paint();
      announceNow();
    } catch (error) {
      if (/** @type {any} */ (error).name === "AbortError") return;
      check.textContent = /** @type {any} */ (error).message;
      check.className = "tag warn";
    }
  }, 180);

  put(
    body,
    h(
      "div",
      { class: "stack side" },
      card(
        "Prediction now",
        { tools: check },
        h("div", { class: "now" }, view, h("div", { class: "stack tight" }, verdict, bars)),
        head.bypass
          ? h("p", { class: "note" }, `The class also depends on ${head.bypass}. Edits do not change that.`)
          : null,
      ),
      card(
        "Suggestions",
        { note: "Which concept a person should check next, and the smallest change that gives another class." },
        h(
          "div",
          { class: "row" },
          truth,
          h("button", { type: "button", onclick: tips.ask }, "Suggest a concept to check"),
          h(
            "button",
            { type: "button", disabled: head.task === "multilabel", onclick: tips.flip },
            "Smallest change of the class",
          ),
        ),
        tips.node,
      ),
      card(
        "Edits",
        { tools: [undo, reset, copyButton(() => location.href, "Copy link with these edits", "Copy link")] },
        chips,
        saver,
      ),
    ),
    card(
      "Concepts",
      {
        tools: sliders,
        note: `The number is ${plain() ? "how many points the group gives the predicted class, ahead of the second most likely class (7 points double the odds)" : "what the group adds to the logit of the predicted class, minus what it adds to the second most likely class"}. Choose a value, or open the sliders.`,
      },
      controls,
    ),
  );
  if (head.linear) {
    now = evaluate();
    paint();
    if (shared) check.textContent = "computed on this page";
  }
  confirm();
  return {
    view,
    undo: () => edits.undo(),
    stop: () => confirming.abort(),
    data: () => ({
      run,
      image: prediction.image,
      edits: edits.list,
      before: { said: prediction.predicted, classes: before, bottleneck: state.bottleneck },
      after: now,
    }),
  };
}
