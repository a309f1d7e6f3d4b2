/**
 * What each document says at a glance: a verdict and one sentence. Only what an interval or a test supports is called
 * good or bad; where a document has a verdict of its own, that one counts.
 * @typedef {{verdict: "good" | "look" | "bad" | "plain", says: string}} Verdict
 */
import { known, percent, plural } from "../../words.js";
import { points, reading } from "./words.js";

const SMALL = 0.02; // a calibration error that is significant but small

const OUTCOMES = { pass: "good", finding: "bad", unmeasured: "plain" };

/** @returns {Verdict} */
export function ofInterventions(found) {
  if (!found.verdict)
    return { verdict: "plain", says: "Measured by an older version, without controls. Measure the corrections again." };
  return { verdict: OUTCOMES[found.verdict.outcome], says: found.verdict.reason };
}

/** @returns {Verdict} */
export function ofLeakage(found) {
  const outcome = { pass: "good", finding: "bad", unmeasured: "plain" }[found.verdict?.outcome];
  if (outcome) return { verdict: outcome, says: found.summary };
  const verdict = found.leaks === true ? "bad" : found.leaks === false ? "good" : "plain";
  if (found.summary) return { verdict, says: found.summary };
  return { verdict, says: found.permutations === 0 ? "Measured without a test." : "These labels do not allow a test." };
}

/** @returns {Verdict} */
export function ofCalibration({ calibration: found }) {
  if (!known(found.error)) return { verdict: "plain", says: "No image has a known class." };
  const gap = known(found.confidence) ? found.confidence - found.right : null;
  const side = known(gap) ? `, on average ${percent(Math.abs(gap))} too ${gap > 0 ? "confident" : "unconfident"}` : "";
  const text = `The calibration error of the class is ${percent(found.error)}${side}`;
  if (!known(found.by_chance)) return { verdict: "plain", says: `${text}.` };
  const chance = `; a calibrated model would have ${percent(found.by_chance)}`;
  if (!known(found.p)) return { verdict: "plain", says: `${text}${chance}.` };
  if (found.p >= 0.05) return { verdict: "good", says: `${text}${chance}. The difference is not significant.` };
  const small = found.error - found.by_chance < SMALL;
  return { verdict: small ? "look" : "bad", says: `${text}${chance}. The difference is significant.` };
}

const LESS_IS_WORSE = ["class accuracy", "concept accuracy"];

/** Whether a subgroup is significantly worse than the rest after correction. */
export function failed(measure, level) {
  if (!known(measure?.p) || measure.p >= level) return false;
  const difference = measure.difference.value ?? 0;
  return LESS_IS_WORSE.includes(measure.measure) ? difference < 0 : difference > 0;
}

/** @returns {Verdict} */
export function ofGroups(found) {
  if (!found.groups.length) return { verdict: "plain", says: "No metadata column makes subgroups of these images." };
  const sets = found.groups.filter((group) => group.measures.some((measure) => failed(measure, found.level)));
  const names = sets.map((group) => `${group.column} ${group.group}`);
  if (names.length)
    return {
      verdict: "bad",
      says: `${plural(names.length, "subgroup is", "subgroups are")} significantly worse than all other images: ${names.slice(0, 4).join(", ")}${names.length > 4 ? " and more" : ""}.`,
    };
  if (!found.comparisons) return { verdict: "plain", says: "No subgroup has enough images to be tested." };
  return {
    verdict: "good",
    says: `No subgroup of ${found.columns.join(", ")} is significantly worse than the rest (${plural(found.comparisons, "comparison")}).`,
  };
}

/** @returns {Verdict} */
export function ofSets(found) {
  const sets = found.sets.find((each) => each.question === "class") ?? found.sets[0];
  if (!sets) return { verdict: "plain", says: "There were no images to calibrate prediction sets on." };
  const text = `Prediction sets with a nominal coverage of ${percent(sets.wanted, 0)} cover the true class in ${reading(sets.coverage)} of images, with ${sets.size.value?.toFixed(2)} classes each.`;
  const short = found.sets.filter((each) => each.holds === false).map((each) => each.question);
  if (short.length) {
    // Of many sets one falls short by chance: only the one that is spoken of is called a finding.
    const verdict = sets.holds === false ? "bad" : "look";
    return { verdict, says: `${text} Significantly below nominal: ${short.slice(0, 3).join(", ")}.` };
  }
  return { verdict: sets.holds ? "good" : "plain", says: text };
}

/** @returns {Verdict} */
export function ofMaps(found) {
  if (found.verdict && found.verdict.outcome !== "unmeasured")
    return { verdict: OUTCOMES[found.verdict.outcome], says: found.verdict.reason };
  const [target, name] = ["part", "object"].map((key) => [found.targets[key], key]).find(([each]) => each) ?? [];
  if (!target) return { verdict: "plain", says: "No map could be judged." };
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

/** @returns {Verdict} */
export function ofFaithfulness(found) {
  if (found.verdict && found.against_center && Object.keys(found.against_center).length)
    return { verdict: OUTCOMES[found.verdict.outcome], says: found.verdict.reason };
  const map = found.curves.own ? "own" : "gradcam";
  const against = found.against_random[map];
  const order = map === "own" ? "the method's own map" : "Grad-CAM";
  const text = `Against a random order, patches that are put back in the order of ${order} change a concept's probability by ${points(against?.insertion?.value)}, taken away by ${points(against?.deletion?.value)}.`;
  const inserted = against?.insertion?.interval;
  const deleted = against?.deletion?.interval;
  if (!inserted || !deleted) return { verdict: "plain", says: text };
  if (inserted[0] > 0 && deleted[1] < 0) return { verdict: "good", says: `${text} The map shows what was used.` };
  if (inserted[1] < 0 || deleted[0] > 0) return { verdict: "bad", says: `${text} A random order is significantly better.` };
  return { verdict: "look", says: `${text} The difference is not significant.` };
}

/** @returns {Verdict} */
export const ofAudit = (found) => ({
  verdict: "plain",
  says: `${plural(found.findings.length, "finding")} about ${found.codebook ? "the codebook, " : ""}concepts and images.`,
});
