/** Elements without a framework. Text is only ever set as text, so that no name in a run folder can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties and children.
 * `on…` are listeners, `style` is an object of CSS properties (set through the CSSOM, which a strict policy allows),
 * `class`, `aria-…`, `data-…` and the like are attributes. A property that is null, undefined or false is left out.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...any} children nodes, strings, numbers, arrays of them; null and false are skipped
 * @returns {any}
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. @param {string} tag @param {Record<string, any>} [props] @param {...any} children @returns {any} */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** @param {any} node @param {Record<string, any>} props @param {any[]} children */
function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden" || name === "selected")
      node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

/** @param {any} node @param {any[]} children */
function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Put other children in place of those that are there. @param {any} node @param {...any} children */
export function put(node, ...children) {
  node.replaceChildren();
  add(node, children);
  return node;
}

/** Draw anew what is below a node; who stood on a link or a control in it stays on the one of the same name. @param {HTMLElement} node @param {() => void} draw */
export function keepFocus(node, draw) {
  const named = (/** @type {Element} */ each) => `${each.tagName} ${each.getAttribute("href") ?? ""} ${each.getAttribute("aria-label") ?? each.textContent}`;
  const active = document.activeElement;
  const name = active && node.contains(active) ? named(active) : null;
  draw();
  const controls = /** @type {HTMLElement[]} */ ([...node.querySelectorAll("a, button, input, select")]);
  if (name) controls.find((each) => named(each) === name)?.focus();
}

/** The head of a table: columns of words, columns of numbers, and what stands after those. @param {string[]} words @param {string[]} numbers @param {string[]} after */
export function tableHead(words, numbers = [], after = []) {
  const cells = (/** @type {string[]} */ names, props = {}) => names.map((name) => h("th", { scope: "col", ...props }, name));
  return h("thead", {}, h("tr", {}, cells(words), cells(numbers, { class: "num" }), cells(after)));
}

/** What may be wider than the page and then scrolls, by keys as well; a shadow at its right edge says that there is more. @param {string} label @param {Record<string, any>} props @param {...any} children */
export function scrolling(label, props = {}, ...children) {
  const node = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label, ...props }, children);
  const mark = () => node.classList.toggle("more", node.scrollWidth - node.clientWidth - node.scrollLeft > 4);
  node.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(node);
  return node;
}

/** A slider from 0 to 1. @param {string} label @param {number} value @param {(value: number) => void} oninput */
export function opacitySlider(label, value, oninput) {
  const props = { type: "range", min: "0", max: "1", step: "0.05", value: String(value), "aria-label": label };
  const input = h("input", { ...props, oninput: () => oninput(Number(input.value)) });
  return input;
}

/** A field for words to look for; it waits until one stops typing. @param {string} label @param {string} placeholder @param {string} value @param {(words: string) => void} onwords */
export function searchField(label, placeholder, value, onwords) {
  const props = { type: "search", value, placeholder, "aria-label": label };
  const input = h("input", { ...props, oninput: whenQuiet(() => onwords(input.value), 120) });
  return input;
}

/**
 * A select with options; `options` are [value, text] pairs or plain strings.
 * @param {string} label @param {any[]} options @param {any} value @param {(value: string) => void} onchange
 * @param {Record<string, any>} props
 */
export function choice(label, options, value, onchange, props = {}) {
  const select = h("select", { onchange: () => onchange(select.value), ...props });
  for (const option of options) {
    const [key, text] = Array.isArray(option) ? option : [option, option];
    select.append(h("option", { value: key, selected: String(key) === String(value) }, text));
  }
  return h("label", { class: "field" }, label, select);
}

/**
 * Buttons of which one is pressed; arrow keys go from one to the next.
 * @param {string} label @param {any[]} options as [key, text] @param {any} value @param {(key: any) => void} onchange
 */
export function segment(label, options, value, onchange) {
  const group = h("div", { class: "segment", role: "group", "aria-label": label });
  const set = (/** @type {any} */ chosen) => {
    for (const each of group.children) {
      const on = each.dataset.value === String(chosen);
      each.setAttribute("aria-pressed", String(on));
      each.tabIndex = on ? 0 : -1;
    }
  };
  for (const [key, text] of options) {
    group.append(
      h(
        "button",
        {
          type: "button",
          "data-value": key,
          onclick: () => {
            set(key);
            onchange(key);
          },
        },
        text,
      ),
    );
  }
  set(value);
  if (![...group.children].some((/** @type {any} */ each) => each.tabIndex === 0) && group.firstChild) group.firstChild.tabIndex = 0;
  rove(group, "button", "both");
  return Object.assign(group, { set });
}

/**
 * Roving tabindex: one item of a group is in the tab order, arrow keys, Home and End move among them.
 * @param {HTMLElement} group
 * @param {string} selector
 * @param {"both" | "grid"} kind with "grid", up and down go by rows as they stand on the screen
 */
export function rove(group, selector, kind = "both") {
  group.addEventListener("keydown", (event) => {
    const items = /** @type {any[]} */ ([...group.querySelectorAll(selector)]).filter((each) => !each.disabled && each.offsetParent !== null);
    const here = items.indexOf(document.activeElement);
    if (here < 0) return;
    const to = target(event.key, items, here, kind);
    if (to === null) return;
    event.preventDefault();
    for (const each of items) each.tabIndex = -1;
    items[to].tabIndex = 0;
    items[to].focus();
  });
}

/** @param {string} key @param {HTMLElement[]} items @param {number} here @param {string} kind @returns {number | null} */
function target(key, items, here, kind) {
  const last = items.length - 1;
  if (key === "Home") return 0;
  if (key === "End") return last;
  if (key === "ArrowRight" || (key === "ArrowDown" && kind !== "grid")) return Math.min(here + 1, last);
  if (key === "ArrowLeft" || (key === "ArrowUp" && kind !== "grid")) return Math.max(here - 1, 0);
  if (kind === "grid" && (key === "ArrowDown" || key === "ArrowUp")) {
    const box = items[here].getBoundingClientRect();
    const down = key === "ArrowDown";
    /** @type {number | null} */
    let best = null;
    let least = Infinity;
    items.forEach((each, place) => {
      const other = each.getBoundingClientRect();
      const dy = (other.top - box.top) * (down ? 1 : -1);
      if (dy < box.height / 2) return;
      const far = dy * 1000 + Math.abs(other.left - box.left);
      if (far < least) [least, best] = [far, place];
    });
    return best;
  }
  return null;
}

/** At most one call a frame, with the last arguments. @param {(...args: any[]) => void} call */
export function eachFrame(call) {
  let waiting = 0;
  /** @type {any[]} */
  let latest = [];
  return (/** @type {any[]} */ ...args) => {
    latest = args;
    if (!waiting)
      waiting = requestAnimationFrame(() => {
        waiting = 0;
        call(...latest);
      });
  };
}

/** Called once things have been quiet for a while. @param {(...args: any[]) => void} call */
export function whenQuiet(call, wait = 250) {
  let timer = 0;
  return (/** @type {any[]} */ ...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), wait);
  };
}
