/** Maps as the server packs them, regions of a token grid, images of a shared file. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gray, heat } from "../../../src/conceptlens/web/client/js/colors.js";
import { Maps, unpack } from "../../../src/conceptlens/web/client/js/maps.js";
import { between, cellsOf, middle, parseRegion, regionWords } from "../../../src/conceptlens/web/client/js/region.js";
import { howToRead } from "../../../src/conceptlens/web/client/js/parts/evidence.js";
import { listImages } from "../../../src/conceptlens/web/client/js/share/images.js";

const packed = (/** @type {number[]} */ ...bytes) => Buffer.from(bytes).toString("base64");

test("a byte is a part of its map's scale", () => {
  const [map] = unpack({ of: [4], scale: [2], data: packed(0, 255, 51) }).values();
  assert.deepEqual([...map].map((value) => Number(value.toFixed(6))), [0, 2, 0.4]);
});

test("evidence comes first, is signed, and absence has no place", () => {
  const evidence = { of: [0], scale: [1], data: packed(1, 128, 255, 128) };
  const attention = { of: [7], scale: [1], data: packed(0, 0, 255, 0) };
  const maps = new Maps({
    maps: { grid: [2, 2], evidence, attention, assignment: null, gradcam: null },
    concepts: [{ index: 0, slot: 7 }, { index: 1, slot: 7, placeless: true }],
    index: null,
  });
  assert.deepEqual(maps.kinds().map(([key]) => key), ["evidence", "attention"]);
  assert.deepEqual([...(maps.of("evidence", 0) ?? [])], [-1, 0, 1, 0]);
  assert.equal(maps.of("attention", 1), null);
  assert.deepEqual([...maps.strongestAt(2)], [0]);
});

test("only a map that passed its test shows where a score comes from", () => {
  const [failed, untested] = [{ failed: { attention: "why" } }, { captions: { attention: "not tested" } }];
  assert.match(howToRead("attention", {}), /shows where a score comes from/);
  for (const tests of [failed, untested]) assert.doesNotMatch(howToRead("attention", tests), /where a score comes from/);
  assert.match(howToRead("attention", failed), /did not pass its test/);
  assert.match(howToRead("gradcam", failed), /shows where a score comes from/); // each kind has a test of its own
  assert.equal(howToRead("index", failed), "");
});

test("a map without color keeps its brightness", () => {
  const [level, ...others] = gray([255, 0, 0]);
  assert.equal(level, 76);
  assert.deepEqual(others, [76, 76]);
  assert.ok(gray(heat(1))[0] > gray(heat(0))[0]);
});

test("regions in the words of the command line", () => {
  assert.deepEqual(parseRegion("1:3,0:2", [4, 4]), { top: 1, bottom: 3, left: 0, right: 2 });
  assert.equal(parseRegion("1:9,0:2", [4, 4]), null);
  assert.equal(regionWords(middle([4, 4])), "1:3,1:3");
  assert.deepEqual(cellsOf(between(5, 2, 4), 4), [1, 2, 5, 6]);
});

test("images of a shared file are filtered as the server does", () => {
  const item = (/** @type {number} */ row, /** @type {string} */ truth) => ({ row, id: `${row}.png`, truth: [truth], predicted: ["a"] });
  const whole = { items: [item(0, "a"), item(1, "b"), item(2, "b")], orders: { wrong: [2, 1] } };
  const ask = (/** @type {string} */ words) => listImages(whole, new URLSearchParams(words)).items.map(({ row }) => row);
  assert.deepEqual(ask(""), [0, 1, 2]);
  assert.deepEqual(ask("show=wrong"), [2, 1]);
  assert.deepEqual(ask("show=wrong&class=a"), []);
  assert.deepEqual(ask("size=1&page=2"), [2]);
  assert.deepEqual(ask("name=1.png"), [1]);
});
