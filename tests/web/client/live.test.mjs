/** Asking again, and what is entered in the form of a job. */
import assert from "node:assert/strict";
import { test } from "node:test";

const root = new URL("../../../src/conceptlens/web/client/js/", import.meta.url);
const { live, pause } = await import(new URL("live.js", root));
const { linesOf, valuesOf } = await import(new URL("jobs/form.js", root));

test("a failed request does not end it, and makes it wait longer", async () => {
  const answers = [1, new Error("away"), new Error("away"), 2, 3];
  const [waits, seen, problems] = [[], [], []];
  await new Promise((done) => {
    live(
      async () => {
        const next = answers.shift();
        if (next instanceof Error) throw next;
        return next;
      },
      {
        every: 100,
        onanswer: (answer) => {
          seen.push(answer);
          if (answer === 3) done();
          return answer !== 3;
        },
        onproblem: (error, failures) => problems.push(failures),
        later: (call, wait) => {
          waits.push(wait);
          queueMicrotask(call);
        },
      },
    );
  });
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(problems, [1, 2]);
  assert.deepEqual(waits, [100, 100, 200, 400, 100]);
  assert.equal(pause(1000, 20), 30_000);
});

test("nothing is asked while nobody looks, and at once when somebody does", async () => {
  let [asked, look] = [0, () => {}];
  const page = { hidden: true, addEventListener: (/** @type {string} */ name, /** @type {() => void} */ call) => (look = call) };
  const calls = [];
  live(async () => (asked += 1), { every: () => 50, onanswer: () => false, later: (call, wait) => calls.push([call, wait]), page });
  await calls[0][0]();
  assert.deepEqual([asked, calls[0][1]], [0, 50]);
  page.hidden = false;
  await look();
  assert.equal(asked, 1);
});

test("what was stopped says nothing more", async () => {
  const seen = [];
  let answer = () => {};
  const stop = live(() => new Promise((done) => (answer = done)), { every: 0, onanswer: (value) => seen.push(value), later: (call) => queueMicrotask(call), cancel: () => {} }); // prettier-ignore
  await Promise.resolve();
  stop();
  answer(1);
  await Promise.resolve();
  assert.deepEqual(seen, []);
});

test("only what was changed is sent, numbers as numbers", () => {
  const option = (name, kind, standard = null, several = false) => ({ name, kind, several, choices: [], default: standard, help: "" });
  const options = [option("n", "int", "500"), option("share", "float"), option("fast", "flag", "True"), option("by", "text", null, true), option("to", "choice", "a")]; // prettier-ignore
  assert.deepEqual(valuesOf(options, { n: "500", share: "", fast: true, by: "", to: "a" }), {});
  assert.deepEqual(valuesOf(options, { n: "20", share: "0.5", fast: false, by: "sex, age=40", to: "b" }), {
    n: 20,
    share: 0.5,
    fast: false,
    by: ["sex", "age=40"],
    to: "b",
  });
  assert.deepEqual(valuesOf(options, { n: "many", fast: true }), { n: "many" }); // the server says what is wrong
  assert.deepEqual(linesOf({ "training.epochs": 3, seed: 1 }), ["training.epochs = 3", "seed = 1"]);
});
