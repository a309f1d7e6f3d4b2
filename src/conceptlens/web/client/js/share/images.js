/** The images of a shared file: the list that the server gave, filtered and turned page by page as the server would. */

/**
 * @param {any} whole all images of the file as `GET /images` has them, and the orders of `show` as rows
 * @param {URLSearchParams} words of the question
 */
export function listImages({ orders, ...whole }, words) {
  const show = words.get("show") ?? "all";
  const [page, size] = [Number(words.get("page") ?? 0), Number(words.get("size") ?? 60)];
  /** @typedef {{row: number, id: string, truth: string[] | null, predicted: string[] | null}} Item */
  const items = /** @type {Item[]} */ (whole.items);
  const name = words.get("name");
  const of = new Map(items.map((item) => [item.row, item]));
  const rows = /** @type {number[]} */ (orders[show] ?? []);
  const ranked = show === "all" ? items : rows.flatMap((row) => of.get(row) ?? []);
  const has = (/** @type {string[] | null} */ names, /** @type {string | null} */ wanted) => wanted === null || (names ?? []).includes(wanted);
  const chosen = ranked.filter(
    (item) => (name === null || item.id === name) && has(item.truth, words.get("class")) && has(item.predicted, words.get("predicted")),
  );
  return { ...whole, total: chosen.length, page, size, items: chosen.slice(page * size, (page + 1) * size) };
}
