/** The tag and the note of a run, to be edited. */
import { post } from "../api.js";
import { h, put } from "../dom.js";
import { nameField } from "../rater.js";

/** @param {import("./rows.js").Row} row @param {() => void} onsaved */
export function annotateRun(row, onsaved) {
  const told = h("p", { class: "note", role: "status" });
  const name = nameField();
  const tag = h("input", { type: "text", value: row.tag, maxlength: 200, "aria-label": "Tag" });
  const words = h("input", { type: "text", value: row.note, maxlength: 2000, "aria-label": "Note" });
  const dialog = h("dialog", { "aria-label": `Tag and note of ${row.name}`, onclose: () => dialog.remove() });
  async function save() {
    if (!name.value.trim()) {
      put(told, "Enter your name first.");
      name.focus();
      return;
    }
    try {
      const said = { author: name.value.trim(), kind: "run", of: ["run"], group: tag.value, note: words.value };
      await post(`runs/${encodeURIComponent(row.key)}/annotations`, said);
      dialog.close();
      onsaved();
    } catch (error) {
      put(told, /** @type {Error} */ (error).message);
    }
  }
  put(
    dialog,
    h("h2", {}, row.name),
    h("div", { class: "stack tight" }, h("label", { class: "field" }, "Tag", tag), h("label", { class: "field" }, "Note", words), h("label", { class: "field" }, "Your name", name), told, h("div", { class: "row" }, h("button", { type: "button", class: "main", onclick: save }, "Save"), h("button", { type: "button", onclick: () => dialog.close() }, "Close"))),
  ); // prettier-ignore
  document.body.append(dialog);
  dialog.showModal();
}
