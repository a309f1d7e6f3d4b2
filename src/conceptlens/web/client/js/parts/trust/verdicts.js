/**
 * What each document says at a glance: a verdict and one sentence. Only what an interval or a test supports is called
 * good or bad; where a document has a verdict of its own, that one counts.
 * @typedef {{verdict: "good" | "look" | "bad" | "plain", says: string}} Verdict
 */
import { known, percent, plural } from "../../words.js";
import { points, reading } from "./words.js";

const SMALL = 0.02; // an error of calibration that is sure but hardly matters

/** The order that a summary speaks of: the best informed one. */
export const mainCurve = (found) =>
  found.curves.find((each) => each.policy === "expected gain") ?? found.curves.at(-1) ?? null;

/** @returns {Verdict} */
export function ofInterventions(found) {
  const curve = mainCurve(found);
  if (!curve) return { verdict: "plain", says: found.notes[0] ?? "Nothing could be corrected." };
  const last = curve.points.at(-1);
  const told = `Accuracy ${percent(found.start.value)} with nothing corrected, ${percent(last.value)} with all ${found.units.length} ${found.by} corrected; true concepts alone allow ${percent(found.ceiling.value)}.`;
  const [low, high] = last.interval ?? [];
  if (!known(low)) return { verdict: "plain", says: told };
  if (high < found.start.value)
    return {
      verdict: "bad",
      says: `${told} True corrections make it worse: the head does not read what the concepts are called.`,
    };
  if (low > found.start.value) return { verdict: "good", says: `${told} Corrections help.` };
  if ((found.headroom.value ?? 0) <= 0.01)
    return { verdict: "plain", says: `${told} There is no room above what it reaches by itself.` };
  return { verdict: "look", says: `${told} That corrections help is not certain.` };
}

/** @returns {Verdict} */
export function ofLeakage(found) {
  const verdict = found.leaks === true ? "bad" : found.leaks === false ? "good" : "plain";
  if (found.summary) return { verdict, says: found.summary };
  return { verdict, says: found.twins === 0 ? "Measured without a verdict." : "It cannot be told from these labels." };
}

/** @returns {Verdict} */
export function ofCalibration({ calibration: found }) {
  if (!known(found.error)) return { verdict: "plain", says: "No image has a known class." };
  const gap = known(found.confidence) ? found.confidence - found.right : null;
  const side = known(gap) ? `, on average ${percent(Math.abs(gap))} too ${gap > 0 ? "sure" : "modest"}` : "";
  const told = `Confidence in the class is off by ${percent(found.error)}${side}`;
  if (!known(found.by_chance)) return { verdict: "plain", says: `${told}.` };
  const chance = `; chance alone would give ${percent(found.by_chance)}`;
  if (!known(found.p)) return { verdict: "plain", says: `${told}${chance}.` };
  if (found.p >= 0.05) return { verdict: "good", says: `${told}${chance}: no worse than chance explains.` };
  const small = found.error - found.by_chance < SMALL;
  return { verdict: small ? "look" : "bad", says: `${told}${chance}: more than chance explains.` };
}

const LESS_IS_WORSE = ["class accuracy", "concept accuracy"];

/** Whether a group does worse than the rest, with certainty after correction. */
export function failed(measure, level) {
  if (!known(measure?.p) || measure.p >= level) return false;
  const difference = measure.difference.value ?? 0;
  return LESS_IS_WORSE.includes(measure.measure) ? difference < 0 : difference > 0;
}

/** @returns {Verdict} */
export function ofGroups(found) {
  if (!found.groups.length) return { verdict: "plain", says: "No column of metadata makes groups of these images." };
  const sets = found.groups.filter((group) => group.measures.some((measure) => failed(measure, found.level)));
  const names = sets.map((group) => `${group.column} ${group.group}`);
  if (names.length)
    return {
      verdict: "bad",
      says: `${plural(names.length, "group does", "groups do")} worse than all other images beyond chance: ${names.slice(0, 4).join(", ")}${names.length > 4 ? " and more" : ""}.`,
    };
  if (!found.comparisons) return { verdict: "plain", says: "No group has enough images to be judged." };
  return {
    verdict: "good",
    says: `No group of ${found.columns.join(", ")} does worse than the rest beyond chance (${plural(found.comparisons, "comparison")}).`,
  };
}

/** @returns {Verdict} */
export function ofSets(found) {
  const sets = found.sets.find((each) => each.question === "class") ?? found.sets[0];
  if (!sets) return { verdict: "plain", says: "There were no images to calibrate prediction sets on." };
  const told = `Sets that shall hold the true class in ${percent(sets.wanted, 0)} of images do so in ${reading(sets.coverage)}, with ${sets.size.value?.toFixed(2)} classes each.`;
  const short = found.sets.filter((each) => each.holds === false).map((each) => each.question);
  if (short.length) {
    // Of many sets one falls short by chance: only the one that is spoken of is called a finding.
    const verdict = sets.holds === false ? "bad" : "look";
    return { verdict, says: `${told} Below what chance allows: ${short.slice(0, 3).join(", ")}.` };
  }
  return { verdict: sets.holds ? "good" : "plain", says: told };
}

/** @returns {Verdict} */
export function ofMaps(found) {
  const [target, name] = ["part", "object"].map((key) => [found.targets[key], key]).find(([each]) => each) ?? [];
  if (!target) return { verdict: "plain", says: "No map could be judged." };
  const map = target.maps.own ? "own" : "gradcam";
  const words = map === "own" ? "The method's own maps put" : "Grad-CAM maps put";
  const on = name === "part" ? "the concept's part" : "the object";
  const blob = target.maps.blob?.energy?.value;
  const told = `${words} ${percent(target.maps[map].energy?.value)} of their mass on ${on}; a blob in the middle of the image ${percent(blob)}, a uniform map ${percent(target.maps.uniform?.energy?.value)}.`;
  const [low, high] = target.against[`${map} - blob`]?.energy?.interval ?? [];
  if (!known(low)) return { verdict: "plain", says: told };
  if (low > 0) return { verdict: "good", says: `${told} They show more than a blob does.` };
  return high < 0
    ? { verdict: "bad", says: `${told} A map that looks at no image does better.` }
    : { verdict: "look", says: `${told} That they beat the blob is not certain.` };
}

/** @returns {Verdict} */
export function ofFaithfulness(found) {
  const map = found.curves.own ? "own" : "gradcam";
  const against = found.against_random[map];
  const order = map === "own" ? "the method's own map" : "Grad-CAM";
  const told = `Against a random order, patches that are put back in the order of ${order} change a concept's probability by ${points(against?.insertion?.value)}, taken away by ${points(against?.deletion?.value)}.`;
  const inserted = against?.insertion?.interval;
  const deleted = against?.deletion?.interval;
  if (!inserted || !deleted) return { verdict: "plain", says: told };
  if (inserted[0] > 0 && deleted[1] < 0) return { verdict: "good", says: `${told} The map shows what was used.` };
  if (inserted[1] < 0 || deleted[0] > 0) return { verdict: "bad", says: `${told} A random order does better.` };
  return { verdict: "look", says: `${told} That the map shows what was used is not certain.` };
}

/** @returns {Verdict} */
export const ofAudit = (found) => ({
  verdict: "plain",
  says: `${plural(found.findings.length, "finding")} about ${found.codebook ? "the codebook, " : ""}concepts and images, in plain sentences.`,
});
