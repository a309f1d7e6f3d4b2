/** The server's JSON, asked for as its documentation says (docs/api.md). */
import { ask, file } from "./transport.js";

export { ApiError, shared } from "./transport.js";

/** @type {Map<string, Promise<any>>} */
const waiting = new Map();

/** Ask before it is known that it is needed: whoever gets it next has the answer. A refusal may be too early as well. @param {string[]} paths */
export function early(paths) {
  waiting.clear();
  for (const path of paths.filter((each) => !kept.has(each))) {
    const answer = ask(path);
    answer.catch(() => {});
    waiting.set(path, answer);
  }
}

/** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export function get(path, signal) {
  const asked = waiting.get(path);
  waiting.delete(path);
  return asked ? asked.catch(() => ask(path, { signal })) : ask(path, { signal });
}

/** @param {string} path @param {any} body @param {AbortSignal} [signal] @returns {Promise<any>} */
export const post = (path, body, signal) =>
  ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });

/** @type {Map<string, Promise<any>>} */
const kept = new Map();

/** Asked once a visit: for what stays the same as long as a run does. @param {string} path @returns {Promise<any>} */
export function once(path) {
  if (!kept.has(path)) {
    const answer = get(path);
    kept.set(path, answer);
    answer.catch(() => kept.delete(path));
  }
  return /** @type {Promise<any>} */ (kept.get(path));
}

/** @param {string} run */
const at = (run, rest = "") => `runs/${encodeURIComponent(run)}${rest}`;

export const api = {
  /** @type {() => Promise<Answers.About>} */
  about: () => once("about"),
  /** @type {() => Promise<Answers.Glossary>} */
  glossary: () => once("glossary"),
  /** @type {() => Promise<Answers.Runs>} */
  runs: () => get("runs"),
  /** @type {(run: string) => Promise<Answers.RunDetail>} */
  run: (run) => once(at(run)),
  /** @type {(run: string) => Promise<Answers.RunDetail>} */
  runNow: (run) => get(at(run)),
  /** @type {(run: string, after: string | null, signal?: AbortSignal) => Promise<Answers.History>} */
  history: (run, after, signal) =>
    get(at(run, `/history${after ? `?after=${encodeURIComponent(after)}` : ""}`), signal),
  /** @type {(run: string, query: Record<string, any>) => Promise<Answers.Images>} */
  images: (run, query) => get(at(run, `/images?${new URLSearchParams(query)}`)),
  /** @type {(run: string, split: string, row: number | string, gradcam?: string) => Promise<Answers.Prediction>} */
  prediction: (run, split, row, gradcam = "auto") =>
    once(at(run, `/images/${split}/${row}/prediction?gradcam=${gradcam}`)),
  /** The same without maps of Grad-CAM, which take most of the time, unless they are there already. @type {(run: string, split: string, row: number | string) => Promise<Answers.Prediction>} */
  predictionAlone: (run, split, row) =>
    kept.get(at(run, `/images/${split}/${row}/prediction?gradcam=auto`)) ?? api.prediction(run, split, row, "none"),
  /** @type {(run: string, split: string, row: number | string) => Promise<Answers.Prediction>} */
  predictionNow: (run, split, row) => get(at(run, `/images/${split}/${row}/prediction?gradcam=none`)),
  /** @type {(run: string, file: Blob, gradcam?: string) => Promise<Answers.Prediction>} */
  upload: (run, file, gradcam = "auto") =>
    ask(at(run, `/prediction?gradcam=${gradcam}`), {
      method: "POST",
      body: file,
      headers: { "Content-Type": "application/octet-stream" },
    }),
  /** @type {(run: string) => Promise<Answers.Head>} */
  head: (run) => once(at(run, "/head")),
  /** @type {(run: string, body: any, signal?: AbortSignal) => Promise<Answers.Intervention>} */
  intervene: (run, body, signal) => post(at(run, "/intervene"), body, signal),
  /** @type {(run: string, body: any) => Promise<Answers.Asked>} */
  ask: (run, body) => post(at(run, "/ask"), body),
  /** @type {(run: string, body: any) => Promise<Answers.Flipped>} */
  flip: (run, body) => post(at(run, "/flip"), body),
  /** @type {(run: string) => Promise<Answers.Corrections>} */
  corrections: (run) => get(at(run, "/corrections")),
  /** @type {(run: string, body: any) => Promise<Answers.Corrected>} */
  correct: (run, body) => post(at(run, "/corrections"), body),
  /** @type {(run: string) => string} */
  correctionsFile: (run) => file(at(run, "/corrections.csv")),
  /** @type {(run: string) => Promise<Answers.Concepts>} */
  concepts: (run) => once(at(run, "/concepts")),
  /** @type {(run: string) => Promise<Answers.Codebook>} */
  codebook: (run) => once(at(run, "/codebook")),
  /** @type {(run: string) => Promise<Answers.Concepts>} */
  conceptsNow: (run) => get(at(run, "/concepts?look=false")),
  /** @type {(run: string) => Promise<Answers.Codebook>} */
  codebookNow: (run) => get(at(run, "/codebook?look=false")),
  /** @type {(run: string) => Promise<Answers.Comparison>} */
  comparison: (run) => get(at(run, "/comparison")),
  /** @type {(run: string, form: string, query: Record<string, any>) => string} */
  comparisonTable: (run, form, query) => file(at(run, `/comparison/table.${form}?${new URLSearchParams(query)}`)),
  /** @type {() => Promise<Answers.Methods>} */
  methods: () => once("methods"),
  /** @type {(method: string) => Promise<Answers.MethodEvidence>} */
  evidence: (method) => get(`methods/${encodeURIComponent(method)}/evidence`),
  /** @type {(run: string, name: string) => Promise<any>} */
  document: (run, name) => get(at(run, `/documents/${name}`)),
  /** What a view begins with, of a folder or of all. @type {(run: string | null, rests: string[]) => void} */
  early: (run, rests) => early(run === null ? rests : rests.map((rest) => at(run, rest))),
  /** @type {(run: string, name: string) => Promise<Answers.GraphAnswer>} */
  graph: (run, name) => once(at(run, `/graphs/${encodeURIComponent(name)}`)),
  /** @type {(run: string, name: string) => Promise<any>} */
  graphFile: (run, name) => get(at(run, `/graphs/${name}/file`)),
  /** @type {(run: string, name: string, number: number) => Promise<Answers.NodeAnswer>} */
  graphNode: (run, name, number) => once(at(run, `/graphs/${name}/nodes/${number}`)),
  /** @type {(run: string, name: string, number: number) => string} */
  graphSheet: (run, name, number) => file(at(run, `/graphs/${name}/nodes/${number}/sheet`)),
  /** @type {(run: string, name: string, number: number) => string} */
  graphImage: (run, name, number) => file(at(run, `/graphs/${name}/images/${number}`)),
  /** @type {(run: string, split: string, row: number | string) => string} */
  thumbnail: (run, split, row) => file(at(run, `/images/${split}/${row}/thumbnail`)),
};
