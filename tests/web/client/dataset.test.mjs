/** The pure modules of the data set view, against numbers worked out by hand. */
import assert from "node:assert/strict";
import { test } from "node:test";

const root = new URL("../../../src/conceptlens/web/client/js/dataset/", import.meta.url);
const { readTable, truthOf, guessOf, measure, measures } = await import(new URL("table.js", root));
const { confusedPairs, confusion, conceptCounts, mask, rowsOf } = await import(new URL("filter.js", root));
const { gridPlaces, inside, nearest, scatter, zoomed } = await import(new URL("geometry.js", root));
const { channels, colorsBy, packed, splat } = await import(new URL("splat.js", root));
const { rowsByTag, tagPlaces } = await import(new URL("tags.js", root));

/** A safetensors file of three images, two classes, two concepts. */
function file() {
  const words = {
    split: "test",
    ids: ["a.png", "b.png", "c.png"],
    classes: ["cat", "dog"],
    task: "single",
    concepts: ["ear: long", "ear: short"],
    groups: [{ name: "ear", kind: "exclusive", start: 0, values: ["long", "short"] }],
    columns: { site: ["north", "south"] },
    bound: 2.5,
  };
  const parts = [
    ["confidence", "F32", [3], new Float32Array([0.9, 0.5, 0.75])],
    ["ood", "F32", [3], new Float32Array([1, 2, 3])],
    ["label", "I16", [3], new Int16Array([0, 1, -1])],
    ["guess", "I16", [3], new Int16Array([0, 0, 1])],
    ["column.site", "I16", [3], new Int16Array([0, 1, 1])],
    ["right", "I8", [3], new Int8Array([1, 0, -1])],
    ["concept_probs", "U8", [3, 2], new Uint8Array([255, 0, 51, 204, 0, 255])],
    ["concept_labels", "I8", [3, 2], new Int8Array([1, 0, 0, 1, -1, -1])],
  ];
  const header = { __metadata__: { table: JSON.stringify(words) } };
  let offset = 0;
  for (const [name, dtype, shape, data] of parts) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + data.byteLength] };
    offset += data.byteLength;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const whole = new Uint8Array(8 + text.length + offset);
  new DataView(whole.buffer).setBigUint64(0, BigInt(text.length), true);
  whole.set(text, 8);
  let at = 8 + text.length;
  for (const [, , , data] of parts) {
    whole.set(new Uint8Array(data.buffer), at);
    at += data.byteLength;
  }
  return whole.buffer;
}
const table = readTable(file());

test("a table is read from its bytes", () => {
  assert.equal(table.size, 3);
  assert.deepEqual(table.ids, ["a.png", "b.png", "c.png"]);
  assert.equal(truthOf(table, 1), "dog");
  assert.equal(guessOf(table, 1), "cat");
  assert.equal(truthOf(table, 2), "");
  assert.deepEqual(measures(table), ["confidence", "out-of-distribution score", "ear: long", "ear: short"]);
  assert.deepEqual([...measure(table, "ear: short")].map((value) => Math.round(value * 100)), [0, 80, 100]);
});

test("filters add up", () => {
  const rows = (filters, tags) => [...rowsOf(mask(table, filters, tags))];
  assert.deepEqual(rows({}), [0, 1, 2]);
  assert.deepEqual(rows({ truth: "dog" }), [1]);
  assert.deepEqual(rows({ guess: "cat" }), [0, 1]);
  assert.deepEqual(rows({ guess: "cat", error: "wrong" }), [1]);
  assert.deepEqual(rows({ error: "unlike" }), [2]);
  assert.deepEqual(rows({ error: "unlabeled" }), [2]);
  assert.deepEqual(rows({ concept: "ear: short", least: 0.85 }), [2]);
  assert.deepEqual(rows({ column: "site", group: "south" }), [1, 2]);
  assert.deepEqual(rows({ words: "B.P" }), [1]);
  assert.deepEqual(rows({ tag: "odd" }, new Map([["odd", new Set([0, 2])]])), [0, 2]);
  assert.deepEqual(rows({ rows: Uint32Array.of(2, 0), guess: "cat" }), [0]);
});

test("images are counted by class, prediction and concept", () => {
  const all = new Uint8Array(3).fill(1);
  assert.deepEqual([...confusion(table, all)], [1, 0, 1, 0]);
  assert.deepEqual(confusedPairs(table, all), [[1, 0, 1]]);
  assert.deepEqual([...conceptCounts(table, all)], [1, 2]);
});

test("a filter of 50,000 images takes less than 100 ms", () => {
  const size = 50_000;
  const many = {
    ...table,
    size,
    ids: Array.from({ length: size }, (_, row) => `image-${row}.png`),
    arrays: {
      label: new Int16Array(size).map((_, row) => row % 2),
      guess: new Int16Array(size).map((_, row) => row % 3 && 1),
      right: new Int8Array(size),
      concept_probs: new Uint8Array(size * 2).fill(200),
    },
  };
  const times = [1, 2, 3, 4, 5].map(() => {
    const begun = performance.now();
    const rows = rowsOf(mask(many, { truth: "dog", error: "wrong", concept: "ear: long", words: "image" }));
    assert.equal(rows.length, size / 2);
    return performance.now() - begun;
  });
  assert.ok(Math.min(...times) < 100); // the others may wait for a busy machine
});

test("places fill the unit square, the largest value above", () => {
  const { x, y } = scatter([2, 4, 6], [0, 10, NaN]);
  assert.deepEqual([...x], [0, 0.5, 1]);
  assert.deepEqual([...y], [1, 0, 1]);
});

test("a grid has no place for what is left out", () => {
  const { x, y } = gridPlaces(Uint32Array.of(3, 1, 0), 4, 2);
  assert.deepEqual([x[3], y[3], x[1], y[1], x[0], y[0]], [0.25, 0.25, 0.75, 0.25, 0.25, 0.75]);
  assert.equal(x[2], -9);
});

test("a lasso holds what lies within it", () => {
  const places = { x: Float32Array.of(0.5, 0.9, 0.2), y: Float32Array.of(0.5, 0.9, 0.3) };
  const fits = Uint8Array.of(1, 1, 0);
  const triangle = [[0, 0], [1, 0], [0.5, 1]]; // prettier-ignore
  assert.deepEqual([...inside(places, fits, triangle)], [0]);
  assert.equal(nearest(places, fits, 0.85, 0.9, 0.1), 1);
  assert.equal(nearest(places, fits, 0.2, 0.3, 0.1), -1);
});

test("zooming keeps the point under the pointer", () => {
  const before = { x: 0, y: 0, scale: 100 };
  const after = zoomed(before, 2, 50, 20, 100);
  assert.deepEqual(after, { x: 0.25, y: 0.1, scale: 200 });
  assert.equal(after.x + 50 / after.scale, before.x + 50 / before.scale);
});

test("points are written where they lie, what fits above what does not", () => {
  const pixels = new Uint32Array(16);
  const places = { x: Float32Array.of(0.25, 0.25), y: Float32Array.of(0.5, 0.5) };
  splat(pixels, 4, 4, places, { x: 0, y: 0, scale: 4 }, Uint32Array.of(7, 8), Uint8Array.of(1, 0), { side: 1, faint: 3 });
  assert.equal(pixels[2 * 4 + 1], 7);
  assert.equal(pixels.filter(Boolean).length, 1);
});

test("colors are those of groups or of values", () => {
  const palette = [[1, 0, 0], [0, 2, 0]]; // prettier-ignore
  const look = { palette, gray: [9, 9, 9], heat: (t) => [Math.round(255 * t), 0, 0] };
  assert.equal(packed([1, 2, 3]), 0xff030201);
  assert.deepEqual(channels("rgb(1, 2, 3)"), [1, 2, 3]);
  assert.deepEqual([...colorsBy(3, { ...look, member: [0, 1, -1] })], [[1, 0, 0], [0, 2, 0], [9, 9, 9]].map((c) => packed(c))); // prettier-ignore
  assert.deepEqual([...colorsBy(2, { ...look, values: [3, 5] })], [packed([0, 0, 0]), packed([255, 0, 0])]);
});

test("images are colored by their tag", () => {
  const tags = rowsByTag(["a.png", "b.png", "c.png"], { "b.png": { group: "blurred" }, "c.png": { group: "odd" } });
  assert.deepEqual([...tagPlaces(tags, 3)], [-1, 0, 1]);
});
