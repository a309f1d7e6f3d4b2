/** Concepts or codes as a list to filter and sort, the facts of the one that is picked, and a map of all. */
import { note } from "../address.js";
import { cloud } from "../charts/cloud.js";
import { choice, h, put, rove, searchField, segment } from "../dom.js";
import { known, percent, plural, short } from "../words.js";
import { card } from "./frame.js";
import { codeFacts, conceptFacts } from "./thing.js";

/** @type {Record<string, any>} */
const SORTS = {
  concepts: [
    ["order", "as in the file"],
    ["influence", "influence"],
    ["auc", "lowest AUC first"],
    ["flags", "flags first"],
  ],
  codebook: [
    ["use", "most used"],
    ["order", "number"],
    ["confidence", "clearest name"],
    ["flags", "flags first"],
  ],
};

const LOOKING = "Collecting patches from a sample of images. This takes a few seconds the first time…";

/** What can be filtered, sorted and picked. @param {string} what @param {any} answer */
const things = (what, answer) =>
  what === "concepts"
    ? answer.concepts.map((/** @type {any} */ each) => ({
        ...each,
        key: String(each.index),
        title: each.name,
        detail: each.auc === null || each.auc === undefined ? "" : `AUC ${percent(each.auc, 0)}`,
      }))
    : answer.codes.map((/** @type {any} */ each) => ({
        ...each,
        key: String(each.code),
        title: each.name,
        detail: `code ${each.code}${known(each.use) ? ` · ${percent(each.use)}` : ""}`,
      }));

/** `maps`: what the test of the maps found. @returns what the view keeps of it: the answer, the map, `update` when more is known, `stop` */
export function browse(/** @type {{body: any, run: string, what: any, answer: any, state: any, maps?: string}} */ { body, run, what, answer, state, maps }) {
  let all = things(what, answer);
  const key = what === "concepts" ? "concept" : "code";
  let words = state.find ?? "";
  let sort = state.sort ?? SORTS[what][0][0];
  let dimensions = state.map === "3d" ? 3 : 2;
  let picked = all.find((/** @type {any} */ each) => each.key === state[key])?.key ?? null;
  const groups = [...new Set(all.map((/** @type {any} */ each) => each.group ?? each.name))];
  const list = h("div", {
    class: "things",
    role: "listbox",
    "aria-label": what === "concepts" ? "Concepts" : "Codes",
  });
  const facts = h("div", {});
  const mapHost = h("div", {});
  const about = h("p", { class: "note" });
  const counted = h("p", { class: "note", role: "status" });
  const notice = h("div", {});
  const spread = answer.map?.explained ?? [];
  /** @type {any} */
  let map = null;

  const filter = searchField("Filter the list", "Filter", words, (asked) => {
    words = asked;
    note({ find: words });
    drawList();
  });

  function order() {
    const found = all.filter((/** @type {any} */ each) =>
      `${each.title} ${each.text ?? ""} ${each.flags.map((/** @type {any} */ flag) => flag.name).join(" ")}`
        .toLowerCase()
        .includes(words.toLowerCase()),
    );
    /** @type {Record<string, (each: any) => number>} */
    const orders = {
      influence: (/** @type {any} */ each) => -(each.influence ?? 0),
      auc: (/** @type {any} */ each) => each.auc ?? 2,
      flags: (/** @type {any} */ each) => -each.flags.length,
      use: (/** @type {any} */ each) => -(each.use ?? 0),
      confidence: (/** @type {any} */ each) => -(each.confidence ?? -1),
      order: () => 0,
    };
    const by = orders[sort];
    return [...found].sort((a, b) => by(a) - by(b));
  }

  function drawList() {
    const rows = order();
    if (!picked || !rows.some((each) => each.key === picked)) picked = picked ?? rows[0]?.key ?? null;
    put(
      list,
      rows.map((each) =>
        h(
          "button",
          {
            type: "button",
            class: "thing",
            role: "option",
            "data-key": each.key,
            "aria-selected": String(each.key === picked),
            tabindex: each.key === picked ? "0" : "-1",
            onclick: () => pick(each.key),
            onpointerenter: () => map?.hover(each.key),
            onpointerleave: () => map?.hover(null),
            onfocus: () => {
              if (picked !== each.key) pick(each.key);
            },
          },
          what === "codebook" ? h("span", { class: "dot", style: { background: each.color } }) : null,
          h("span", { class: "label", title: each.title }, each.title),
          each.flags.length
            ? h(
                "span",
                { class: "flag", title: each.flags.map((/** @type {any} */ flag) => flag.name).join(", ") },
                "⚑",
                h("span", { class: "hidden" }, each.flags.map((/** @type {any} */ flag) => flag.name).join(", ")),
              )
            : null,
          h("span", { class: "note" }, each.detail),
        ),
      ),
    );
    if (!rows.length) put(list, h("p", { class: "note" }, "Nothing matches."));
    if (!list.querySelector('[tabindex="0"]') && list.firstChild?.matches?.("button")) list.firstChild.tabIndex = 0;
  }

  /** @param {any} next */
  function pick(next) {
    picked = next;
    note({ [key]: next });
    for (const each of list.children) {
      const on = each.dataset.key === next;
      each.setAttribute("aria-selected", String(on));
      each.tabIndex = on ? 0 : -1;
      if (on) each.scrollIntoView({ block: "nearest" });
    }
    map?.setPicked(next);
    drawFacts();
  }

  function drawFacts() {
    const each = all.find((/** @type {any} */ one) => one.key === picked);
    if (!each) {
      put(facts);
      return;
    }
    const { classes, grid } = answer;
    put(
      facts,
      what === "concepts"
        ? conceptFacts({ run, each, classes, grid, maps })
        : codeFacts({ run, each, classes, grid, codes: all, onpick: pick }),
    );
  }

  function drawMap() {
    map?.stop();
    about.textContent = answer.map?.of
      ? `Neighbors are similar. The axes are principal components of the ${answer.map.of}${
          spread.length > 2
            ? `, with ${percent(
                spread.slice(0, dimensions).reduce((/** @type {any} */ a, /** @type {any} */ b) => a + b, 0),
                0,
              )} of their variance`
            : ""
        }. Drag to ${dimensions === 3 ? "turn" : "move"} it, click a point to open it.`
      : "";
    const points = all
      .filter((/** @type {any} */ each) => each.place)
      .map((/** @type {any} */ each) => ({
        key: each.key,
        at: each.place,
        label: what === "concepts" ? each.title : `${each.title}, code ${each.code}`,
        group: groups.indexOf(each.group ?? each.name),
        shape: Math.floor(groups.indexOf(each.group ?? each.name) / 8) % 4,
        size: what === "codebook" ? 4 + 14 * Math.sqrt(each.use ?? 0) : 6,
        color: each.color,
        area: what === "concepts" ? each.group : each.level ? each.name : null,
      }));
    if (!points.length) {
      put(mapHost, h("p", { class: "note" }, "There is no map: there are neither texts nor weights to place these by."));
      return;
    }
    map = cloud(points, {
      label: `Map of the ${what === "concepts" ? "concepts" : "codes"}`,
      dimensions,
      picked,
      turn: (state.turn ?? "0.5,0.35").split(",").map(Number),
      onpick: pick,
      onturn: (turn) => note({ turn: turn.map((each) => each.toFixed(2)).join(",") }),
    });
    put(mapHost, map);
  }

  function drawNotes() {
    put(notice, answer.why ? h("p", { class: "notice" }, answer.why) : null);
    const used = `${plural(answer.patches, "patch", "patches")} of ${plural(answer.images, "image")}; perplexity of their use: ${short(answer.perplexity)}.`;
    counted.textContent = !answer.complete ? LOOKING : what === "codebook" ? used : "";
    counted.hidden = !counted.textContent;
  }

  put(
    body,
    notice,
    h(
      "div",
      { class: "browse" },
      card(
        plural(all.length, what === "concepts" ? "concept" : "code"),
        {},
        counted,
        h(
          "div",
          { class: "row" },
          filter,
          choice("Sort", SORTS[what], sort, (value) => {
            sort = value;
            note({ sort });
            drawList();
          }),
        ),
        list,
      ),
      h(
        "div",
        { class: "stack" },
        facts,
        card(
          "Map",
          {
            tools: segment(
              "Dimensions",
              [
                ["2", "2D"],
                ["3", "3D"],
              ],
              String(dimensions),
              (value) => {
                dimensions = Number(value);
                note({ map: dimensions === 3 ? "3d" : "" });
                drawMap();
              },
            ),
          },
          about,
          mapHost,
        ),
      ),
    ),
  );
  rove(list, ".thing");
  drawNotes();
  drawList();
  drawFacts();
  drawMap();
  return {
    get answer() {
      return answer;
    },
    get map() {
      return map;
    },
    /** The same things, of which more is known: whoever is in the list stays where they are. */
    update(/** @type {string} */ later) {
      answer = later;
      all = things(what, later);
      const inside = list.contains(document.activeElement);
      const top = list.scrollTop;
      drawNotes();
      drawList();
      list.scrollTop = top;
      if (inside) list.querySelector('[tabindex="0"]')?.focus({ preventScroll: true });
      drawFacts();
      if (what === "codebook") drawMap(); // points are as large as their use
    },
    say(/** @type {string} */ text) {
      counted.textContent = text;
    },
    stop: () => map?.stop(),
  };
}
