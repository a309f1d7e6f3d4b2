/** Sheets of small pictures, fetched when one of their images is to be drawn, two at a time. */
import { dataset } from "./api.js";

const AT_ONCE = 2;

export class Sprites {
  /** @param {string} run @param {import("./table.js").Table} table @param {() => void} onload */
  constructor(run, table, onload) {
    this.run = run;
    this.table = table;
    this.onload = onload;
    this.side = table.sprites.side;
    this.across = table.sprites.across;
    /** @type {Map<number, HTMLImageElement | null>} null: asked for, or not to be had */
    this.sheets = new Map();
    /** @type {number[]} */
    this.waiting = [];
    this.loading = 0;
  }

  /** Where the picture of an image is; null while it is not there. @param {number} row */
  find(row) {
    const [size, side] = [this.across * this.across, this.side];
    const sheet = Math.floor(row / size);
    const image = this.sheets.get(sheet);
    if (image === undefined) this.ask(sheet);
    if (!image) return null;
    const place = row % size;
    return { image, x: (place % this.across) * side, y: Math.floor(place / this.across) * side, side };
  }

  /** @param {number} sheet */
  ask(sheet) {
    this.sheets.set(sheet, null);
    this.waiting.push(sheet);
    this.next();
  }

  next() {
    const sheet = this.loading < AT_ONCE ? this.waiting.pop() : undefined; // what was asked for last is looked at now
    if (sheet === undefined) return;
    this.loading += 1;
    const image = new Image();
    const done = () => {
      this.loading -= 1;
      this.next();
    };
    image.decoding = "async";
    image.onload = () => {
      this.sheets.set(sheet, image);
      done();
      this.onload();
    };
    image.onerror = done; // points stay where pictures are missing
    image.src = dataset.sprites(this.run, this.table.split, sheet);
  }
}
