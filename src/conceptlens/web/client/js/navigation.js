/** The tabs and the choice of a folder: what can be looked at, and what stands where there is nothing to see. */
import { format } from "./address.js";
import { h, put } from "./dom.js";
import { fits, KINDS, said, viewsOf } from "./kinds.js";
import { missing } from "./parts/frame.js";

/** @param {Answers.RunCard | null} card @param {Answers.RunCard[]} cards */
const insideComparison = (card, cards) => cards.some((each) => each.key === card?.within && each.kind === "comparison");

/** The address of a view: of the folder that is looked at where it fits, else of one that does, which it finds itself. @param {any} view @param {Answers.RunCard | null} card */
export const addressOf = (view, card) => format(view.name, { run: !view.alone && fits(view, card) ? card?.key : null });

/** A tab for every view; one that no folder fills yet says so. On a phone the open one is scrolled into sight. @param {any[]} views @param {string} view @param {Answers.RunCard | null} card @param {Answers.RunCard[]} cards */
export function drawTabs(views, view, card, cards) {
  put(
    document.getElementById("tabs"),
    views.map((each, place) => {
      const empty = !each.alone && !cards.some((one) => fits(each, one));
      return h(
        "a",
        {
          href: addressOf(each, card),
          class: [place && views[place - 1].group !== each.group ? "begins" : "", empty ? "absent" : ""].join(" ").trim(),
          title: empty ? "Nothing to show yet; the view says what it needs" : null,
          "aria-current": each.name === view ? "page" : null,
        },
        each.title,
      );
    }),
  );
  const tabs = /** @type {HTMLElement} */ (document.getElementById("tabs"));
  const open = tabs.querySelector("[aria-current]");
  if (!open || tabs.scrollWidth <= tabs.clientWidth) return;
  const [box, inner] = [tabs.getBoundingClientRect(), open.getBoundingClientRect()];
  tabs.scrollLeft += inner.left - box.left - (box.width - inner.width) / 2; // a phone shows some of them at a time
}

/** The folders that this view can show; the trainings of a comparison stand together. @param {any} view @param {Answers.RunCard | null} card @param {Answers.RunCard[]} cards */
export function drawPicker(view, card, cards) {
  const picker = /** @type {HTMLElement} */ (document.getElementById("run-picker"));
  const usable = view.alone ? [] : cards.filter((each) => fits(view, each));
  const option = (/** @type {any} */ each) => h("option", { value: each.key, selected: each.key === card?.key }, each.name);
  picker.hidden = usable.length === 0;
  put(
    document.getElementById("run"),
    usable.filter((each) => !insideComparison(each, cards)).map(option),
    cards
      .filter((each) => each.kind === "comparison")
      .map((holder) => {
        const own = usable.filter((each) => each.within === holder.key);
        return own.length ? h("optgroup", { label: `Trainings of ${holder.name}` }, own.map(option)) : null;
      }),
  );
}

/** The folder that is looked at: as the address says, or the one seen last, or the first that fits. @param {any} view @param {string} asked @param {Answers.RunCard[]} cards @param {string | null} seen */
export function chosen(view, asked, cards, seen) {
  if (asked) return cards.find((card) => card.key === asked) ?? null;
  const before = cards.find((card) => card.key === seen && card.kind);
  if (before && (view.alone || fits(view, before))) return before;
  const able = cards.filter((card) => (view.alone ? card.kind : fits(view, card)));
  const single = able.filter((card) => !insideComparison(card, cards)); // rather than one of many trainings
  return single.find((card) => card.has.includes("model")) ?? single[0] ?? able[0] ?? null;
}

/** What stands where a view has nothing to show: no folder of its kind, or one of another kind. @param {any} views @param {any} view @param {Record<string, string>} params @param {Answers.RunCard | null} card */
export function nothing(views, view, params, card) {
  const kinds = view.kinds ?? ["bottleneck"];
  if (!params.run)
    return missing(
      "There is nothing to show yet",
      `${view.fills ?? ""} This view shows ${said(kinds)}, and none of the served folders is one. This command makes one; then serve its folder too:`.trim(),
      KINDS[kinds[0]].made,
    );
  const other = KINDS[card?.kind ?? ""];
  return h(
    "section",
    { class: "card empty" },
    h("h2", {}, `${card?.name} is ${other.about}`),
    h("p", {}, `This view shows ${said(kinds)}. `, link(views, card, `Open ${card?.name}`)),
  );
}

/** @param {any[]} views @param {Answers.RunCard | null} card @param {string} text */
const link = (views, card, text) =>
  h("a", { href: format(viewsOf(views, card)[0]?.name ?? "runs", { run: card?.key }) }, text);
