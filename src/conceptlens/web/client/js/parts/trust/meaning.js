/** What an outcome of `conceptlens trust` means for somebody who relies on the model: a sentence before the numbers. */

/** @type {Record<string, {pass: string, finding: string, unmeasured: string}>} */
const SIDES = {
  corrections: {
    pass: "You can correct it: the class follows what a person says about a concept.",
    finding: "Do not rely on correcting it: the class does not follow what a person says about a concept as it should.",
    unmeasured: "It is not known whether the class follows when a person corrects a concept.",
  },
  leakage: {
    pass: "The concept scores say no more about the class than the concepts do.",
    finding: "The concept scores may carry hidden hints about the class. Do not read them as concepts alone.",
    unmeasured: "It is not known whether the concept scores carry hidden hints about the class.",
  },
  maps: {
    pass: "The maps find the place of a concept better than maps that know none of the concepts.",
    finding: "Do not use the maps to find a concept in an image: they were not shown to point at the right place.",
    unmeasured: "It is not known whether the maps point at the right place.",
  },
  calibration: {
    pass: "A stated probability is close to how often the model is right.",
    finding: "Do not rely on the stated probabilities: they differ from how often the model is right.",
    unmeasured: "It is not known whether a stated probability is close to how often the model is right.",
  },
  subgroups: {
    pass: "No group of images or patients is clearly worse than the others.",
    finding: "The model is clearly worse for some groups of images or patients.",
    unmeasured: "It is not known whether the model is worse for some groups of images or patients.",
  },
  uncertainty: {
    pass: "A set of possible answers holds the true one as often as promised.",
    finding: "Do not rely on the sets of possible answers: they miss the true one too often, or are empty.",
    unmeasured: "It is not known whether the sets of possible answers hold the true one.",
  },
  faithfulness: {
    pass: "The places that a map marks matter more to the answer than other places.",
    finding: "Do not show the maps as reasons: the places that they mark were not shown to matter more than others.",
    unmeasured: "It is not known whether the places that a map marks matter to the answer.",
  },
};

/** @param {string} side @param {string} outcome pass, finding or unmeasured @returns {string} empty where it is not known */
export const meaning = (side, outcome) => /** @type {any} */ (SIDES[side])?.[outcome] ?? "";

/** The section of the trust view that shows a side. @param {string} side */
export const sectionOf = (side) => (side === "faithfulness" ? "maps" : side);
