/** What documents say at a glance: their own verdict, or none. */
import assert from "node:assert/strict";
import { test } from "node:test";

Object.assign(globalThis, { window: { addEventListener() {} } }); // address.js listens to it
const at = "../../../src/conceptlens/web/client/js";
const verdicts = await import(`${at}/parts/trust/verdicts.js`);
const { confirms, isLabel } = await import(`${at}/parts/corrections.js`);
const { demoRuns, steps } = await import(`${at}/tour.js`);

const judged = (side, outcome) => ({ verdicts: { [side]: { outcome, reason: "So." } }, groups: [{}] });

test("a verdict is that of the document", () => {
  assert.equal(verdicts.ofCalibration(judged("calibration", "finding")).verdict, "bad");
  assert.equal(verdicts.ofSets(judged("uncertainty", "finding")).verdict, "bad");
  assert.equal(verdicts.ofSets(judged("uncertainty", "pass")).verdict, "good");
  assert.equal(verdicts.ofCalibration({}).verdict, "plain");
});

test("a verdict says what it means before its measures", () => {
  assert.ok(verdicts.ofMaps({ verdict: { outcome: "finding", reason: "So." } }).means.startsWith("Do not use the maps"));
  assert.ok(verdicts.ofCalibration(judged("calibration", "pass")).means.startsWith("A stated probability"));
});

test("no groups is not measured", () => {
  assert.equal(verdicts.ofGroups({ groups: [] }).verdict, "none");
  assert.equal(verdicts.ofGroups(judged("subgroups", "unmeasured")).verdict, "none");
});

test("a correction that changes nothing is none", () => {
  const groups = [{ name: "shape", kind: "exclusive", start: 0, values: ["round", "square"] }];
  const concepts = [
    { probability: 0.9, value: "round", label: null },
    { probability: 0.1, value: "square", label: null },
  ];
  assert.ok(isLabel(groups, "shape=square") && !isLabel(groups, "shape: round=0.3"));
  assert.ok(confirms(groups, concepts, "shape=round"));
  assert.ok(!confirms(groups, concepts, "shape=square"));
  concepts[1].label = true; // the label says otherwise: to agree with the model corrects it
  assert.ok(!confirms(groups, concepts, "shape=round"));
});

test("the tour needs both models of the demo", () => {
  const card = (name) => ({ key: name, name, kind: "bottleneck", has: ["model"] });
  assert.equal(demoRuns([card("demo")]), null);
  const runs = demoRuns([card("demo-evidence"), card("demo")]);
  const all = steps(runs, { image: "test/1", edit: "shape=round", truth: "a", said: "b", then: "a" });
  assert.equal(all.length, 7);
  assert.ok(all[3].to.includes("edits=shape%3Dround"));
});
