/** The views of the page, in the order of the navigation. */
import { image as lastImage } from "./visit.js";

/** The list of images and the one that is looked at first, unless a filter decides which that is. @param {Record<string, string>} params @param {string} gradcam */
function firstImage({ run, image = "test/0", name, split, show, class: truth, predicted, page }, gradcam) {
  if (name || lastImage(run) || !/^\w+\/\d+$/.test(image)) return []; // the view knows more
  if (split || show || truth || predicted || page) return [];
  return ["/images?split=test&show=all&page=0&size=48", `/images/${image}/prediction?gradcam=${gradcam}`];
}

/**
 * This list is the one place that a new view is added to.
 *
 * `load` gets the function (host, params, app) → {stop?} of the view; its modules come when it is opened.
 * `group` is where it stands in the navigation: views of all folders, of a trained model, or of other results.
 * `kinds` are the kinds of folders that it shows (kinds.js), `needs` is what of a folder it cannot do without; `alone` views
 * show no folder. `fills` says what is seen once there is a folder for it. `first` is what a view begins by asking, of its
 * folder if it shows one, so that it is asked at once.
 *
 * @typedef {{name: string, title: string, group: string, load: () => Promise<any>, alone?: boolean, kinds?: string[],
 *   needs?: string, fills?: string, first?: (params: Record<string, string>) => string[]}} View
 * @type {View[]}
 */
export const VIEWS = [
  { name: "runs", title: "Runs", group: "all", load: () => import("./views/runs.js").then((m) => m.runsView), alone: true },
  {
    name: "image",
    title: "Image",
    group: "model",
    load: () => import("./views/image.js").then((m) => m.imageView),
    kinds: ["bottleneck"],
    needs: "model",
    first: (params) => ["", "/head", ...firstImage(params, "auto")],
  },
  {
    name: "what-if",
    title: "What if",
    group: "model",
    load: () => import("./views/whatif.js").then((m) => m.whatIfView),
    kinds: ["bottleneck"],
    needs: "model",
    first: (params) => ["", "/head", ...firstImage(params, "none")],
  },
  {
    name: "training",
    title: "Training",
    group: "model",
    load: () => import("./views/training.js").then((m) => m.trainingView),
    kinds: ["bottleneck"],
    first: () => ["/history"],
  },
  {
    name: "concepts",
    title: "Concepts",
    group: "model",
    load: () => import("./views/concepts.js").then((m) => m.conceptsView),
    kinds: ["bottleneck"],
    needs: "model",
    first: ({ what }) => [`/${what ?? "concepts"}?look=false`],
  },
  {
    name: "trust",
    title: "Trust",
    group: "model",
    load: () => import("./views/trust.js").then((m) => m.trustView),
    kinds: ["bottleneck"],
    needs: "model",
    first: () => [""],
  },
  {
    name: "dataset",
    title: "Data set",
    group: "model",
    load: () => import("./views/dataset.js").then((m) => m.datasetView),
    kinds: ["bottleneck"],
    needs: "model",
    first: () => [""],
  },
  {
    name: "study",
    fills: "People rate maps without knowing which are real; their answers are collected and analyzed here.",
    title: "Study",
    group: "other",
    load: () => import("./views/study.js").then((m) => m.studyView),
    kinds: ["study"],
  },
  {
    name: "graph",
    fills: "A network is decomposed into concepts, layer by layer, and drawn as a graph of how they build on each other.",
    title: "Graph",
    group: "other",
    load: () => import("./views/graph.js").then((m) => m.graphView),
    kinds: ["decomposition"],
    needs: "graph",
    first: ({ graph }) => [`/graphs/${encodeURIComponent(graph ?? "classes")}`],
  },
  {
    name: "studio",
    fills: "The images of a generator as tokens: which tokens make a concept, and what changes when they are hidden or replaced.",
    title: "Studio",
    group: "other",
    load: () => import("./views/studio.js").then((m) => m.studioView),
    kinds: ["codebook"],
    first: () => ["/studio"],
  },
  {
    name: "compare",
    fills: "Many methods on the same data, with the same splits and seeds, as one table with tests.",
    title: "Compare",
    group: "other",
    load: () => import("./views/comparison.js").then((m) => m.comparisonView),
    kinds: ["comparison"],
    first: () => ["/comparison"],
  },
  { name: "table", title: "Table", group: "about", load: () => import("./views/table.js").then((m) => m.tableView), alone: true, first: () => ["table"] },
  { name: "jobs", title: "Jobs", group: "about", load: () => import("./views/jobs.js").then((m) => m.jobsView), alone: true, first: () => ["jobs"] },
  { name: "methods", title: "Methods", group: "about", load: () => import("./views/methods.js").then((m) => m.methodsView), alone: true, first: () => ["methods"] },
];
