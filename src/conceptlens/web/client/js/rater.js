/** Who corrects and annotates: a name that the browser remembers. */
import { h } from "./dom.js";

const KEY = "conceptlens-rater";

/** The name of the last visit; empty where the browser keeps nothing for us. */
function rememberedName() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

/** @param {string} name */
function rememberName(name) {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    return; // used all the same
  }
}

/** A field for it. @returns {HTMLInputElement} */
export function nameField() {
  const field = h("input", {
    type: "text",
    value: rememberedName(),
    maxlength: 80,
    autocomplete: "name",
    placeholder: "your name",
    "aria-label": "Your name",
    onchange: () => rememberName(field.value.trim()),
  });
  return field;
}
