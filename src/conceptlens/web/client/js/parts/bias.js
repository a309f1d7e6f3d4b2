/** Whose tokens a generator uses when it is asked for none: δ beside its nulls, corrected p, and the verdict. */
import { deltas } from "../charts/deltas.js";
import { h, put, s, scrolling, segment, tableHead } from "../dom.js";
import { fixed, plural, signed } from "../words.js";

/** @param {{bias: any, n: string | undefined, picture: string | null, onchange: (changes: Record<string, any>) => void}} options */
export function biasPanel({ bias, n, picture, onchange }) {
  const tables = bias.tables;
  let table = tables.find((/** @type {any} */ each) => String(each.n) === n) ?? tables[0];
  const body = h("div", {});
  const chooser =
    tables.length > 1
      ? segment(
          "Tokens taken of each image",
          tables.map((/** @type {any} */ each) => [String(each.n), `top ${each.n}`]),
          String(table.n),
          (key) => {
            table = tables.find((/** @type {any} */ each) => String(each.n) === key);
            onchange({ n: key });
            draw();
          },
        )
      : null;

  function draw() {
    const found = table.pairs.filter((/** @type {any} */ pair) => pair.found).length;
    const judged = table.pairs.filter((/** @type {any} */ pair) => pair.found !== null).length;
    const plot = deltas(table.pairs, { label: "Cliff's δ of each pair" });
    body.plot = plot;
    put(
      body,
      h(
        "p",
        { class: "sentence" },
        judged === 0
          ? "Not tested: there is no null to compare with."
          : found
            ? `A bias in ${found} of ${plural(table.pairs.length, "pair")}: these tokens are used more than without a bias.`
            : "No bias was found: there is no significant difference from the null.",
      ),
      plot,
      h(
        "ul",
        { class: "legend" },
        h(
          "li",
          {},
          key("f0", "circle"),
          `δ in ${plural(bias.neutral, "sample")} for “${bias.condition}”, 95% interval`,
        ),
        h("li", {}, key("f5", "square"), `the same without a bias: ${bias.null}`),
        table.pairs.some((/** @type {any} */ pair) => pair.permuted)
          ? h("li", {}, key("shuffled", "square"), `values shuffled, 95% of ${plural(table.permutations, "time")}`)
          : null,
        h("li", {}, key("negligible", "square"), "negligible"),
      ),
      scrolling(
        "δ of every pair, in numbers",
        {},
        h(
          "table",
          { class: "bias-table" },
          h("caption", { class: "hidden" }, "Every pair of values"),
          tableHead(["Pair", "δ [95%]", "In words", "Without a bias", "p (null)", "p (shuffled)", "Verdict"]),
          h(
            "tbody",
            {},
            table.pairs.map((/** @type {any} */ pair) =>
              h(
                "tr",
                {},
                h("th", { scope: "row" }, `${pair.first} over ${pair.second}`),
                h("td", {}, interval(pair.delta)),
                h("td", {}, pair.delta.words),
                h("td", {}, pair.null ? interval(pair.null) : "–"),
                h("td", {}, chance(pair.p_balanced)),
                h("td", {}, chance(pair.p_permuted)),
                h("td", {}, verdict(pair)),
              ),
            ),
          ),
        ),
      ),
    );
  }
  draw();
  const node = h(
    "div",
    { class: "bias-panel" },
    chooser,
    body,
    h(
      "p",
      { class: "note" },
      "δ = +1: every count of the first value's tokens is larger than every count of the second's. δ = 0: neither set is used more. Without a bias, δ does not differ significantly from its null. δ alone is not a bias, because one set's tokens may simply be more common. ",
      "p-values are corrected for the number of pairs (Holm). The paper's Eq. 15 gives half of this δ. A token set is not a group of people: look at the samples.",
    ),
    (bias.judged ?? []).map((/** @type {any} */ each) =>
      h(
        "p",
        { class: "note" },
        `An independent classifier (${each.judge}) sees ${Object.entries(each.shares)
          .map(([name, share]) => `${name} in ${fixed(share)}`)
          .join(", ")}.`,
      ),
    ),
    picture
      ? h(
          "details",
          {},
          h("summary", {}, "The samples"),
          h("img", {
            src: picture,
            alt: "Samples without a requested value, and samples of each value",
            class: "sheet",
            loading: "lazy",
          }),
        )
      : null,
  );
  return Object.assign(node, { svg: () => body.plot });
}

/** @param {any} delta */
const interval = (delta) => `${signed(delta.value, 3)} [${signed(delta.low, 2)}, ${signed(delta.high, 2)}]`;
/** @param {number | null | undefined} p */
const chance = (p) => (p === null || p === undefined ? "–" : p < 0.001 ? "< 0.001" : fixed(p));

/** @param {any} pair */
function verdict(pair) {
  if (pair.found === null) return h("span", { class: "tag" }, "not tested");
  if (!pair.found) return h("span", { class: "tag good" }, "✓ no bias found");
  return h("span", { class: "tag bad" }, `✕ towards ${pair.excess >= 0 ? pair.first : pair.second}`);
}

/** @param {string} name @param {string} shape */
function key(name, shape) {
  return s(
    "svg",
    { class: "chart deltas", viewBox: "0 0 22 10", "aria-hidden": "true" },
    shape === "circle"
      ? s("circle", { class: name, cx: 11, cy: 5, r: 5 })
      : s("rect", { class: name, x: 4, y: 0, width: 14, height: 10 }),
  );
}
