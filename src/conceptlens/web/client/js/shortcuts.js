/** Single keys that do something, and the list of them under "?". A view adds its own while it is open. */
import { h, put } from "./dom.js";
import { glossaryList } from "./glossary.js";

/** @type {Map<string, {keys: string, what: string, run: (event: KeyboardEvent) => void, view: boolean}>} */
const known = new Map();

/** @param {string} key as KeyboardEvent.key has it @param {string} what @param {(event: KeyboardEvent) => void} run */
export function shortcut(key, what, run, { view = true, shown = key } = {}) {
  known.set(key, { keys: shown, what, run, view });
}

/** Forget what a view added. */
export function clearViewShortcuts() {
  for (const [key, each] of known) if (each.view) known.delete(key);
}

/** @param {any} event */
function typing(event) {
  const node = event.target;
  return (
    node instanceof HTMLElement &&
    node.matches("input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select")
  );
}

function showShortcuts() {
  const close = () => dialog.close();
  const list = h("dl", {});
  const rows = new Map();
  for (const each of known.values()) if (each.what) rows.set(each.what, [...(rows.get(each.what) ?? []), each.keys]);
  for (const [what, keys] of rows)
    list.append(
      h(
        "dt",
        {},
        keys.map((/** @type {string} */ key, /** @type {number} */ place) => [place ? " " : null, h("kbd", {}, key)]),
      ),
      h("dd", {}, what),
    );
  list.append(
    h("dt", {}, h("kbd", {}, "Tab")),
    h("dd", {}, "next control"),
    h("dt", {}, h("kbd", {}, "← ↑ ↓ →")),
    h("dd", {}, "within a list, a slider or the patches of an image"),
  );
  const dialog = h("dialog", { "aria-labelledby": "shortcuts-title", onclose: () => dialog.remove() });
  put(
    dialog,
    h("h2", { id: "shortcuts-title" }, "Keyboard"),
    list,
    glossaryList(),
    h("button", { type: "button", class: "main", onclick: close }, "Close"),
  );
  document.body.append(dialog);
  dialog.showModal();
}

export function startShortcuts() {
  shortcut("?", "this list", showShortcuts, { view: false });
  document.getElementById("help")?.addEventListener("click", showShortcuts);
  document.addEventListener("keydown", (event) => {
    if (
      event.defaultPrevented ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      typing(event) ||
      document.querySelector("dialog[open]")
    )
      return;
    const found = known.get(event.key);
    if (!found) return;
    event.preventDefault();
    found.run(event);
  });
}
