/** The server's JSON, asked for as its documentation says (docs/api.md). */
import { ask, file } from "./transport.js";

export { ApiError, shared } from "./transport.js";

const waiting = new Map();

/** Ask before it is known that it is needed: whoever gets it next has the answer. A refusal may be too early as well. */
export function early(paths) {
  waiting.clear();
  for (const path of paths.filter((each) => !kept.has(each))) {
    const answer = ask(path);
    answer.catch(() => {});
    waiting.set(path, answer);
  }
}

export function get(path, signal) {
  const asked = waiting.get(path);
  waiting.delete(path);
  return asked ? asked.catch(() => ask(path, { signal })) : ask(path, { signal });
}

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
  glossary: () => once("glossary"),
  runs: () => get("runs"),
  run: (run) => once(at(run)),
  runNow: (run) => get(at(run)),
  history: (run, after, signal) =>
    get(at(run, `/history${after ? `?after=${encodeURIComponent(after)}` : ""}`), signal),
  images: (run, query) => get(at(run, `/images?${new URLSearchParams(query)}`)),
  prediction: (run, split, row, gradcam = "auto") =>
    once(at(run, `/images/${split}/${row}/prediction?gradcam=${gradcam}`)),
  /** The same without maps of Grad-CAM, which take most of the time, unless they are there already. */
  predictionAlone: (run, split, row) =>
    kept.get(at(run, `/images/${split}/${row}/prediction?gradcam=auto`)) ?? api.prediction(run, split, row, "none"),
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
  correctionsFile: (run) => file(at(run, "/corrections.csv")),
  concepts: (run) => once(at(run, "/concepts")),
  codebook: (run) => once(at(run, "/codebook")),
  conceptsNow: (run) => get(at(run, "/concepts?look=false")),
  codebookNow: (run) => get(at(run, "/codebook?look=false")),
  comparison: (run) => get(at(run, "/comparison")),
  comparisonTable: (run, form, query) => file(at(run, `/comparison/table.${form}?${new URLSearchParams(query)}`)),
  methods: () => once("methods"),
  evidence: (method) => get(`methods/${encodeURIComponent(method)}/evidence`),
  document: (run, name) => get(at(run, `/documents/${name}`)),
  /** Of a folder, what a view begins with. */
  early: (run, rests) => early(rests.map((rest) => at(run, rest))),
  graph: (run, name) => once(at(run, `/graphs/${encodeURIComponent(name)}`)),
  graphFile: (run, name) => get(at(run, `/graphs/${name}/file`)),
  graphNode: (run, name, number) => once(at(run, `/graphs/${name}/nodes/${number}`)),
  graphSheet: (run, name, number) => file(at(run, `/graphs/${name}/nodes/${number}/sheet`)),
  graphImage: (run, name, number) => file(at(run, `/graphs/${name}/images/${number}`)),
  thumbnail: (run, split, row) => file(at(run, `/images/${split}/${row}/thumbnail`)),
};
