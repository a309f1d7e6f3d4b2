/**
 * Terms of the glossary: a heading or label that uses one shows its meaning when the pointer rests on it. The same list
 * stands in the dialog under "?", for those who use keys, touch or a screen reader.
 */
import { api } from "./api.js";
import { h, scrolling, whenQuiet } from "./dom.js";

const LABELS = "h1, h2, h3, h4, legend, summary, th[scope=col], dt, label.field, caption, figcaption";
const LONGEST = 90; // characters; beyond, it is a sentence and no label
const QUIET = 150; // milliseconds without a change before labels are looked at

/** @type {any[]} */
let terms = [];

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Each name of a term, as "insertion" and "deletion" of one entry; the longest first, so that it wins. @param {any} entries */
export function read(entries) {
  return Object.entries(entries)
    .flatMap(([term, entry]) => term.split(", ").map((name) => ({ name, ...entry })))
    .sort((one, other) => other.name.length - one.name.length)
    .map((entry) => ({ ...entry, pattern: new RegExp(`(?<![\\w-])${escaped(entry.name)}(?:e?s)?(?![\\w-])`, "i") }));
}

/** What a label's longest term means; null if it uses none. @param {string} text @param {any} [known] */
export function meaningOf(text, known = terms) {
  const entry = known.find((/** @type {{pattern: any}} */ { pattern }) => pattern.test(text));
  return entry ? `${entry.name}: ${entry.meaning}${entry.reference ? ` (${entry.reference})` : ""}` : null;
}

/** What of a node bears its words: of a label not the control in it, which would be underlined as well. @param {any} node */
function wordsOf(node) {
  if (!node.matches("label")) return node;
  const text = [...node.childNodes].find((child) => child.nodeType === 3);
  if (text) text.replaceWith(h("span", { class: "words" }, text.data));
  return node.querySelector(":scope > .words");
}

/** @param {HTMLElement} host */
function mark(host) {
  for (const label of host.querySelectorAll(LABELS)) {
    const node = wordsOf(label);
    if (!node) continue;
    if (node.title && !node.classList.contains("term")) continue; // a title of its own says more
    const text = node.textContent.trim();
    const meaning = text.length <= LONGEST ? meaningOf(text) : null;
    if (meaning === (node.title || null)) continue;
    node.classList.toggle("term", meaning !== null);
    if (meaning) node.title = meaning;
    else node.removeAttribute("title");
  }
}

/** All terms, to be opened in a dialog. */
export function glossaryList() {
  if (!terms.length) return null;
  const sorted = [...terms].sort((one, other) => one.name.localeCompare(other.name));
  return h(
    "details",
    { class: "glossary" },
    h("summary", {}, "Glossary"),
    scrolling(
      "Glossary",
      {},
      h(
        "dl",
        {},
        sorted.map(({ name, meaning }) => [h("dt", {}, name), h("dd", {}, meaning)]),
      ),
    ),
  );
}

/** Mark labels in `host`, now and whenever it changes. @param {HTMLElement} host */
export async function startGlossary(host) {
  try {
    terms = read((await api.glossary()).terms);
  } catch {
    return; // a file of an earlier version, or no server: labels stay as they are
  }
  mark(host);
  new MutationObserver(whenQuiet(() => mark(host), QUIET)).observe(host, { childList: true, subtree: true });
}
