/** The edits of one visit to "What if": in order, with undo, and in the address. */
import { note } from "./address.js";
import { withEdit } from "./head.js";

const BREAK = "\n"; // no name of a concept has one

/** @param {string | undefined} text @returns {string[]} */
export const readEdits = (text) => (text ? text.split(BREAK).filter(Boolean) : []);

export class Edits {
  /** @param {any[]} groups @param {string[]} list @param {() => void} changed */
  constructor(groups, list, changed) {
    this.groups = groups;
    this.list = list;
    this.changed = changed;
    /** @type {string[][]} */
    this.past = [];
    /** @type {string | null} */
    this.dragging = null;
  }

  /** Put something else in place; a step that can be undone. @param {string[]} list */
  set(list) {
    if (list.join(BREAK) === this.list.join(BREAK)) return;
    this.past.push(this.list);
    this.dragging = null;
    this.#become(list);
  }

  /** @param {string[]} edits */
  add(...edits) {
    this.set(edits.reduce((list, edit) => withEdit(this.groups, list, edit), this.list));
  }

  /** While a slider is held, all its moves are one step. @param {string} name @param {string} edit */
  drag(name, edit) {
    if (this.dragging !== name) {
      this.past.push(this.list);
      this.dragging = name;
    }
    this.#become(withEdit(this.groups, this.list, edit));
  }

  drop() {
    this.dragging = null;
  }

  /** @param {string} edit */
  remove(edit) {
    this.set(this.list.filter((each) => each !== edit));
  }

  undo() {
    const before = this.past.pop();
    this.dragging = null;
    if (before) this.#become(before);
    return Boolean(before);
  }

  /** @param {string[]} list */
  #become(list) {
    this.list = list;
    note({ edits: list.join(BREAK) });
    this.changed();
  }
}
