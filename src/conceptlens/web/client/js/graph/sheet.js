/** The sample sheet of a node: what shows it, where it is, which classes it works for, what makes it and what it makes. */
import { heat } from "../colors.js";
import { h, put } from "../dom.js";
import { annotateForm } from "../parts/annotate.js";
import { command } from "../parts/frame.js";
import { count, plural } from "../words.js";
import { part, strength } from "./numbers.js";

const NEIGHBORS = 8;
const CROP = 88; // side on the screen

/**
 * @param {{model: import("./model.js").Model, number: number, kept: boolean, outputs: number[], load: () => Promise<any>, sheet: string, image: (number: number) => string, redraw: string, onpick: (number: number) => void, onkeep: () => void, onshow: () => void, onclose: () => void, onhover: (number: number | null) => void}} given
 */
export function nodeSheet(given) {
  const { model, number, outputs } = given;
  const node = model.nodes[number];
  const later = h("div", { class: "stack" });
  const keep = h(
    "button",
    { type: "button", "aria-pressed": String(given.kept), onclick: given.onkeep },
    given.kept ? "Kept" : "Keep",
  );
  const panel = h(
    "section",
    { class: "card graph-sheet", "aria-label": `Sheet of ${model.title(node)}` },
    h(
      "header",
      {},
      h("h2", { tabindex: "-1" }, model.title(node)),
      h(
        "button",
        { type: "button", class: "quiet icon", "aria-label": "Close the sheet", onclick: given.onclose },
        "×",
      ),
    ),
    h("p", { class: "note" }, about(model, node)),
    h("div", { class: "row" }, keep, h("button", { type: "button", onclick: given.onshow }, "Show in the graph")),
    node.kind === "concept" ? annotateForm({ kind: "node", of: node.id, number }) : null,
    later,
    node.shares.length && node.kind !== "output" ? activity(model, node, outputs) : null,
    neighbors("Made by", model.into[number], (/** @type {number} */ edge) => model.edges.source[edge], given),
    neighbors("Makes", model.outOf[number], (/** @type {number} */ edge) => model.edges.target[edge], given),
  );
  if (node.kind === "concept") {
    given
      .load()
      .then((detail) => put(later, samples(given, node, detail), places(given, detail), facts(model, node, detail)))
      .catch((error) => put(later, h("p", { class: "note", role: "alert" }, error.message)));
  }
  return panel;
}

/** @param {import("./model.js").Model} model @param {import("./model.js").GraphNode} node */
function about(model, node) {
  if (node.kind === "output") return "The output of the network.";
  if (node.kind === "error")
    return `What no concept explains: ${part(model.share(node))} of this layer's effect on an output comes from the part of its activations that its concepts do not reconstruct.`;
  const of = node.top_of.map((place) => model.outputs[place]);
  if (of.length > 1) return `Among the strongest of its layer for ${of.join(" and ")}: they share it.`;
  if (of.length) return `Among the strongest of its layer for ${of[0]}.`;
  return node.shared
    ? "Not among the strongest of its layer for any class, but used by several."
    : "A concept of the data.";
}

/** The nearest samples, from the one picture that holds them all. @param {import("./model.js").GraphNode} node @param {Answers.NodeAnswer} detail */
function samples(/** @type {{sheet: any, redraw: string}} */ { sheet, redraw }, node, detail) {
  if (!detail.crops.length) return null;
  if (!detail.sheet)
    return [
      h("h3", {}, "Nearest samples"),
      h("p", { class: "note" }, "Their pictures were not saved."),
      command(redraw),
    ];
  return h(
    "div",
    {},
    h("h3", {}, "Nearest samples"),
    h(
      "ul",
      { class: "graph-crops" },
      detail.crops.map((crop, place) =>
        h(
          "li",
          {},
          h("span", {
            class: "crop",
            role: "img",
            "aria-label": `Sample ${place + 1}: ${crop.image}, similarity ${crop.cosine.toFixed(2)}`,
            title: `${crop.image}, similarity ${crop.cosine.toFixed(2)}`,
            style: {
              "background-image": `url("${sheet}")`,
              "background-size": `${CROP * detail.crops.length}px ${CROP}px`,
              "background-position": `${-CROP * place}px 0`,
            },
          }),
          h("small", {}, crop.cosine.toFixed(2)),
        ),
      ),
    ),
  );
}

/** Where the concept is in the images that have most of it. @param {Answers.NodeAnswer} detail */
function places(/** @type {{image: any}} */ { image }, detail) {
  const some = detail.places.filter((place) => place.picture !== null);
  if (!some.length) return null;
  return h(
    "div",
    {},
    h("h3", {}, "Where it is active"),
    h(
      "ul",
      { class: "graph-crops" },
      some.map((place) => {
        const canvas = h("canvas", {
          width: 2 * CROP,
          height: 2 * CROP,
          class: "crop",
          role: "img",
          "aria-label": `Where it is active in ${place.image}`,
          title: place.image,
        });
        const picture = new Image();
        picture.onload = () => overlay(canvas, picture, place);
        picture.src = image(place.picture);
        return h("li", {}, canvas);
      }),
    ),
  );
}

/** @param {HTMLCanvasElement} canvas @param {any} picture */
function overlay(canvas, picture, /** @type {{grid: any, values: any[]}} */ { grid: [rows, columns], values }) {
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  const most = Math.max(...values.flat(), 0);
  if (!(most > 0)) return;
  const small = h("canvas", { width: columns, height: rows });
  const dots = /** @type {CanvasRenderingContext2D} */ (small.getContext("2d"));
  const pixels = dots.createImageData(columns, rows);
  values.flat().forEach((value, cell) => {
    const part = Math.max(value, 0) / most;
    pixels.data.set([...heat(part), Math.round(255 * 0.62 * part)], 4 * cell);
  });
  dots.putImageData(pixels, 0, 0);
  pen.imageSmoothingEnabled = true;
  pen.drawImage(small, 0, 0, canvas.width, canvas.height);
}

/** @param {import("./model.js").Model} model @param {import("./model.js").GraphNode} node @param {Answers.NodeAnswer} detail */
function facts(model, node, detail) {
  const of = detail.active_of?.map(
    (value, place) => `${model.outputs[place]} ${value} of ${model.answer.images_of[place]}`,
  );
  return h(
    "dl",
    { class: "facts" },
    h("dt", {}, "Used in"),
    h(
      "dd",
      {},
      `${node.active} of ${plural(model.answer.images, "image")}${of && of.length > 1 ? `: ${of.join(", ")}` : ""}`,
    ),
    detail.samples === null ? null : [h("dt", {}, "Samples"), h("dd", {}, `${count(detail.samples)} in its cluster`)],
  );
}

/** What it adds to each class, as a share of all that its layer adds or takes. @param {import("./model.js").Model} model @param {import("./model.js").GraphNode} node @param {number[]} outputs */
function activity(model, node, outputs) {
  const order = node.shares
    .map((share, place) => ({ share, place }))
    .sort((a, b) => Number(outputs.includes(b.place)) - Number(outputs.includes(a.place)) || Math.abs(b.share) - Math.abs(a.share))
    .slice(0, 8);
  const most = Math.max(...order.map((each) => Math.abs(each.share)), 1e-9);
  return h(
    "div",
    {},
    h("h3", {}, "Activity by class"),
    h(
      "ul",
      { class: "shares" },
      order.map(({ share, place }) =>
        h(
          "li",
          { title: `${model.outputs[place]}: ${strength(node.contributions[place])}` },
          h("span", { class: "name" }, model.outputs[place]),
          h(
            "span",
            { class: "track", "aria-hidden": "true" },
            h("span", {
              class: `bar-fill ${node.contributions[place] < 0 ? "negative" : "positive"}`,
              style: { width: `${(100 * Math.abs(share)) / most}%` },
            }),
          ),
          h("span", { class: "num" }, part(share)),
        ),
      ),
    ),
    h("p", { class: "note" }, "Its share of all contributions of its layer to a class."),
  );
}

/** @param {string} title @param {any[]} edges @param {any} other */
function neighbors(title, edges, other, /** @type {{model: import("./model.js").Model, onpick: (...args: any[]) => void, onhover: (...args: any[]) => void}} */ { model, onpick, onhover }) {
  if (!edges.length) return null;
  return h(
    "div",
    {},
    h("h3", {}, `${title}, strongest first`),
    h(
      "ul",
      { class: "graph-neighbors" },
      edges.slice(0, NEIGHBORS).map((edge) => {
        const node = model.nodes[other(edge)];
        const sign = model.sign(edge);
        return h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              onclick: () => onpick(node.number),
              onpointerenter: () => onhover(node.number),
              onpointerleave: () => onhover(null),
            },
            h("span", { class: "label" }, model.title(node)),
            h(
              "span",
              { class: "track", "aria-hidden": "true" },
              h("span", {
                class: `bar-fill ${sign === "minus" ? "negative" : sign === "rest" ? "neutral" : ""}`,
                style: { width: `${100 * model.edges.weight[edge]}%` },
              }),
            ),
            h("span", { class: `num ${sign === "rest" ? "" : sign}` }, strength(model.edges.value[edge])),
          ),
        );
      }),
    ),
    edges.length > NEIGHBORS ? h("p", { class: "note" }, `and ${edges.length - NEIGHBORS} more, in the table`) : null,
  );
}
