/** The kinds of folders that are served: what one is called, what makes it, and which views can show it. */

/** @type {Record<string, {one: string, many: string, about: string, made: string}>} */
export const KINDS = {
  bottleneck: {
    one: "Model",
    many: "Models",
    about: "a trained model",
    made: "conceptlens demo",
  },
  comparison: {
    one: "Comparison",
    many: "Comparisons",
    about: "a comparison of methods",
    made: "conceptlens compare examples/compare.yaml --out runs/compare",
  },
  decomposition: {
    one: "Decomposition",
    many: "Decompositions",
    about: "a decomposed network",
    made: "conceptlens decompose examples/small_cnn.py:build --data blood-cells --out runs/network",
  },
  codebook: {
    one: "Codebook",
    many: "Codebooks",
    about: "a study of a codebook",
    made: "conceptlens codebook demo",
  },
  study: {
    one: "Study",
    many: "Studies",
    about: "a study with people",
    made: "conceptlens study make runs/demo",
  },
};

/** Whether a view can show a folder. @param {{kinds?: string[], alone?: boolean}} view @param {any} card */
export const fits = (view, card) => Boolean(card?.kind) && (view.kinds ?? ["bottleneck"]).includes(card.kind);

/** The views of a folder that have something to show: `needs` is what it must hold for that. @param {any[]} views @param {any} card */
export const viewsOf = (views, card) =>
  views.filter((each) => !each.alone && fits(each, card) && (!each.needs || card.has.includes(each.needs)));

/** "a comparison of methods", "a trained model or a study with people". @param {string[]} kinds */
export const said = (kinds) => kinds.map((kind) => KINDS[kind]?.about ?? kind).join(" or ");
