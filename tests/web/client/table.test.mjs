/** The rows of the table of runs, by hand. */
import assert from "node:assert/strict";
import { test } from "node:test";

const root = new URL("../../../src/conceptlens/web/client/js/", import.meta.url);
const { curve, curveNames, filtered, grouped, joined, mean, metricNames, smoothed, sorted } = await import(new URL("table/rows.js", root)); // prettier-ignore
const { progressWords } = await import(new URL("jobs/progress.js", root));

const cards = [
  { key: "a", name: "a", kind: "bottleneck", method: "cbm", regularizer: "none", data: "cells", seed: 0, status: "done" },
  { key: "b", name: "b", kind: "bottleneck", method: "ivq-cbm", regularizer: "ivq", data: "cells", seed: 1, status: "running" },
  { key: "c", name: "c", kind: "comparison" },
  { key: "d", name: "d", kind: "bottleneck", method: "cbm", data: "birds", seed: 2, status: "done" },
]; // prettier-ignore
const known = [
  { key: "a", metrics: { "class.accuracy": 0.9, "class.ece": 0.1 }, intervals: {}, tag: "keep", note: "" },
  { key: "b", metrics: { "class.accuracy": 0.8 }, intervals: {}, tag: "", note: "odd" },
];
const rows = joined(cards, known);
const keys = (list) => list.map((row) => row.key).join("");

test("models have rows, with what the table knows", () => {
  assert.equal(keys(rows), "abd");
  assert.equal(rows[1].method, "ivq-cbm + ivq");
  assert.deepEqual(metricNames(rows), ["class.accuracy", "class.ece"]);
});

test("filters take words, columns and numbers", () => {
  assert.equal(keys(filtered(rows, "")), "abd");
  assert.equal(keys(filtered(rows, "CBM cells")), "ab");
  assert.equal(keys(filtered(rows, "class.accuracy>0.85")), "a");
  assert.equal(keys(filtered(rows, "class.accuracy<=0.9 seed=1")), "b");
  assert.equal(keys(filtered(rows, "tag:kee")), "a");
  assert.equal(keys(filtered(rows, "odd")), "b");
});

test("what has no value is sorted last, whichever way", () => {
  assert.equal(keys(sorted(rows, "class.accuracy", 1)), "bad");
  assert.equal(keys(sorted(rows, "class.accuracy", -1)), "abd");
  assert.equal(keys(sorted(rows, "data", 1)), "dab");
});

test("groups and means", () => {
  assert.deepEqual(grouped(rows, "data").map(([name, list]) => `${name} ${keys(list)}`), ["cells ab", "birds d"]);
  assert.ok(Math.abs(mean(rows, "class.accuracy") - 0.85) < 1e-12);
  assert.equal(mean(rows, "nothing"), null);
}); // prettier-ignore

test("a smoothed curve begins without a bias", () => {
  assert.deepEqual(smoothed([[0, 4], [1, 4]], 0.9).map(([, y]) => Math.round(y * 1e9) / 1e9), [4, 4]);
  assert.deepEqual(smoothed([[0, 0], [1, 3]], 0.5), [[0, 0], [1, 2]]); // (0.25·0 + 0.5·3) / 0.75
  assert.deepEqual(smoothed([[0, 1], [1, 5]], 0), [[0, 1], [1, 5]]);
}); // prettier-ignore

test("curves are read from histories, the last line of an epoch counts", () => {
  const lines = [{ epoch: 1, split: "val", x: 2, time: 9 }, { epoch: 0, split: "val", x: 1 }, { epoch: 1, split: "val", x: 3 }, { epoch: 1, split: "train", x: 7, bad: null }]; // prettier-ignore
  assert.deepEqual(curve(lines, "val", "x"), [[0, 1], [1, 3]]); // prettier-ignore
  assert.deepEqual(curveNames([lines]), ["train/x", "val/x"]);
});

test("a job says how far it is", () => {
  assert.equal(progressWords({ state: "running", done: 3, total: 9, seconds_left: 60, left_of: "step", said: "epoch 3/9" }), "3 of 9 · 60 s left in this step · epoch 3/9"); // prettier-ignore
  assert.equal(progressWords({ state: "running", seconds_left: 60, left_of: "job", said: "maps" }), "60 s left · maps");
  assert.equal(progressWords({ state: "queued" }), "");
});
