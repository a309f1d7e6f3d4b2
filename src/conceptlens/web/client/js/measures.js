/** The scores that cards and comparisons show: what they are called, how they are read, and which way is better. */
import { percent, short } from "./words.js";

/** @type {Array<{key: string, name: string, about: string, read: (v: number) => string, better: 1 | -1 | 0}>} */
export const MEASURES = [
  {
    key: "class.balanced_accuracy",
    name: "Class balanced accuracy",
    about: "right answers, each class counted alike",
    read: percent,
    better: 1,
  },
  { key: "class.accuracy", name: "Class accuracy", about: "right answers", read: percent, better: 1 },
  {
    key: "class.macro_auc",
    name: "Class AUC",
    about: "how well probabilities order images, 50% is chance",
    read: percent,
    better: 1,
  },
  {
    key: "class.ece",
    name: "Calibration error",
    about: "how far probabilities are from what they promise",
    read: percent,
    better: -1,
  },
  {
    key: "concept.balanced_accuracy",
    name: "Concept balanced accuracy",
    about: "right concept values, each value counted alike",
    read: percent,
    better: 1,
  },
  { key: "concept.auc", name: "Concept AUC", about: "how well concept scores order images", read: percent, better: 1 },
  {
    key: "concept.auc_within_class",
    name: "Concept AUC within a class",
    about: "the same among images of one class, where the class gives nothing away",
    read: percent,
    better: 1,
  },
  {
    key: "rank.effective",
    name: "Effective rank",
    about: "how many directions the patches of an image use",
    read: short,
    better: 0,
  },
];
