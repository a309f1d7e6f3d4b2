/** The server's JSON, asked for as its documentation says (docs/api.md). */

const ROOT = "api/v1";

/** What the server refused, in its words. */
export class ApiError extends Error {
  constructor(status, { code = "bug", message = "The server gave no reason.", command = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.command = command;
  }
}

/** @param {string} path @param {RequestInit} [options] */
async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`${ROOT}/${path}`, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, {
      code: "away",
      message: "The server does not answer. Is `conceptlens serve` still running?",
    });
  }
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new ApiError(answer.status, body.error);
  return body;
}

export const get = (path, signal) => ask(path, { signal });
export const post = (path, body, signal) =>
  ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });

const kept = new Map();

/** Asked once a visit: for what stays the same as long as a run does. */
export function once(path) {
  if (!kept.has(path)) {
    const answer = get(path);
    kept.set(path, answer);
    answer.catch(() => kept.delete(path));
  }
  return kept.get(path);
}

const at = (run, rest = "") => `runs/${encodeURIComponent(run)}${rest}`;

export const api = {
  about: () => once("about"),
  runs: () => get("runs"),
  run: (run) => once(at(run)),
  runNow: (run) => get(at(run)),
  history: (run, after, signal) =>
    get(at(run, `/history${after ? `?after=${encodeURIComponent(after)}` : ""}`), signal),
  images: (run, query) => get(at(run, `/images?${new URLSearchParams(query)}`)),
  prediction: (run, split, row, gradcam = "auto") =>
    once(at(run, `/images/${split}/${row}/prediction?gradcam=${gradcam}`)),
  predictionNow: (run, split, row) => get(at(run, `/images/${split}/${row}/prediction?gradcam=none`)),
  upload: (run, file, gradcam = "auto") =>
    ask(at(run, `/prediction?gradcam=${gradcam}`), {
      method: "POST",
      body: file,
      headers: { "Content-Type": "application/octet-stream" },
    }),
  head: (run) => once(at(run, "/head")),
  intervene: (run, body, signal) => post(at(run, "/intervene"), body, signal),
  ask: (run, body) => post(at(run, "/ask"), body),
  flip: (run, body) => post(at(run, "/flip"), body),
  corrections: (run) => get(at(run, "/corrections")),
  correct: (run, body) => post(at(run, "/corrections"), body),
  correctionsFile: (run) => `${ROOT}/${at(run, "/corrections.csv")}`,
  concepts: (run) => once(at(run, "/concepts")),
  codebook: (run) => once(at(run, "/codebook")),
  thumbnail: (run, split, row) => `${ROOT}/${at(run, `/images/${split}/${row}/thumbnail`)}`,
};
