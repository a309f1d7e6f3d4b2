/** Take a picture or the numbers home. */
import { h } from "./dom.js";
import { announce } from "./announce.js";

const STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "fill-opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "display",
];

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  announce(`${name} saved`);
}

/** A copy of an SVG that needs no style sheet: what CSS says is written into it. @param {SVGSVGElement} svg */
function standalone(svg) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, place) => {
    const style = getComputedStyle(node);
    for (const name of STYLES) {
      const value = style.getPropertyValue(name);
      if (value) to[place].setAttribute(name, value);
    }
  });
  const box = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x: box.x, y: box.y, width: box.width, height: box.height }))
    ground.setAttribute(name, String(value));
  ground.setAttribute("fill", getComputedStyle(document.querySelector(".card") ?? document.body).backgroundColor);
  copy.insertBefore(ground, copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
}

/** @param {any} data @param {string} name */
export function saveJSON(data, name) {
  save(new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }), `${name}.json`);
}

/** @param {string} text @param {string} name */
export function saveText(text, name, type = "text/plain") {
  save(new Blob([text], { type }), name);
}

/** A file that the server writes. @param {string} address @param {string} name */
export function saveFrom(address, name) {
  h("a", { href: address, download: name }).click();
  announce(`${name} saved`);
}

/** @param {SVGSVGElement} svg @param {string} name */
export function saveSVG(svg, name) {
  save(new Blob([standalone(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** @param {HTMLCanvasElement} canvas @param {string} name */
export function saveCanvas(canvas, name) {
  canvas.toBlob((blob) => blob && save(blob, `${name}.png`), "image/png");
}

/** An SVG drawn at twice its size. @param {SVGSVGElement} svg @param {string} name */
export function savePNG(svg, name) {
  const picture = new Image();
  picture.onload = () => {
    const canvas = h("canvas", {});
    canvas.width = 2 * svg.viewBox.baseVal.width;
    canvas.height = 2 * svg.viewBox.baseVal.height;
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    saveCanvas(canvas, name);
  };
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
}

/**
 * The menu of what can be taken home.
 * @param {Array<[string, () => void] | null>} entries text and what it does
 */
export function downloadMenu(entries) {
  const menu = h("details", { class: "menu" }, h("summary", {}, "Download"));
  const list = h("div", {});
  for (const entry of entries) {
    if (entry)
      list.append(
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              menu.open = false;
              entry[1]();
            },
          },
          entry[0],
        ),
      );
  }
  menu.append(list);
  menu.addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key === "Escape" && menu.open) {
      menu.open = false;
      menu.firstChild.focus();
      event.stopPropagation();
    }
  });
  menu.addEventListener("focusout", (/** @type {any} */ event) => {
    if (!menu.contains(event.relatedTarget) && event.relatedTarget) menu.open = false;
  });
  return menu;
}

/** The two entries that a chart has. @returns {Array<[string, () => void]>} @param {string} what @param {() => any} svg @param {string} name */
export const pictureEntries = (what, svg, name) => [
  [`${what} (SVG)`, () => svg() && saveSVG(svg(), name)],
  [`${what} (PNG)`, () => svg() && savePNG(svg(), name)],
];
