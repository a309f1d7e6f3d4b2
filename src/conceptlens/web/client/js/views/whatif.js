/** View 3: set concepts by hand and see the class follow. A linear head is evaluated here; the server confirms it. */
import { format, here, note } from "../address.js";
import { announce } from "../announce.js";
import { api, shared } from "../api.js";
import { shares } from "../charts/shares.js";
import { eachFrame, h, put, whenQuiet } from "../dom.js";
import { saveCanvas, saveJSON } from "../download.js";
import { Edits, readEdits } from "../edits.js";
import { decomposeLogit, apply, logits, probabilities, said } from "../head.js";
import { advice } from "../parts/advice.js";
import { corrections } from "../parts/corrections.js";
import { dials } from "../parts/dials.js";
import { card, copyButton, failure, loading, missing, viewHead } from "../parts/frame.js";
import { gallery } from "../parts/gallery.js";
import { ahead, opener, predictionOf } from "../parts/opener.js";
import { picture } from "../parts/picture.js";
import { shortcut } from "../shortcuts.js";
import { image as lastImage, keepImage, upload } from "../visit.js";
import { known, percent } from "../words.js";

const ABOUT =
  "Set a concept to another value and see how the class changes. The class is predicted from the concepts, so that a wrong concept can be corrected.";

/** @param {HTMLElement} host @param {Record<string, string>} params */
export async function whatIfView(host, params, { card: runCard }) {
  const { run } = params;
  const first = params.image ?? lastImage(run);
  const asking = api.head(run);
  asking.catch(() => {}); // told below
  if (first) ahead(run, first, upload(run), { maps: false });
  const whole = await api.run(run);
  let head;
  try {
    head = await asking;
  } catch (error) {
    put(host, viewHead("What if", ABOUT), missing("What if is not possible here", error.message, error.command));
    return {};
  }
  let session = null;
  let asked = 0;
  const body = h("div", { class: "whatif" }, loading("Looking at the image…"));
  const files = opener(host, {
    run,
    onstart: () => put(body, loading("Reading the file…")),
    onfail: (error) => put(body, failure(error)),
    onopen: () => {
      strip.mark(null);
      show("upload", []);
    },
  });
  const strip = gallery({
    run,
    whole,
    params,
    picked: params.image ?? null,
    onpick: (image) => show(image, []),
    onchange: (changes) => note(changes),
  });
  const back = h("a", { class: "button" }, "Maps of this image");
  put(
    host,
    viewHead("What if", ABOUT, {
      actions: [files.button, back],
      downloads: [
        ["Before and after (JSON)", () => session && saveJSON(session.data(), `${run}-what-if`)],
        ["Image (PNG)", () => session && saveCanvas(session.view.compose(), `${run}-image`)],
      ],
    }),
    strip,
    body,
    files.veil,
  );

  async function show(image, edits) {
    const mine = (asked += 1);
    session?.stop();
    session = null;
    if (!image) {
      put(body, missing("No image", "Pick an image above, or open a file."));
      return;
    }
    keepImage(run, image);
    note({ image, edits: edits.join("\n") });
    back.href = format("image", { run, image });
    try {
      const prediction = await predictionOf(run, image, upload(run), { maps: false });
      if (mine === asked)
        session = start({ body, run, image, prediction, whole, head, edits, folder: runCard?.folder ?? run });
    } catch (error) {
      if (mine === asked) put(body, failure(error));
    }
  }

  shortcut("u", "undo", () => session?.undo());
  shortcut("j", "next image", () => strip.step(1));
  shortcut("k", "previous image", () => strip.step(-1));
  await Promise.all([strip.load(), first ? show(first, readEdits(params.edits)) : null]);
  if (!first) await show(strip.first(), readEdits(params.edits));
  strip.mark(params.image ?? lastImage(run) ?? strip.first());
  strip.look();
  return { stop: () => session?.stop() };
}

/** One image with its edits. */
function start({ body, run, image, prediction, whole, head, edits: list, folder }) {
  const { state } = prediction;
  const groups = whole.groups;
  const before = prediction.classes;
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
  const saver = corrections({ run, image, groups, edits, recipe: `${folder}/recipe.yaml` });
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
    "Correct by labels",
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
      classes: head.classes.map((name, place) => ({ name, logit: found[place], probability: parts[place] })),
    };
  }

  /** The second likeliest class, against which the image's account sets the first; none of a multi-label task. */
  function rival() {
    if (head.task === "multilabel") return null;
    const others = now.classes.filter((each) => each.name !== now.said[0]);
    return others.length ? others.reduce((a, b) => (b.probability > a.probability ? b : a)).name : null;
  }

  function paint() {
    const was = new Map(before.map((each) => [each.name, each.probability]));
    put(
      bars,
      shares(
        now.classes.map((each) => ({
          ...each,
          was: edits.list.length ? was.get(each.name) : undefined,
          said: now.said.includes(each.name),
        })),
        8,
      ),
    );
    const old = prediction.predicted.join(", ") || "none";
    const next = now.said.join(", ") || "none";
    const share = now.classes.find((each) => each.name === now.said[0])?.probability;
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
      check.textContent = "computed in this page";
      check.className = "tag";
    }
    confirm();
  });

  const announceNow = () => {
    if (edits.list.length)
      announce(
        `${now.said.join(", ")}, ${percent(now.classes.find((each) => each.name === now.said[0])?.probability)}`,
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
          ? `the server's answer differs by ${gap.toFixed(3)}; its answer is shown`
          : "✓ confirmed by the server";
      check.className = `tag ${gap > 1e-3 ? "warn" : "good"}`;
      paint();
      announceNow();
    } catch (error) {
      if (error.name === "AbortError") return;
      check.textContent = error.message;
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
          ? h("p", { class: "note" }, `The class is also reached by ${head.bypass}, which no edit touches.`)
          : null,
      ),
      card(
        "Help me",
        { note: "Which concept to check next, and the smallest change that would change the class." },
        h(
          "div",
          { class: "row" },
          truth,
          h("button", { type: "button", onclick: tips.ask }, "Ask me next"),
          h(
            "button",
            { type: "button", disabled: head.task === "multilabel", onclick: tips.flip },
            "Smallest change that flips the class",
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
        note: "The number is what the group adds to the logit of the class above, minus that of the second likeliest. Choose a value, or open the sliders.",
      },
      controls,
    ),
  );
  if (head.linear) {
    now = evaluate();
    paint();
    if (shared) check.textContent = "computed in this page";
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
