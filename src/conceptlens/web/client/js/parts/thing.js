/** Everything about one concept or one code. */
import { format } from "../address.js";
import { api } from "../api.js";
import { h } from "../dom.js";
import { plain } from "../plain.js";
import { fixed, known, percent, plural, signed } from "../words.js";
import { annotateForm } from "./annotate.js";
import { card } from "./frame.js";
import { crop } from "./crop.js";

/** Values by class as bars; signed where they can be negative. @param {string} title @param {string[]} classes @param {any[]} values @param {(value: any) => string} read */
function byClass(title, classes, values, read) {
  if (!values) return null;
  const most = Math.max(...values.filter(known).map(Math.abs), 1e-9);
  const order = classes
    .map((name, place) => [name, values[place]])
    .filter(([, value]) => known(value))
    .sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]))
    .slice(0, 8);
  const signs = values.some((value) => value < 0);
  return h(
    "div",
    {},
    h("h3", {}, title),
    h(
      "ul",
      { class: "shares" },
      order.map(([name, value]) =>
        h(
          "li",
          {},
          h("span", { class: "name", title: name }, name),
          h(
            "span",
            { class: "track" },
            h("span", {
              class: `bar-fill ${signs ? (value < 0 ? "negative" : "positive") : ""}`,
              style: { width: `${(100 * Math.abs(value)) / most}%` },
            }),
          ),
          h("span", { class: "num" }, read(value)),
        ),
      ),
    ),
  );
}

/** @param {string} run @param {any} grid @param {any[]} list @param {string} title @param {string | null} [doubt] */
function patches(run, grid, list, title, doubt = null) {
  if (!list?.length || !grid) return null;
  return [
    h("h3", {}, title),
    doubt && h("p", { class: "note" }, doubt),
    h(
      "ul",
      { class: "crops" },
      list.map((each) =>
        h(
          "li",
          {},
          h(
            "a",
            {
              href: format("image", { run, image: `${each.split}/${each.row}`, patch: each.cell }),
              "aria-label": `Open ${each.split} image ${each.row} at patch ${each.cell}`,
              title: known(each.value) ? fixed(each.value) : "",
            },
            crop(api.thumbnail(run, each.split, each.row), grid, each.cell, {
              side: 72,
              around: 2,
              label: `patch ${each.cell} of ${each.split} image ${each.row}`,
            }),
          ),
        ),
      ),
    ),
  ];
}

/** @param {any[]} list */
const flags = (list) =>
  list.length
    ? h(
        "ul",
        { class: "flags" },
        list.map((each) => h("li", { class: "tag warn" }, `⚑ ${each.name}: ${each.why}`)),
      )
    : null;

/** What is to be thought of patches that a map chose. @param {string | undefined} maps */
function doubtOf(maps) {
  if (maps === "pass") return null;
  return maps === "finding"
    ? "The maps of this model did not pass their test, so these patches may not show what the name means."
    : "The maps of this model were not tested, so these patches may not show what the name means.";
}

export function conceptFacts(/** @type {{run: string, each: any, classes: string[], grid: any, maps?: string}} */ { run, each, classes, grid, maps }) {
  const quality = each.group_quality ?? {};
  return card(
    each.name,
    { tools: each.part ? h("span", { class: "tag" }, each.part) : null },
    h("p", { class: "sentence" }, `“${each.text}”`),
    flags(each.flags),
    h(
      "dl",
      { class: "facts wide" },
      h("dt", {}, "AUC"),
      h("dd", {}, known(each.auc) ? `${percent(each.auc)}; 50% is chance` : "not known"),
      known(quality.balanced_accuracy)
        ? [
            h("dt", {}, "Its group"),
            h(
              "dd",
              {},
              `balanced accuracy ${percent(quality.balanced_accuracy)}${known(quality.auc_within_class) ? `, AUC within a class ${percent(quality.auc_within_class)}` : ""}`,
            ),
          ]
        : null,
      known(each.positive)
        ? [
            h("dt", {}, "True of"),
            h(
              "dd",
              {},
              `${percent(each.positive)} of ${plural(each.labeled, "labeled image")}; the model says ${percent(each.mean_probability)}`,
            ),
          ]
        : null,
      known(each.influence)
        ? [h("dt", {}, "Influence"), h("dd", {}, `changes the classes by ${plain() ? `${(10 * each.influence).toFixed(1)} points` : `${fixed(each.influence)} logits`} on average`)]
        : null,
      each.slot === null || each.slot === undefined ? null : [h("dt", {}, "Slot"), h("dd", {}, each.slot)],
    ),
    h(
      "div",
      { class: "two" },
      byClass("How often in each class", classes, each.by_class, (value) => percent(value, 0)),
      byClass("Weight for each class", classes, each.weights, signed),
    ),
    patches(run, grid, each.patches, "Patches where its map is largest", doubtOf(maps)),
    each.images?.length
      ? [
          h("h3", {}, "Images with the highest probability"),
          h(
            "ul",
            { class: "crops" },
            each.images.slice(0, 12).map((/** @type {any} */ item) =>
              h(
                "li",
                {},
                h(
                  "a",
                  {
                    href: format("image", { run, image: `${item.split}/${item.row}`, concept: each.index }),
                    title: percent(item.probability),
                  },
                  h("img", {
                    src: api.thumbnail(run, item.split, item.row),
                    alt: `${item.split} image ${item.row}, ${percent(item.probability)}`,
                    width: 72,
                    height: 72,
                    loading: "lazy",
                  }),
                ),
              ),
            ),
          ),
        ]
      : null,
  );
}

export function codeFacts(/** @type {{run: string, each: any, classes: string[], grid: any, codes: any, onpick: (...args: any[]) => void}} */ { run, each, classes, grid, codes, onpick }) {
  return card(
    `Code ${each.code}: ${each.name}`,
    { tools: h("span", { class: "dot big", style: { background: each.color } }) },
    flags(each.flags),
    annotateForm({ kind: "code", of: String(each.code) }),
    h(
      "dl",
      { class: "facts wide" },
      known(each.use) ? [h("dt", {}, "Use"), h("dd", {}, `${percent(each.use)} of all patches (${each.count})`)] : null,
      known(each.confidence)
        ? [
            h("dt", {}, "Name"),
            h(
              "dd",
              {},
              `${percent(each.confidence, 0)} of its patches belong to this ${each.level}; ${percent(each.chance, 0)} would by chance`,
            ),
          ]
        : null,
      each.nearest?.length
        ? [
            h("dt", {}, "Most similar"),
            h(
              "dd",
              {},
              h(
                "span",
                { class: "row" },
                each.nearest.slice(0, 4).map((/** @type {any} */ other) =>
                  h(
                    "button",
                    { type: "button", class: "chip", onclick: () => onpick(String(other.code)) },
                    h("span", {
                      class: "dot",
                      style: { background: codes.find((/** @type {any} */ one) => one.code === other.code)?.color ?? "#808080" },
                    }),
                    `code ${other.code}`,
                    h("span", { class: "note" }, ` ${other.similarity.toFixed(2)}`),
                  ),
                ),
              ),
            ),
          ]
        : null,
    ),
    byClass("Its patches by class", classes, each.by_class, (value) => percent(value, 0)),
    patches(run, grid, each.patches, "Its most typical patches"),
  );
}
