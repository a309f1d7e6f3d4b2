/** What the data set view asks the server (docs/api.md). */
import { get, post } from "../api.js";
import { ApiError, file } from "../transport.js";

/** @param {string} run @param {string} split */
const at = (run, split, rest = "") => `runs/${encodeURIComponent(run)}/dataset/${split}${rest}`;

/** @param {string} path @returns {Promise<ArrayBuffer>} */
async function bytes(path) {
  const answer = await fetch(file(path), { credentials: "same-origin" }).catch(() => null);
  if (!answer) throw new ApiError(0, { code: "away", message: "The server does not answer." });
  if (answer.ok) return answer.arrayBuffer();
  const body = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, body.error);
}

export const dataset = {
  /** @param {string} run @param {string} split */
  columns: (run, split) => bytes(at(run, split)),
  /** Places (N, 2), flat. @param {string} run @param {string} split @param {string} by @param {string} how */
  places: async (run, split, by, how) => new Float32Array(await bytes(at(run, split, `/places?by=${by}&how=${how}`))),
  /** @param {string} run @param {string} split @param {number} sheet */
  sprites: (run, split, sheet) => file(at(run, split, `/sprites/${sheet}`)),
  /** @param {string} run @param {string} split @param {number} row @param {string} by */
  neighbors: (run, split, row, by) => get(at(run, split, `/neighbors/${row}?by=${by}`)),
  /** @param {string} run @param {string} split */
  suspects: (run, split) => get(at(run, split, "/suspects")),
  /** @param {string} run @param {string} split */
  pass: (run, split) => get(at(run, split, "/pass")),
  /** @param {string} run @param {string} split */
  startPass: (run, split) => post(at(run, split, "/pass"), {}),
};
