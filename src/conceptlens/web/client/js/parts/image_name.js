/** Names of images as links. Results of a run know images by their names; which place that is, the image's view asks. */
import { format } from "../address.js";
import { api } from "../api.js";
import { h } from "../dom.js";

/** @param {string} run @param {string} split @param {string} name */
export const imageName = (run, split, name) =>
  h("a", { class: "break", href: format("image", { run, split: split === "test" ? null : split, name }) }, name);

/** The place `split/row` of an image that has this name. @param {string} run @param {string} split @param {string} name */
export async function placeOf(run, split, name) {
  const { items } = await api.images(run, { split, name, size: 1 });
  if (!items.length) throw new Error(`No image of ${split} is named ${name}.`);
  return `${split}/${items[0].row}`;
}
