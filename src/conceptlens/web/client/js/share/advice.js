/**
 * What to ask next and the smallest change that flips the class, of a linear head, without a server: the arithmetic of
 * `conceptlens.evaluation.interventions` (ask_next.py, flip.py) for one image.
 */
import { answerScores, apply, columnsOf, logits, pointless, probabilities, said, stated, target } from "../head.js";

const SURE = 1e-6; // probabilities come no closer to 0 and 1
/** @param {number} x */
const sigmoid = (x) => 1 / (1 + Math.exp(-x));
/** @param {number} p */
const clip = (p) => Math.min(Math.max(p, SURE), 1 - SURE);
/** @param {number} p @param {number} q */
const times = (p, q) => (p > 0 ? p * Math.log(q) : 0);
/** @param {number[]} values */
const largest = (values) => values.indexOf(Math.max(...values));

/** Probabilities (K) that keep what they promise, from those that the model states. @param {any} head @param {Answers.GroupPart[]} groups @param {any[]} shares */
function calibrated(head, groups, shares) {
  const found = shares.map((p, k) =>
    clip(sigmoid(head.odds_slope[k] * Math.log(clip(p) / (1 - clip(p))) + head.odds_offset[k])),
  );
  for (const group of groups.filter((each) => each.kind === "exclusive")) {
    const sum = columnsOf(group).reduce((total, k) => total + found[k], 0);
    for (const k of columnsOf(group)) found[k] /= sum;
  }
  return found;
}

/** Questions with their answers: a value of an exclusive group, or no and yes for each concept of another. @param {Answers.GroupPart} group */
function questions(group) {
  const columns = columnsOf(group);
  if (group.kind === "exclusive")
    return [
      columns.map((chosen, place) => ({
        columns,
        held: columns.map((k) => k === chosen),
        edit: `${group.name}=${group.values[place]}`,
      })),
    ];
  return columns.map((k, place) =>
    [false, true].map((held) => ({
      columns: [k],
      held: [held],
      edit: `${group.name}: ${group.values[place]}=${held ? "yes" : "no"}`,
    })),
  );
}

/** The bottleneck with the scores of an answer written into it. @param {number[]} bottleneck @param {any[]} columns @param {number[]} answer */
function written(bottleneck, columns, answer) {
  const scores = [...bottleneck];
  columns.forEach((k, place) => {
    scores[k] = answer[place];
  });
  return scores;
}

/** How unsure the class is, in nats; summed over the labels of a multi-label task. @param {any} head @param {number[]} found */
function entropy(head, found) {
  const shares = probabilities(head, found);
  const both = head.task === "multilabel" ? (/** @type {number} */ p) => times(p, p) + times(1 - p, 1 - p) : (/** @type {number} */ p) => times(p, p);
  return -shares.reduce((sum, p) => sum + both(p), 0);
}

/** As `POST /ask` answers. @param {any} head @param {Answers.GroupPart[]} groups */
export function nextQuestions(head, groups, /** @type {{state: any, edits?: string[], most?: any}} */ { state, edits = [], most = 5 }) {
  const bottleneck = apply(head, groups, state, edits);
  const now = logits(head, bottleneck, state.rest);
  const before = entropy(head, now);
  const read = stated(groups, state.concept_logits);
  const shares = calibrated(head, groups, read);
  const idle = pointless(
    groups,
    read.map((probability) => ({ probability })),
    edits,
  );
  const answered = new Set(edits.map((edit) => target(groups, edit)?.group));
  const found = groups
    .filter((group) => !answered.has(group) && !idle.has(group.name))
    .map((group) => {
      const asked = questions(group);
      let [gain, unsure] = [0, 0];
      for (const answers of asked) {
        const parts = answers.map(({ columns, held }) =>
          columns.length > 1 || group.kind === "exclusive"
            ? shares[columns[held.indexOf(true)]]
            : held[0]
              ? shares[columns[0]]
              : 1 - shares[columns[0]],
        );
        const sum = parts.reduce((a, b) => a + b, 0);
        gain += before;
        answers.forEach((answer, place) => {
          const share = parts[place] / sum;
          const scores = answerScores(head, groups, state, answer.columns, answer.held);
          gain -= share * entropy(head, logits(head, written(bottleneck, answer.columns, scores), state.rest));
          unsure -= times(share, share) / asked.length;
        });
      }
      return {
        unit: group.name,
        kind: group.kind,
        expected_gain: gain,
        uncertainty: unsure,
        answers:
          group.kind === "exclusive"
            ? group.values.map((value) => ({ words: value, edit: `${group.name}=${value}` }))
            : group.values.flatMap((value) => [
                { words: value, edit: `${group.name}: ${value}=yes` },
                { words: `not ${value}`, edit: `${group.name}: ${value}=no` },
              ]),
      };
    })
    .sort((a, b) => b.expected_gain - a.expected_gain)
    .slice(0, most);
  return { said: said(head, probabilities(head, now)).join(", ") || "no class", entropy: before, ask: found };
}

/** Answers that the model gives itself: to give them again would be no edit. @param {number[]} shares */
function already(/** @type {{columns: any[], held: any}} */ { columns, held }, shares) {
  if (held.length === 1) return shares[columns[0]] >= 0.5 === held[0];
  return largest(columns.map((k) => shares[k])) === held.indexOf(true);
}

/** As `POST /flip` answers: for each rival the answers that take most off its margin, until they outweigh it. @param {any} head @param {Answers.GroupPart[]} groups */
export function smallestFlip(head, groups, /** @type {{state: any, edits?: string[]}} */ { state, edits = [] }) {
  const bottleneck = apply(head, groups, state, edits);
  const now = logits(head, bottleneck, state.rest);
  const first = largest(now);
  const shares = stated(groups, state.concept_logits);
  const asked = groups.flatMap((group) =>
    questions(group).map((answers) => ({
      group: group.name,
      answers: answers.map((each) => ({ ...each, scores: answerScores(head, groups, state, each.columns, each.held) })),
    })),
  );
  /** @type {any} */
  let best = null;
  head.classes.forEach((/** @type {any} */ _, /** @type {any} */ rival) => {
    if (rival === first) return;
    const lowers = (/** @type {{columns: any[], scores: any}} */ { columns, scores }) =>
      columns.reduce(
        (/** @type {number} */ sum, /** @type {number} */ k, /** @type {number} */ place) => sum + (scores[place] - bottleneck[k]) * (head.weight[rival][k] - head.weight[first][k]),
        0,
      );
    const ranked = asked
      .map(({ group, answers }) => {
        const open = answers.filter((each) => !already(each, shares));
        const gains = open.map(lowers);
        const at = gains.length ? largest(gains) : -1;
        return at < 0 ? { gain: -Infinity } : { group, answer: open[at], gain: gains[at] };
      })
      .filter((each) => each.gain > 0)
      .sort((a, b) => b.gain - a.gain);
    const margin = now[first] - now[rival];
    let sum = 0;
    for (const [place, { gain }] of ranked.entries()) {
      sum += gain;
      if (sum <= margin) continue;
      const count = place + 1;
      if (!best || count < best.count || (count === best.count && sum - margin > best.ahead))
        best = { count, ahead: sum - margin, steps: ranked.slice(0, count) };
      return;
    }
  });
  const answer = { kind: "exact", before: head.classes[first], after: null, edits: null, groups: null };
  if (!best) return answer;
  const after = best.steps.reduce((/** @type {number[]} */ scores, /** @type {{answer: any}} */ { answer: { columns, scores: told } }) => written(scores, columns, told), bottleneck);
  return {
    ...answer,
    after: head.classes[largest(logits(head, after, state.rest))],
    edits: best.steps.map((/** @type {any} */ step) => step.answer.edit),
    groups: best.steps.map((/** @type {any} */ step) => step.group),
  };
}
