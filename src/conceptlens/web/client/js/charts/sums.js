/** A logit as a sum: a base, what each concept adds or takes away, and the total they make. */
import { h, rove } from "../dom.js";
import { amount } from "../plain.js";

/**
 * @typedef {{key: string, label: string, detail?: string, value: number, pick?: boolean}} Term
 * @param {Term[]} terms in the order they are shown
 * @param {{label: string, total: {label: string, value: number}, picked?: string | null, onpick?: (key: string) => void, onhover?: (key: string | null) => void}} options
 */
export function sums(terms, { label, total, picked = null, onpick, onhover }) {
  const low = Math.min(0, total.value, ...terms.map((each) => each.value));
  const high = Math.max(0, total.value, ...terms.map((each) => each.value));
  const span = high - low || 1;
  const zero = (100 * -low) / span;
  const list = h("div", { class: "sums", role: "group", "aria-label": label, style: { "--zero": `${zero}%` } });
  const row = (/** @type {any} */ each, extra = "") => {
    const pickable = onpick && each.pick !== false;
    const from = each.value < 0 ? zero + (100 * each.value) / span : zero;
    const bar = h(
      "span",
      { class: "track", "aria-hidden": "true" },
      h("span", {
        class: `bar-fill ${each.value < 0 ? "negative" : ""} ${extra || each.pick === false ? "neutral" : ""}`,
        style: { "inset-inline-start": `${from}%`, width: `${(100 * Math.abs(each.value)) / span}%` },
      }),
    );
    return h(
      pickable ? "button" : "div",
      {
        class: `sum ${extra}`,
        type: pickable ? "button" : null,
        "data-key": each.key,
        "aria-pressed": pickable ? String(each.key === picked) : null,
        tabindex: pickable ? "-1" : null,
        title: each.detail ? `${each.label}: ${each.detail}` : each.label,
        onclick: pickable ? () => onpick(each.key) : null,
        onpointerenter: pickable && onhover ? () => onhover(each.key) : null,
        onpointerleave: pickable && onhover ? () => onhover(null) : null,
        onfocus: pickable && onhover ? () => onhover(each.key) : null,
        onblur: pickable && onhover ? () => onhover(null) : null,
      },
      h("span", { class: "label" }, each.label, each.detail ? h("small", {}, ` ${each.detail}`) : null),
      bar,
      h(
        "span",
        { class: `value ${extra || each.pick === false || Math.abs(each.value) < 0.005 ? "" : each.value < 0 ? "minus" : "plus"}` },
        amount(each.value),
      ),
    );
  };
  for (const each of terms) list.append(row(each));
  list.append(row({ key: "total", label: total.label, value: total.value, pick: false }, "total"));
  const first = list.querySelector('button[aria-pressed="true"]') ?? list.querySelector("button");
  if (first) first.tabIndex = 0;
  rove(list, "button.sum");
  return list;
}
