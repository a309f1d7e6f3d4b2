/** What can be set: a value for each group, and a slider for each concept. They follow the edits, whoever made them. */
import { columnsOf, pointless, target } from "../head.js";
import { h, segment } from "../dom.js";
import { amount } from "../plain.js";
import { percent, short, signed } from "../words.js";

/**
 * @param {{prediction: any, groups: any[], head: any, edits: import("../edits.js").Edits}} options
 * @returns {HTMLElement & {open: (on: boolean) => void, update: (bottleneck: number[], values: number[] | null) => void}}
 */
export function dials({ prediction, groups, head, edits }) {
  /** @type {any[]} */
  const updates = [];
  const node = h(
    "div",
    { class: "dials" },
    groups.map((group) => (group.kind === "exclusive" ? exclusive(group) : independent(group))),
  );

  /** One scale for all sliders of a group, so that their places can be compared. @param {Answers.GroupPart} group */
  function rangeOf(group) {
    const columns = columnsOf(group);
    const starts = columns.map((k) => prediction.state.bottleneck[k]);
    return [
      Math.min(...columns.map((k) => head.low[k]), ...starts),
      Math.max(...columns.map((k) => head.high[k]), ...starts),
    ];
  }

  /** @param {number} k @param {string} label @param {any} range */
  function slider(k, label, range) {
    const concept = prediction.concepts[k];
    const probability = head.space === "probability";
    const start = prediction.state.bottleneck[k];
    const [low, high] = probability ? [0, 1] : range;
    const shown = h("output", { class: "num" });
    const input = h("input", {
      type: "range",
      min: low,
      max: high,
      step: (high - low) / 200 || 0.01,
      "data-concept": k,
      "aria-label": concept.name,
      oninput: () =>
        edits.drag(
          concept.name,
          `${concept.name}=${probability ? "" : "score "}${Number(Number(input.value).toPrecision(6))}`,
        ),
      onchange: () => edits.drop(),
    });
    const was = h("span", {
      class: "was",
      style: { left: `calc(8px + (100% - 16px) * ${(start - low) / (high - low || 1)})` },
      title: `predicted: ${short(start)}`,
    });
    updates.push((/** @type {number[]} */ bottleneck) => {
      if (Math.abs(Number(input.value) - bottleneck[k]) > (high - low) / 400) input.value = String(bottleneck[k]);
      shown.textContent = probability ? percent(bottleneck[k], 0) : signed(bottleneck[k]);
      input.setAttribute(
        "aria-valuetext",
        `${shown.textContent}${bottleneck[k] === start ? ", as predicted by the model" : ""}`,
      );
      row.classList.toggle("edited", Math.abs(bottleneck[k] - start) > 1e-9);
    });
    const row = h(
      "div",
      { class: "dial" },
      h("span", { class: "label", title: concept.text }, label),
      h("span", { class: "slide" }, was, input),
      shown,
    );
    return row;
  }

  /** @param {Answers.GroupPart} group @param {any} control */
  function head_(group, control) {
    const effect = h("span", { class: "num effect", title: "what the group adds to the predicted class, compared with the second most likely class" });
    const reset = h(
      "button",
      {
        type: "button",
        class: "quiet icon",
        "aria-label": `${group.name}: as predicted by the model`,
        title: "as predicted by the model",
        onclick: () => edits.set(edits.list.filter((each) => target(groups, each)?.group !== group)),
      },
      "↺",
    );
    updates.push((/** @type {any} */ bottleneck, /** @type {any[]} */ values) => {
      const sum = values ? columnsOf(group).reduce((total, k) => total + values[k], 0) : null;
      const idle = pointless(groups, prediction.concepts, edits.list).has(group.name);
      effect.textContent = idle ? "does not apply" : sum === null ? "" : amount(sum);
      effect.className = idle
        ? "num effect note"
        : `num effect ${sum === null || Math.abs(sum) < 0.005 ? "" : sum < 0 ? "minus" : "plus"}`;
      const touched = edits.list.some((each) => target(groups, each)?.group === group);
      reset.hidden = !touched;
      box.classList.toggle("edited", touched);
    });
    const box = h("div", { class: "dial-head" }, h("h3", {}, group.name), control, effect, reset);
    return box;
  }

  /** @param {Answers.GroupPart} group */
  function exclusive(group) {
    const concepts = columnsOf(group).map((k) => prediction.concepts[k]);
    const top = concepts.reduce((a, b) => (b.probability > a.probability ? b : a));
    const truth = concepts.find((each) => each.label === true);
    const pick = h(
      "select",
      {
        "aria-label": group.name,
        onchange: () =>
          pick.value === ""
            ? edits.set(edits.list.filter((each) => target(groups, each)?.group !== group))
            : pick.value === "…"
              ? null
              : edits.add(`${group.name}=${pick.value}`),
      },
      h("option", { value: "" }, `${top.value} (model, ${percent(top.probability, 0)})`),
      concepts.map((each) => h("option", { value: each.value }, `${each.value}${each === truth ? " ✓ label" : ""}`)),
      h("option", { value: "…", disabled: true, hidden: true }, "set by slider"),
    );
    updates.push(() => {
      const mine = /** @type {any[]} */ (edits.list.map((each) => target(groups, each))).filter((each) => each?.group === group);
      const whole = mine.length === 1 && mine[0].whole && group.values.includes(mine[0].word) ? mine[0].word : null;
      pick.value = mine.length === 0 ? "" : (whole ?? "…");
    });
    const fine = h(
      "details",
      { class: "fine" },
      h("summary", {}, "sliders", h("span", { class: "hidden" }, ` of ${group.name}`)),
      columnsOf(group).map((k) => slider(k, prediction.concepts[k].value, rangeOf(group))),
    );
    return h(
      "section",
      { class: "dial-group", "aria-label": group.name, "data-group": group.name },
      head_(group, pick),
      fine,
    );
  }

  /** @param {Answers.GroupPart} group */
  function independent(group) {
    const rows = columnsOf(group).map((k) => {
      const concept = prediction.concepts[k];
      const set = segment(
        `${concept.name}, set`,
        [
          ["no", "no"],
          ["yes", "yes"],
        ],
        "",
        (word) => edits.add(`${concept.name}=${word}`),
      );
      updates.push(() => {
        const mine = edits.list
          .map((each) => target(groups, each))
          .findLast((each) => each && !each.whole && each.columns[0] === k);
        set.set(mine?.word ?? "");
        if (!mine) set.firstChild.tabIndex = 0;
      });
      const row = slider(k, concept.value, rangeOf(group));
      row.append(set);
      return row;
    });
    const box = h(
      "section",
      { class: "dial-group", "aria-label": group.name, "data-group": group.name },
      head_(group, null),
    );
    if (rows.length > 6) box.append(h("details", { class: "fine" }, h("summary", {}, `${rows.length} concepts`), rows));
    else box.append(...rows);
    return box;
  }

  return Object.assign(node, {
    open(/** @type {boolean} */ on) {
      for (const each of node.querySelectorAll("details.fine")) each.open = on;
    },
    update: (/** @type {any} */ bottleneck, /** @type {any[]} */ values) => {
      for (const each of updates) each(bottleneck, values);
    },
  });
}
