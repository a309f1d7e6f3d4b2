/** Why: the logit of a class as a sum over concepts or groups. Terms that are not shown are summed up, so that it adds up. */
import { decomposeLogit } from "../head.js";
import { h, put, segment } from "../dom.js";
import { sums } from "../charts/sums.js";
import { percent, plural, signed } from "../words.js";

const MOST = 12;

/**
 * @param {{prediction: any, head: any | null, by: string, all: boolean, of: string | null, minus: string, picked: number | null, onpick: (k: number) => void, onhover: (k: number | null) => void, onchange: (changes: Record<string, string>) => void}} options
 */
export function contributions(options) {
  const { prediction, head, onpick, onhover, onchange } = options;
  let { by, all, of, minus, picked } = options;
  const linear = head?.linear;
  const box = h("div", {});
  const names = prediction.classes.map((each) => each.name);
  of = names.includes(of) ? of : prediction.about;
  minus = linear || prediction.decompositions.some((each) => each.of === of && (each.minus ?? "") === minus) ? minus : "";

  const found = () =>
    prediction.decompositions.find((each) => each.of === of && (each.minus ?? "") === minus) ??
    (linear ? decomposeLogit(head, of, minus || null, prediction.state.bottleneck, prediction.state.rest) : null);

  function terms(sum) {
    const single = prediction.concepts.map((each, k) => ({
      key: String(k),
      label: each.name,
      detail: percent(each.probability, 0),
      value: sum.values[k],
      concept: k,
    }));
    if (by !== "groups") return single;
    const groups = new Map();
    prediction.concepts.forEach((each, k) => groups.set(each.group, [...(groups.get(each.group) ?? []), k]));
    return [...groups].map(([group, ks]) => {
      const top = ks.reduce((a, b) =>
        prediction.concepts[b].probability > prediction.concepts[a].probability ? b : a,
      );
      return {
        key: String(top),
        label: group,
        detail: prediction.concepts[top].value,
        value: ks.reduce((total, k) => total + sum.values[k], 0),
        concept: top,
      };
    });
  }

  function draw() {
    const sum = found();
    if (!sum) {
      put(
        box,
        h(
          "p",
          { class: "note" },
          "The class head of this method is not linear in the concepts, so there are no contributions that add up to the logit. “What if” still works.",
        ),
      );
      return;
    }
    const order = terms(sum).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const shown = all ? order : order.slice(0, MOST);
    const rest = order.slice(shown.length);
    const rows = [
      {
        key: "base",
        label: prediction.reference.what === "average image" ? "average image" : "with all scores at zero",
        value: sum.base,
        pick: false,
      },
      ...shown,
      rest.length
        ? {
            key: "rest",
            label: plural(rest.length, by === "groups" ? "other group" : "other concept"),
            value: rest.reduce((total, each) => total + each.value, 0),
            pick: false,
          }
        : null,
      prediction.bypass
        ? { key: "bypass", label: "bypass", detail: prediction.bypass, value: sum.bypass, pick: false }
        : null,
    ].filter(Boolean);
    const total = minus ? `logit of ${of} minus ${minus === "mean" ? "the mean" : minus}` : `logit of ${of}`;
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
      h("p", { class: "hidden", "data-sum": sum.total }, `They add up to ${signed(sum.total)}.`),
    );
  }

  const classPicker = h("select", {
    "aria-label": "Class that is explained",
    onchange: () => {
      of = classPicker.value;
      onchange({ of: of === prediction.about ? "" : of });
      draw();
    },
  });
  const rivalPicker = h("select", {
    "aria-label": "Compared with",
    onchange: () => {
      minus = rivalPicker.value;
      onchange({ minus });
      draw();
    },
  });
  const allowed = linear ? names : names.filter((name) => prediction.decompositions.some((each) => each.of === name));
  for (const name of allowed) classPicker.append(h("option", { value: name, selected: name === of }, name));
  const rivals = [
    ["", "by itself"],
    ["mean", "against the mean class"],
    ...(linear
      ? names.map((name) => [name, `against ${name}`])
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
                ["concepts", "Concepts"],
                ["groups", "Groups"],
              ],
              by,
              (key) => {
                by = key;
                onchange({ by: key === "concepts" ? "" : key });
                draw();
              },
            ),
          )
        : null,
      box,
    ),
    {
      setPicked(k) {
        picked = k;
        draw();
      },
      /** Rows that something else points at. */
      link(ks) {
        for (const row of box.querySelectorAll("[data-key]"))
          row.classList.toggle("linked", ks?.has(Number(row.dataset.key)) ?? false);
      },
      data: () => found(),
    },
  );
}
