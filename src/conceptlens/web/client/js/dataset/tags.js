/** Tags of images: names for sets of them, kept in the run folder among its annotations. */
import { get, post } from "../api.js";
import { announce } from "../announce.js";
import { h, put } from "../dom.js";
import { nameField } from "../rater.js";
import { plural } from "../words.js";

/** Rows of a split by tag. @param {string} run @param {import("./table.js").Table} table @returns {Promise<Map<string, Set<number>>>} */
export async function tagsOf(run, table) {
  const { images = {} } = await get(`runs/${encodeURIComponent(run)}/annotations`).catch(() => ({}));
  return rowsByTag(table.ids, images);
}

/** @param {string[]} ids @param {Record<string, {group?: string}>} images */
export function rowsByTag(ids, images) {
  /** @type {Map<string, Set<number>>} */
  const tags = new Map();
  ids.forEach((id, row) => {
    const tag = images[id]?.group;
    if (tag) tags.set(tag, (tags.get(tag) ?? new Set()).add(row));
  });
  return tags;
}

/** The place of each row's tag among the tags; -1 without one. @param {Map<string, Set<number>>} tags @param {number} size */
export function tagPlaces(tags, size) {
  const places = new Int16Array(size).fill(-1);
  [...tags.values()].forEach((rows, place) => rows.forEach((row) => (places[row] = place)));
  return places;
}

/** @param {string} run @param {import("./table.js").Table} table @param {() => Uint32Array} shown @param {(tags: Map<string, Set<number>>) => void} onsaved */
export function tagger(run, table, shown, onsaved) {
  const [name, told] = [nameField(), h("span", { class: "note", role: "status" })];
  const tag = h("input", { type: "text", maxlength: 80, placeholder: "tag", "aria-label": "Tag" });
  async function save() {
    if (!name.value.trim() || !tag.value.trim()) {
      put(told, "Enter a tag and your name.");
      return;
    }
    const rows = shown();
    try {
      const of = [...rows].map((row) => table.ids[row]);
      const answer = await post(`runs/${encodeURIComponent(run)}/annotations`, {
        author: name.value.trim(),
        kind: "image",
        of,
        group: tag.value.trim(),
      });
      onsaved(rowsByTag(table.ids, answer.images));
      put(told, `${plural(rows.length, "image")} tagged: “Tag” above filters by it.`);
      announce("Tagged");
    } catch (error) {
      put(told, /** @type {Error} */ (error).message);
    }
  }
  return h(
    "details",
    {},
    h("summary", {}, "Tag the images shown"),
    h("div", { class: "row" }, tag, name, h("button", { type: "button", onclick: save }, "Tag them"), told),
  );
}
