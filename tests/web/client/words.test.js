/** Numbers and names as they are read, in both words. */
import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { distinct, roomy, tick } from "../../../src/conceptlens/web/client/js/charts/series.js";
import { amount, inWords, nats, sumName, unit } from "../../../src/conceptlens/web/client/js/plain.js";
import { duration, percent, plural, short, shortened, signed } from "../../../src/conceptlens/web/client/js/words.js";

const page = { documentElement: { dataset: /** @type {Record<string, string>} */ ({}) } };
Object.assign(globalThis, { document: page });
afterEach(() => {
  delete page.documentElement.dataset.words;
});

test("numbers", () => {
  assert.equal(percent(0.1234), "12.3%");
  assert.equal(percent(null), "–");
  assert.equal(signed(-0.004), "+0.00"); // what rounds to nothing takes nothing away
  assert.equal(signed(-1.5), "−1.50");
  assert.equal(short(1234.5), "1,235");
  assert.equal(short(0.00053), "0.0005");
  assert.equal(short(-0.00053), "−0.0005");
  assert.equal(short(1e-12), "0.00");
  assert.equal(plural(1, "image"), "1 image");
  assert.equal(duration(5399), "90 min");
});

test("names that are cut stay different", () => {
  const names = ["nucleus shape: unsegmented-band", "nucleus shape: unsegmented-round", "cells-explicd-random-text-s0-7f", "cells-explicd-random-text-s1-80"];
  const cut = names.map((name) => shortened(name, 14));
  assert.deepEqual(cut, ["nucleus…d-band", "nucleus…-round", "cells-e…-s0-7f", "cells-e…-s1-80"]);
  assert.equal(shortened("short", 14), "short");
  assert.ok(cut.every((name) => name.length <= 14));
});

test("ticks never read alike", () => {
  assert.deepEqual([0.1, 0.101, 0.102].map(tick), ["10%", "10.1%", "10.2%"]);
  assert.deepEqual(distinct([0.1, 0.14, 0.2], (value) => value.toFixed(1)), [0.1, 0.2]);
});

test("plain words count points: ten to a logit", () => {
  assert.equal(`${amount(2.99)} ${unit()}`, "+2.99 logits");
  assert.equal(sumName("a", "b"), "logit of a minus b");
  page.documentElement.dataset.words = "plain";
  assert.equal(`${amount(2.99)} ${unit()}`, "+29.9 points");
  assert.equal(nats(0.1234), "1.2 points");
  assert.equal(sumName("a", "b"), "points for a, ahead of b");
  assert.equal(inWords("an excess of 0.012 (-0.010 to 0.034) nats; more"), "an excess of 0.1 (-0.1 to 0.3) points; more");
});

test("ticks that have no room are left out", () => {
  assert.deepEqual(roomy([1, 2, 3, 4, 5, 6], 140), [1, 3, 5]);
  assert.deepEqual(roomy([1, 2, 3], 400), [1, 2, 3]);
});
