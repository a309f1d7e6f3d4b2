/** A patch and what is around it, cut from a picture, with a frame around the patch. */
import { h } from "../dom.js";

const shared = new Map(); // pictures that several crops are cut from

/** @param {string} source */
function load(source) {
  if (!shared.has(source)) {
    if (shared.size > 200) shared.clear();
    shared.set(
      source,
      new Promise((resolve, reject) => {
        const image = new Image();
        image.onload = () => resolve(image);
        image.onerror = reject;
        image.src = source;
      }),
    );
  }
  return shared.get(source);
}

/** @param {string} source @param {[number, number]} grid @param {number} cell @param {{side?: number, around?: number, label: string}} options */
export function crop(source, grid, cell, { side = 64, around = 1, label }) {
  const canvas = h("canvas", { width: side * 2, height: side * 2, class: "crop", role: "img", "aria-label": label });
  canvas.style.width = `${side}px`;
  load(source).then(
    (/** @type {any} */ image) => {
      const [rows, columns] = grid;
      const [w, height] = [image.naturalWidth / columns, image.naturalHeight / rows];
      const [x, y] = [(cell % columns) * w, Math.floor(cell / columns) * height];
      const span = Math.min(1 + 2 * around, rows, columns);
      const left = Math.min(Math.max(x - around * w, 0), image.naturalWidth - span * w);
      const top = Math.min(Math.max(y - around * height, 0), image.naturalHeight - span * height);
      const pen = canvas.getContext("2d");
      pen.imageSmoothingQuality = "high";
      pen.drawImage(image, left, top, span * w, span * height, 0, 0, canvas.width, canvas.height);
      const scale = canvas.width / (span * w);
      const frame = [(x - left) * scale, (y - top) * scale, w * scale, height * scale];
      pen.lineWidth = 5;
      pen.strokeStyle = "rgb(0 0 0 / 0.6)";
      pen.strokeRect(...frame);
      pen.lineWidth = 2.5;
      pen.strokeStyle = "#fff";
      pen.strokeRect(...frame);
    },
    () => canvas.classList.add("lost"),
  );
  return canvas;
}
