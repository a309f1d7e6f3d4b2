/** The images of a run: filters, and a strip of thumbnails to pick from. */
import { api } from "../api.js";
import { choice, h, put, rove } from "../dom.js";
import { percent, plural } from "../words.js";

const SIZE = 48;
const PATIENCE = 1000; // ms that thumbnails wait for the image that is looked at: forty of them would be in its way
const SHOWS = [
  ["all", "all"],
  ["wrong", "wrong, most confident first"],
  ["uncertain", "least sure"],
  ["right", "right, most confident first"],
];

/**
 * @param {{run: string, whole: any, params: Record<string, string>, picked: string | null, onpick: (image: string) => void, onchange: (changes: Record<string, string | number>) => void}} options
 */
export function gallery({ run, whole, params, picked, onpick, onchange }) {
  const splits = Object.keys(whole.splits ?? { test: 0 });
  const wanted = {
    split: splits.includes(params.split) ? params.split : splits.includes("test") ? "test" : splits[0],
    show: params.show ?? "all",
    class: params.class ?? "",
    predicted: params.predicted ?? "",
    page: Number(params.page ?? 0),
  };
  const strip = h("ul", { class: "strip", "aria-label": "Images" });
  const line = h("span", { class: "note", role: "status" });
  const back = h(
    "button",
    { type: "button", class: "quiet", "aria-label": "Previous page of images", onclick: () => turn(-1) },
    "‹",
  );
  const forth = h(
    "button",
    { type: "button", class: "quiet", "aria-label": "Next page of images", onclick: () => turn(1) },
    "›",
  );
  const classes = [["", "any"], ...(whole.classes ?? []).map((/** @type {string} */ name) => [name, name])];
  /** @type {any[]} */
  let items = [];
  let asked = 0;
  let looked = false;

  const set = (/** @type {any} */ changes) => {
    Object.assign(wanted, { page: 0 }, changes);
    onchange({
      ...wanted,
      page: wanted.page || "",
      show: wanted.show === "all" ? "" : wanted.show,
      split: wanted.split === "test" ? "" : wanted.split,
    });
    return load().then((fresh) => {
      // The image that is looked at follows the filter.
      if (fresh?.length && !fresh.some((item) => name(item) === picked)) choose(fresh[0]);
      return fresh;
    });
  };
  const turn = (/** @type {number} */ step) => set({ page: wanted.page + step });

  async function load() {
    const mine = (asked += 1);
    strip.setAttribute("aria-busy", "true"); // what is seen is of the filter before
    try {
      const query = Object.fromEntries(Object.entries({ ...wanted, size: SIZE }).filter(([, value]) => value !== ""));
      const answer = await api.images(run, query);
      if (mine !== asked) return null;
      strip.removeAttribute("aria-busy");
      items = answer.items;
      const from = answer.page * answer.size;
      line.textContent = answer.total
        ? `${answer.total > answer.size ? `${from + 1}–${from + items.length} of ` : ""}${plural(answer.total, "image")}${answer.why ? ` · ${answer.why}` : ""}`
        : "No image matches.";
      back.disabled = answer.page === 0;
      forth.disabled = from + items.length >= answer.total;
      draw();
      if (!looked) setTimeout(look, PATIENCE);
      return items;
    } catch (error) {
      if (mine !== asked) return null;
      strip.removeAttribute("aria-busy");
      items = [];
      put(strip);
      line.textContent = /** @type {any} */ (error).message + (/** @type {any} */ (error).command ? ` Make it with: ${/** @type {any} */ (error).command}` : "");
      return [];
    }
  }

  const source = (/** @type {any} */ item) => item.thumbnail.replace(/^\//, "");
  const name = (/** @type {any} */ item) => `${item.split}/${item.row}`;

  function draw() {
    put(
      strip,
      items.map((item) => {
        const here = name(item) === picked;
        const said = item.predicted
          ? `predicted ${item.predicted.join(", ") || "nothing"}${item.probability === null ? "" : ` ${percent(item.probability, 0)}`}`
          : "";
        const truth = item.truth ? `is ${item.truth.join(", ") || "nothing"}` : "";
        return h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: `thumb ${item.right === false ? "wrong" : ""}`,
              "data-image": name(item),
              tabindex: here ? "0" : "-1",
              "aria-pressed": String(here),
              title: [item.id, truth, said].filter(Boolean).join("\n"),
              "aria-label": [`Image ${item.id}`, truth, said, item.right === false ? "wrong" : ""]
                .filter(Boolean)
                .join(", "),
              onclick: () => choose(item),
            },
            h("img", {
              src: looked ? source(item) : null,
              alt: "",
              loading: "lazy",
              width: 72,
              height: 72,
            }),
            item.right === false ? h("span", { class: "cross", "aria-hidden": "true" }, "✕") : null,
          ),
        );
      }),
    );
    if (!strip.querySelector('[tabindex="0"]') && strip.firstChild) strip.firstChild.firstChild.tabIndex = 0;
  }

  /** @param {any} item */
  function choose(item) {
    mark(name(item));
    onpick(name(item));
  }

  /** @param {string | null} image */
  function mark(image) {
    picked = image;
    for (const each of strip.querySelectorAll(".thumb")) {
      const here = each.dataset.image === image;
      each.setAttribute("aria-pressed", String(here));
      each.tabIndex = here ? 0 : -1;
      if (here) each.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    if (!strip.querySelector('[tabindex="0"]') && strip.firstChild) strip.firstChild.firstChild.tabIndex = 0;
  }

  /** From now on thumbnails are shown. */
  function look() {
    if (looked) return;
    looked = true;
    strip.querySelectorAll("img").forEach((/** @type {any} */ each, /** @type {number} */ place) => each.setAttribute("src", source(items[place])));
  }

  rove(strip, ".thumb", "both");
  const node = h(
    "section",
    { class: "card gallery", "aria-label": "Pick an image" },
    h(
      "div",
      { class: "row filters" },
      choice("Show", SHOWS, wanted.show, (show) => set({ show }), { id: "filter-show" }),
      choice("True class", classes, wanted.class, (value) => set({ class: value })),
      choice("Predicted", classes, wanted.predicted, (predicted) => set({ predicted })),
      splits.length > 1 ? choice("Split", splits, wanted.split, (split) => set({ split })) : null,
      h("span", { class: "pages" }, back, line, forth),
    ),
    strip,
  );
  return Object.assign(node, {
    load,
    mark,
    look,
    /** Go to the image so many places on; a new page where this one ends. */
    async step(/** @type {number} */ by) {
      let at = items.findIndex((item) => name(item) === picked) + by;
      if (at >= items.length && !forth.disabled) {
        await turn(1);
        at = 0;
      } else if (at < 0 && !back.disabled) {
        await turn(-1);
        at = items.length - 1;
      }
      const item = items[at];
      if (item) choose(item);
    },
    first: () => (items[0] ? name(items[0]) : null),
  });
}
