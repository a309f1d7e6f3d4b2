/** Say something to a screen reader without moving the focus. */
import { whenQuiet } from "./dom.js";

const say = whenQuiet((/** @type {string} */ text) => {
  const region = document.getElementById("announce");
  if (region) region.textContent = text;
}, 400);

/** @param {string} text */
export function announce(text) {
  say(text);
}
