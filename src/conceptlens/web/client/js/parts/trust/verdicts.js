/**
 * What each document says at a glance: a verdict and one sentence. The verdict is that of the document, by the rules of
 * `conceptlens trust`; a document of an older version, without one, is called measured and no more.
 * @typedef {{verdict: string, says: string, means?: string}} Verdict `verdict`: good, look, bad, plain or none; `means`: the same
 *   for somebody who does not know the measures
 */
import { known, percent, plural } from "../../words.js";
import { meaning } from "./meaning.js";
import { points } from "./words.js";

/** @type {Record<string, Verdict["verdict"]>} */
const OUTCOMES = { pass: "good", finding: "bad", unmeasured: "none" };

/** A verdict as the files have it. @returns {Verdict} @param {{outcome: string, reason: string}} verdict @param {string} side */
export const ofOutcome = ({ outcome, reason }, side) => ({ verdict: OUTCOMES[outcome] ?? "plain", says: reason, means: meaning(side, outcome) });

/** @returns {Verdict} @param {string} what */
const older = (what) => ({ verdict: "plain", says: `${what} measured by an older version, which wrote no verdict. Measure again.` });

/** @returns {Verdict} @param {any} found */
export const ofInterventions = (found) => (found.verdict ? ofOutcome(found.verdict, "corrections") : older("Corrections were"));

/** @returns {Verdict} @param {any} found */
export function ofLeakage(found) {
  if (found.verdict) return { ...ofOutcome(found.verdict, "leakage"), says: found.summary };
  const verdict = found.leaks === true ? "bad" : found.leaks === false ? "good" : "none";
  return { verdict, says: found.summary ?? "These labels do not allow a test." };
}

/** Of the class and the concepts. @returns {Verdict} @param {any} found */
export const ofCalibration = (found) =>
  found.verdicts?.calibration ? ofOutcome(found.verdicts.calibration, "calibration") : older("Calibration was");

const LESS_IS_WORSE = ["class accuracy", "concept accuracy"];

/** Whether a subgroup is significantly worse than the rest after correction. @param {any} measure @param {number} level */
export function failed(measure, level) {
  if (!known(measure?.p) || measure.p >= level) return false;
  const difference = measure.difference.value ?? 0;
  return LESS_IS_WORSE.includes(measure.measure) ? difference < 0 : difference > 0;
}

/** @returns {Verdict} @param {any} found */
export function ofGroups(found) {
  if (found.verdicts?.subgroups) return ofOutcome(found.verdicts.subgroups, "subgroups");
  if (!found.groups.length) return { verdict: "none", says: "No metadata column makes subgroups of these images." };
  return older("Subgroups were");
}

/** @returns {Verdict} @param {any} found */
export const ofSets = (found) =>
  found.verdicts?.uncertainty ? ofOutcome(found.verdicts.uncertainty, "uncertainty") : older("Prediction sets were");

/** @returns {Verdict} @param {any} found */
export function ofMaps(found) {
  if (found.verdict && found.verdict.outcome !== "unmeasured")
    return ofOutcome(found.verdict, "maps");
  const [target, name] = ["part", "object"].map((key) => [found.targets[key], key]).find(([each]) => each) ?? [];
  if (!target) return { verdict: "none", says: "No map could be judged." };
  const map = target.maps.own ? "own" : "gradcam";
  const words = map === "own" ? "The method's own maps put" : "Grad-CAM maps put";
  const on = name === "part" ? "the concept's part" : "the object";
  const prior = target.maps.center_prior?.energy?.value;
  const text = `${words} ${percent(target.maps[map].energy?.value)} of their mass on ${on}; a center prior ${percent(prior)}, a uniform map ${percent(target.maps.uniform?.energy?.value)}.`;
  const [low, high] = target.against[`${map} - center_prior`]?.energy?.interval ?? [];
  if (!known(low)) return { verdict: "plain", says: text };
  if (low > 0) return { verdict: "good", says: `${text} They are significantly better than the center prior.` };
  return high < 0
    ? { verdict: "bad", says: `${text} The image-free center prior is significantly better.` }
    : { verdict: "look", says: `${text} The difference to the center prior is not significant.` };
}

/** @returns {Verdict} @param {any} found */
export function ofFaithfulness(found) {
  if (found.verdict && found.against_center && Object.keys(found.against_center).length)
    return ofOutcome(found.verdict, "faithfulness");
  const map = found.curves.own ? "own" : "gradcam";
  const against = found.against_random[map];
  const order = map === "own" ? "the method's own map" : "Grad-CAM";
  const text = `Compared with a random order, adding patches in the order of ${order} changes a concept's probability by ${points(against?.insertion?.value)}, and removing them changes it by ${points(against?.deletion?.value)}.`;
  const inserted = against?.insertion?.interval;
  const deleted = against?.deletion?.interval;
  if (!inserted || !deleted) return { verdict: "plain", says: text };
  if (inserted[0] > 0 && deleted[1] < 0) return { verdict: "good", says: `${text} The map shows what was used.` };
  if (inserted[1] < 0 || deleted[0] > 0) return { verdict: "bad", says: `${text} A random order is significantly better.` };
  return { verdict: "look", says: `${text} The difference is not significant.` };
}

/** @returns {Verdict} @param {any} found */
export const ofAudit = (found) => ({
  verdict: "plain",
  says: `${plural(found.findings.length, "finding")} about ${found.codebook ? "the codebook, " : ""}concepts and images.`,
});
