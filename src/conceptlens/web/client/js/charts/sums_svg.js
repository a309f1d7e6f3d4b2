/** Contributions as a picture of their own, to be taken home. */
import { max } from "../../vendor/d3.js";
import { h, s } from "../dom.js";
import { savePNG, saveSVG } from "../download.js";
import { signed } from "../words.js";

const ROW = 24;

/** @param {{sum: any, rows: {label: string, value: number}[]}} data what the page shows @param {any} prediction @param {string} name @param {"svg" | "png"} kind */
export function saveSums(data, prediction, name, kind) {
  const svg = draw(data, prediction);
  const holder = h("div", { class: "hidden" }, svg);
  document.body.append(holder); // styles are read from what is in the page
  (kind === "svg" ? saveSVG : savePNG)(svg, name);
  setTimeout(() => holder.remove(), 2000);
}

/** @param {Answers.Prediction} prediction */
function draw(/** @type {{sum: any, rows: any[]}} */ { sum, rows: shown }, prediction) {
  const rows = [
    ...shown,
    { label: `logit of ${sum.of}${sum.minus ? ` minus ${sum.minus}` : ""}`, value: sum.total },
  ];
  const [width, left] = [640, 260];
  const reach = max(rows, (/** @type {any} */ row) => Math.abs(row.value)) || 1;
  const center = left + 160;
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${rows.length * ROW + 44}` },
    s("text", { class: "name", x: 12, y: 22 }, `${prediction.image.id}: ${prediction.predicted.join(", ")}`),
    rows.map((row, place) => {
      const y = 36 + place * ROW;
      const wide = (150 * Math.abs(row.value)) / reach;
      return [
        s("text", { class: "name", x: left - 8, y: y + 14, "text-anchor": "end" }, row.label),
        s("rect", {
          class: row.value < 0 ? "f1" : "f0",
          x: row.value < 0 ? center - wide : center,
          y: y + 3,
          width: wide,
          height: 14,
        }),
        s("text", { x: width - 8, y: y + 14, "text-anchor": "end" }, signed(row.value)),
      ];
    }),
    s("path", { class: "grid", d: `M${center} 34V${36 + rows.length * ROW}` }),
  );
}
