/** The class head in the page, by hand. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { apply, decomposeLogit, logits, pointless, probabilities, said, target, withEdit } from "../../../src/conceptlens/web/client/js/head.js";

const GROUPS = [
  { name: "shape", kind: "exclusive", start: 0, values: ["round", "square"] },
  { name: "marks", kind: "independent", start: 2, values: ["dots"], under: ["shape", "square"] },
];
const HEAD = {
  task: "single",
  classes: ["a", "b"],
  thresholds: [],
  weight: [
    [2, 0, 1],
    [0, 1, -1],
  ],
  bias: [0.5, 0],
  reference: [0.5, 0.5, 0],
  space: "logit",
  way: "one-hot",
  values: [
    [1, 0],
    [0, 1],
  ],
  yes: [1, 1, 1],
  no: [0, 0, 0],
  low: [-4, -4, -4],
  high: [4, 4, 4],
};
const STATE = { bottleneck: [1, 0, 0], concept_logits: [3, -3, -2], rest: [0, 0] };

test("logits are weighted sums, and their shares a softmax", () => {
  assert.deepEqual(logits(HEAD, [1, 0, 0], [0, 0]), [2.5, 0]);
  const [first, second] = probabilities(HEAD, [Math.log(3), 0]);
  assert.ok(Math.abs(first - 0.75) < 1e-12 && Math.abs(second - 0.25) < 1e-12);
  assert.deepEqual(said(HEAD, [0.25, 0.75]), ["b"]);
  assert.deepEqual(probabilities({ ...HEAD, task: "multilabel" }, [0]), [0.5]);
});

test("a margin is its base and what each concept adds", () => {
  const sum = decomposeLogit(HEAD, "a", "b", [1, 0, 0], [0, 0]);
  assert.deepEqual(sum.values, [1, 0.5, 0]);
  assert.equal(sum.base, 1); // 0.5 + 2 · 0.5 − 1 · 0.5
  assert.equal(sum.total, 2.5);
});

test("an answer writes its group, and a later one takes its place", () => {
  assert.deepEqual(apply(HEAD, GROUPS, STATE, ["shape=square"]), [0, 1, 0]);
  assert.deepEqual(apply(HEAD, GROUPS, STATE, ["shape=square", "marks: dots=yes"]), [0, 1, 1]);
  assert.deepEqual(withEdit(GROUPS, ["shape=square", "marks: dots=yes"], "shape=round"), ["marks: dots=yes", "shape=round"]);
  assert.equal(target(GROUPS, "size=big"), null);
});

test("a group under a value that does not hold has no meaning", () => {
  const concepts = [0.9, 0.1, 0.2].map((probability) => ({ probability }));
  assert.deepEqual([...pointless(GROUPS, concepts, [])], ["marks"]);
  assert.deepEqual([...pointless(GROUPS, concepts, ["shape=square"])], []);
});
