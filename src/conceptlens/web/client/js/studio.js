/** What the codebook studio asks of the server: files that commands wrote, and, one thing at a time, the model. */
import { ApiError, get, once, post } from "./api.js";
import { ask, file, reach } from "./transport.js";

/** @param {string} run */
const at = (run, rest = "") => `runs/${encodeURIComponent(run)}/studio${rest}`;

/** This page's name for the server, which does one thing at a time for each. */
const client = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(36)).join("");

let turn = Promise.resolve();

/** One after the other. @param {() => Promise<any>} work @returns {Promise<any>} */
function inTurn(work) {
  const mine = turn.then(work, work);
  turn = mine.catch(() => {});
  return mine;
}

/**
 * Only the last of several calls matters: while one is answered, later ones wait, and of those the last is made.
 * @template T
 * @param {(...args: any[]) => Promise<T>} call @param {(answer: T) => void} onanswer @param {(error: Error) => void} onfail
 */
export function latest(call, onanswer, onfail) {
  let waiting = null;
  let running = false;
  return async function again(/** @type {any[]} */ ...args) {
    waiting = args;
    if (running) return;
    running = true;
    while (waiting) {
      const now = waiting;
      waiting = null;
      try {
        const answer = await call(...now);
        if (!waiting) onanswer(answer);
      } catch (error) {
        if (!waiting) onfail(/** @type {Error} */ (error));
      }
    }
    running = false;
  };
}

export const studio = {
  about: (/** @type {string} */ run) => get(at(run)),
  image: (/** @type {string} */ run, /** @type {string} */ row) => once(at(run, `/images/${row}`)),
  result: (/** @type {string} */ run, /** @type {string} */ name) => get(at(run, `/results/${name}`)),
  generate: (/** @type {string} */ run, /** @type {string} */ condition, /** @type {number} */ seed) => inTurn(() => post(at(run, "/generate"), { client, condition, seed })),
  encode: (/** @type {string} */ run, /** @type {Blob} */ picture) =>
    inTurn(() =>
      ask(at(run, `/encode?client=${client}`), {
        method: "POST",
        body: picture,
        headers: { "Content-Type": "application/octet-stream" },
      }),
    ),
  importance: (/** @type {string} */ run, /** @type {string} */ tokens, /** @type {string} */ concept) =>
    inTurn(() => post(at(run, "/importance"), { client, tokens, concept })).then((answer) => answer.heat),
  mask: (/** @type {string} */ run, /** @type {Record<string, any>} */ body) => inTurn(() => post(at(run, "/mask"), { client, ...body })),

  /**
   * An edit, told as it goes: `onevent` is called with each line. Aborting the signal ends it on the server as well.
   * @param {string} run @param {Record<string, any>} body @param {(event: any) => void} onevent @param {AbortSignal} signal
   */
  async edit(run, body, onevent, signal) {
    const answer = await reach(file(at(run, "/edit")), {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ client, ...body }),
      signal,
    });
    if (!answer.ok) throw new ApiError(answer.status, (await answer.json().catch(() => ({}))).error);
    const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      rest += decoder.decode(value, { stream: !done });
      const lines = rest.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line) onevent(JSON.parse(line));
      if (done) return;
    }
  },
};

/** The address of a picture as the server wrote it: relative, so that a proxy may put the page anywhere. @param {string} address */
export const source = (address) => address.replace(/^\/(?=api\/)/, "");
