/** Results that this page has no drawing for: what they are about, and their numbers and words as a table. */
import { h } from "../../dom.js";

const MOST = 200; // rows; the file has the rest

/** @param {Record<string, {about: string, document?: object, error?: Error}>} results by name */
export function others(results) {
  return Object.entries(results).map(([name, { about, document, error }]) =>
    h(
      "section",
      { class: "stack other-result" },
      h("h2", {}, name),
      h("p", {}, about),
      document ? table(name, document) : h("p", {}, error?.message ?? "It cannot be read."),
    ),
  );
}

/** @param {string} name @param {any} document */
function table(name, document) {
  const rows = [...leaves(document)];
  return h(
    "table",
    {},
    h("caption", {}, rows.length > MOST ? `${name}: the first ${MOST} of ${rows.length} values` : name),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "value of"), h("th", { scope: "col" }, "value"))),
    h(
      "tbody",
      {},
      rows.slice(0, MOST).map(([key, value]) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, shown(value)))),
    ),
  );
}

/** Dotted names and plain values, without the schema number. @param {any} value @returns {Generator<[string, any]>} */
function* leaves(value, path = "") {
  if (value === null || typeof value !== "object") yield [path, value];
  else
    for (const [key, inner] of Object.entries(value))
      if (path || key !== "schema") yield* leaves(inner, path ? `${path}.${key}` : key);
}

/** @param {number} value */
const shown = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value ?? "-"));
