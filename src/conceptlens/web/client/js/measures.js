/** The scores that cards and comparisons show: what they are called, how they are read. */
import { percent, short } from "./words.js";

/** @type {Array<{key: string, name: string, about: string, read: (v: number) => string}>} */
export const MEASURES = [
  {
    key: "class.balanced_accuracy",
    name: "Class balanced accuracy",
    about: "mean recall over the classes",
    read: percent,
  },
  { key: "class.accuracy", name: "Class accuracy", about: "share of correct predictions", read: percent },
  {
    key: "class.macro_auc",
    name: "Class AUC",
    about: "how well probabilities rank images; 50% is chance",
    read: percent,
  },
  {
    key: "class.ece",
    name: "Calibration error",
    about: "how far probabilities are from the share of correct predictions",
    read: percent,
  },
  {
    key: "concept.balanced_accuracy",
    name: "Concept balanced accuracy",
    about: "mean recall over the values of a concept group",
    read: percent,
  },
  { key: "concept.auc", name: "Concept AUC", about: "how well concept scores rank images", read: percent },
  {
    key: "concept.auc_within_class",
    name: "Concept AUC within a class",
    about: "the same among images of one class, so that the class does not help",
    read: percent,
  },
  {
    key: "rank.effective",
    name: "Effective rank",
    about: "how many directions the patches of an image use",
    read: short,
  },
];
