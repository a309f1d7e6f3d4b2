/**
 * Why: a logit margin as a sum over groups or concepts. Terms that are not shown are summed up, so that it adds up. At
 * first it is the prediction's account, which the sentence tells too: the same classes, groups, order and baseline.
 */
import { decomposeLogit } from "../head.js";
import { h, put, segment } from "../dom.js";
import { sums } from "../charts/sums.js";
import { amount, sumName, unit } from "../plain.js";
import { percent, plural } from "../words.js";

const MOST = 12;
const ALONE = "alone"; // a class by itself, in the address

/**
 * @param {{prediction: any, head: any | null, by: string, all: boolean, of: string, minus: string | null, picked: number | null, onpick: (k: number) => void, onhover: (k: number | null) => void, onchange: (changes: Record<string, string>) => void}} options
 */
export function contributions(options) {
  const { prediction, head, onpick, onhover, onchange } = options;
  let { by, all, of, minus, picked } = options;
  const linear = head?.linear;
  const box = h("div", {});
  const names = prediction.classes.map((/** @type {any} */ each) => each.name);
  const { account } = prediction;
  of = names.includes(of) ? of : account.of;
  minus = minus ?? account.minus ?? ALONE;
  minus = minus === ALONE ? "" : minus;
  minus = linear || prediction.decompositions.some((/** @type {any} */ each) => each.of === of && (each.minus ?? "") === minus) ? minus : "";

  const found = () =>
    prediction.decompositions.find((/** @type {any} */ each) => each.of === of && (each.minus ?? "") === minus) ??
    (linear ? decomposeLogit(head, of ?? "", minus || null, prediction.state.bottleneck, prediction.state.rest) : null);

  const counted = (/** @type {any} */ k) => prediction.concepts[k].applies && prediction.concepts[k].seen;

  /** @param {any} sum */
  function terms(sum) {
    if (by !== "groups")
      return prediction.concepts.flatMap((/** @type {any} */ each, /** @type {any} */ k) =>
        counted(k)
          ? [{ key: String(k), label: each.name, detail: percent(each.probability, 0), value: sum.values[k] }]
          : [],
      );
    // The account's questions; what they add is asked of the sum, which may be of other classes.
    const whole = new Set(prediction.concepts.map((/** @type {any} */ each) => each.group));
    return account.reasons.map((/** @type {{concept: any, question: string, answer: any}} */ { concept, question, answer }) => ({
      key: String(concept),
      label: question,
      detail: answer,
      value: prediction.concepts.reduce(
        (/** @type {any} */ total, /** @type {any} */ each, /** @type {any} */ k) =>
          total + (counted(k) && (whole.has(question) ? each.group : each.name) === question ? sum.values[k] : 0),
        0,
      ),
    }));
  }

  /** What the head reads and what is no reason: groups that do not apply, values that no training image has. @param {any} sum */
  function aside(sum) {
    if (!account.aside.length) return null;
    return {
      key: "aside",
      label: "not counted",
      detail: account.aside.map((/** @type {any} */ each) => `${each.question} (${each.why})`).join(", "),
      value: prediction.concepts.reduce((/** @type {any} */ total, /** @type {any} */ _, /** @type {any} */ k) => total + (counted(k) ? 0 : sum.values[k]), 0),
      pick: false,
    };
  }

  /** How much of the total the baseline has already, where that is a share. @param {any} sum */
  function share(sum) {
    const part = sum.base / sum.total;
    return minus && part >= 0 && part <= 1 ? `${percent(part, 0)} of the margin` : "";
  }

  /** The rows of the chart, and all its terms in order. @param {any} sum */
  function chart(sum) {
    const order = terms(sum).sort((/** @type {any} */ a, /** @type {any} */ b) => Math.abs(b.value) - Math.abs(a.value));
    const shown = all ? order : order.slice(0, MOST);
    const rest = order.slice(shown.length);
    const rows = [
      {
        key: "base",
        label: prediction.reference.what === "average image" ? "average image" : "with all scores at zero",
        detail: share(sum),
        value: sum.base,
        pick: false,
      },
      ...shown,
      rest.length
        ? {
            key: "rest",
            label: plural(rest.length, by === "groups" ? "other group" : "other concept"),
            value: rest.reduce((/** @type {any} */ total, /** @type {any} */ each) => total + each.value, 0),
            pick: false,
          }
        : null,
      aside(sum),
      prediction.bypass
        ? { key: "bypass", label: "bypass", detail: prediction.bypass, value: sum.bypass, pick: false }
        : null,
    ].filter(Boolean);
    return { order, rows };
  }

  function draw() {
    const sum = found();
    if (!sum) {
      put(
        box,
        h(
          "p",
          { class: "note" },
          "This method does not decide by a sum over concepts, so its decision cannot be split into contributions. “What if” still works.",
        ),
      );
      return;
    }
    const { order, rows } = chart(sum);
    const total = sumName(of ?? "", minus === "mean" ? "the mean" : minus || null);
    put(
      box,
      sums(rows, {
        label: `What makes the ${total}`,
        total: { label: total, value: sum.total },
        picked: String(picked),
        onpick: (key) => {
          picked = Number(key);
          onpick(picked);
          draw();
          box.querySelector('[aria-pressed="true"]')?.focus();
        },
        onhover: (key) => onhover(key === null ? null : Number(key)),
      }),
      order.length > MOST
        ? h(
            "button",
            {
              type: "button",
              class: "quiet more",
              onclick: () => {
                all = !all;
                onchange({ all: all ? "1" : "" });
                draw();
              },
            },
            all ? "Show the largest only" : `Show all ${order.length}`,
          )
        : null,
      h("p", { class: "hidden", "data-sum": sum.total }, `They add up to ${amount(sum.total)} ${unit()}.`),
    );
  }

  const classPicker = h("select", {
    "aria-label": "Class that is explained",
    onchange: () => {
      of = classPicker.value;
      if (of === minus) minus = rivalPicker.value = ""; // no class is set against itself
      onchange({ of: of === account.of ? "" : of });
      draw();
    },
  });
  const rivalPicker = h("select", {
    "aria-label": "Compared with",
    onchange: () => {
      minus = rivalPicker.value;
      onchange({ minus: minus === (account.minus ?? "") ? "" : minus || ALONE });
      draw();
    },
  });
  const allowed = linear ? names : names.filter((/** @type {string} */ name) => prediction.decompositions.some((/** @type {any} */ each) => each.of === name));
  for (const name of allowed) classPicker.append(h("option", { value: name, selected: name === of }, name));
  const rivals = [
    ["", "by itself"],
    ["mean", "against the mean class"],
    ...(linear
      ? names.map((/** @type {string} */ name) => [name, `against ${name}`])
      : prediction.rival
        ? [[prediction.rival, `against ${prediction.rival}`]]
        : []),
  ];
  for (const [value, text] of rivals) rivalPicker.append(h("option", { value, selected: value === minus }, text));
  draw();
  return Object.assign(
    h(
      "div",
      {},
      found()
        ? h(
            "div",
            { class: "row tools" },
            classPicker,
            rivalPicker,
            segment(
              "Contributions of",
              [
                ["groups", "Groups"],
                ["concepts", "Concepts"],
              ],
              by,
              (key) => {
                by = key;
                onchange({ by: key === "groups" ? "" : key });
                draw();
              },
            ),
          )
        : null,
      box,
    ),
    {
      setPicked(/** @type {number | null} */ k) {
        picked = k;
        draw();
      },
      /** Rows that something else points at. */
      link(/** @type {any} */ ks) {
        for (const row of box.querySelectorAll("[data-key]"))
          row.classList.toggle("linked", ks?.has(Number(row.dataset.key)) ?? false);
      },
      data: () => ({ sum: found(), rows: chart(found()).rows }),
    },
  );
}
