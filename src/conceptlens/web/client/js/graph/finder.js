/** A field that finds nodes by their name, their layer or their class. */
import { h, put, rove, whenQuiet } from "../dom.js";
import { announce } from "../announce.js";
import { plural } from "../words.js";
import { part } from "./numbers.js";

/** @param {import("./model.js").Model} model @param {(number: number) => void} onpick */
export function finder(model, onpick) {
  const list = h("ul", { class: "graph-found", hidden: true });
  let found = [];
  const close = () => {
    list.hidden = true;
  };
  const take = (/** @type {import("./model.js").GraphNode} */ node) => {
    close();
    input.value = "";
    onpick(node.number);
  };

  function draw() {
    found = model.find(input.value);
    list.hidden = !input.value.trim();
    put(
      list,
      found.length
        ? found.map((node, place) =>
            h(
              "li",
              {},
              h(
                "button",
                { type: "button", class: "quiet", tabindex: place ? "-1" : "0", onclick: () => take(node) },
                h("span", { class: "label" }, model.title(node)),
                node.kind === "output" ? null : h("small", {}, part(model.share(node))),
              ),
            ),
          )
        : h("li", { class: "note" }, "Nothing matches."),
    );
    if (input.value.trim()) announce(found.length ? `${plural(found.length, "node")} found` : "Nothing matches");
  }

  const input = h("input", {
    type: "search",
    placeholder: "Find a node",
    "aria-label": "Find a node by its name, its layer or its class",
    autocomplete: "off",
    oninput: whenQuiet(draw, 120),
    onkeydown: (/** @type {any} */ event) => {
      if (event.key === "Enter") {
        found = model.find(input.value);
        if (found.length) take(found[0]);
      } else if (event.key === "ArrowDown" && !list.hidden) list.querySelector("button")?.focus();
      else if (event.key === "Escape") close();
      else return;
      event.preventDefault();
    },
  });
  rove(list, "button");
  const node = h("div", { class: "graph-finder" }, input, list);
  node.addEventListener("keydown", (/** @type {any} */ event) => {
    if (event.key !== "Escape" || list.hidden) return;
    close();
    input.focus();
  });
  node.addEventListener("focusout", (/** @type {any} */ event) => {
    if (!node.contains(event.relatedTarget)) close();
  });
  return node;
}
