/** Where an image of the studio comes from: those that were written, a generator with a seed, or a file. */
import { choice, h, rove } from "../dom.js";
import { source } from "../studio.js";
import { percent } from "../words.js";

/**
 * @param {{about: any, live: boolean, onopen: (name: string) => void, onfile: (file: File) => void}} options
 * @returns the strip of written images, the controls that make others, the name of the first, and `mark`
 */
export function imageSources({ about, live, onopen, onfile }) {
  const strip = h("ul", { class: "strip", "aria-label": "Written images" });
  for (const each of about.images)
    strip.append(
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            class: "thumb",
            "data-row": String(each.row),
            "aria-pressed": "false",
            tabindex: strip.children.length ? "-1" : "0",
            title: `${about.concepts[each.concept]} · ${percent(each.probability)} by the extractor`,
            "aria-label": `${about.concepts[each.concept]}, sample ${each.row}, ${percent(each.probability)}`,
            onclick: () => onopen(String(each.row)),
          },
          each.picture ? h("img", { src: source(each.picture), alt: "", loading: "lazy" }) : `${each.row}`,
        ),
      ),
    );
  rove(strip, ".thumb");

  const conditions = about.source === "generated" ? [...about.concepts, "neutral"] : ["neutral"];
  let condition = conditions[0];
  const seedField = h("input", { type: "number", min: "0", max: "2147483647", value: "0" });
  const file = h("input", {
    type: "file",
    class: "hidden",
    id: "studio-file",
    accept: "image/*,.dcm,.tif,.tiff",
    tabindex: "-1",
    "aria-hidden": "true",
    onchange: () => {
      if (file.files[0]) onfile(file.files[0]);
      file.value = "";
    },
  });
  const makers = live
    ? h(
        "div",
        { class: "row makers" },
        about.source === "generated"
          ? [
              choice("Generate", conditions, condition, (key) => {
                condition = key;
              }),
              h("label", { class: "field seed" }, "Seed", seedField),
              h(
                "button",
                {
                  type: "button",
                  onclick: () => onopen(`made:${Math.max(0, Number(seedField.value) || 0)}:${condition}`),
                },
                "Generate",
              ),
            ]
          : null,
        h("button", { type: "button", onclick: () => file.click() }, "Open an image file…"),
        file,
      )
    : null;
  const first = about.images.length ? String(about.images[0].row) : live ? `made:0:${condition}` : null;

  /** @param {string} name */
  function mark(name) {
    for (const each of strip.querySelectorAll(".thumb"))
      each.setAttribute("aria-pressed", String(each.dataset.row === name));
  }
  return { strip, makers, first, mark };
}
