/**
 * The class head in the page: what-if without waiting. The same arithmetic as the library's; the server confirms it.
 *
 * @typedef {{task: string, classes: string[], thresholds: number[], weight: number[][], bias: number[], reference: number[],
 *   space: string, way: string, low: number[], high: number[], offset: number[], slope: number[], epsilon: number,
 *   values: number[][], yes: number[], no: number[], class_mean: Record<string, number[]>, odds_slope: number[],
 *   odds_offset: number[], linear: boolean, bypass: string | null}} Head as `GET /head` has it
 * @typedef {{name: string, kind: string, start: number, values: string[], under?: [string, string | null] | null}} Group
 * @typedef {{bottleneck: number[], concept_logits: number[], rest: number[]}} State of an image
 */

const SURE = 1e-12;

/** @param {Head} head @param {number[]} bottleneck (K) @param {number[]} rest (C) @returns {number[]} logits (C) */
export function logits(head, bottleneck, rest) {
  return head.weight.map((row, place) =>
    row.reduce((sum, each, k) => sum + each * bottleneck[k], head.bias[place] + (rest[place] ?? 0)),
  );
}

/** Softmax of one label, sigmoid of several. @param {Head} head @param {number[]} found logits (C) */
export function probabilities(head, found) {
  if (head.task === "multilabel") return found.map((each) => 1 / (1 + Math.exp(-each)));
  const top = Math.max(...found);
  const raised = found.map((each) => Math.exp(each - top));
  const sum = raised.reduce((a, b) => a + b, 0);
  return raised.map((each) => each / sum);
}

/** Which classes are said. @param {Head} head @param {number[]} shares (C) */
export function said(head, shares) {
  if (head.task === "multilabel")
    return head.classes.filter((_, place) => shares[place] >= (head.thresholds[place] ?? 0.5));
  return [head.classes[shares.indexOf(Math.max(...shares))]];
}

/**
 * How a class's logit, or its difference to another, is made up: total = base + Σ values + bypass.
 * @param {Head} head @param {string} of @param {string | null} minus @param {number[]} bottleneck @param {number[]} rest
 */
export function decomposeLogit(head, of, minus, bottleneck, rest) {
  const side = head.classes.map(
    (name) => (name === of ? 1 : 0) - (minus === "mean" ? 1 / head.classes.length : name === minus ? 1 : 0),
  );
  const mix = (/** @type {number[]} */ rows) => rows.reduce((sum, each, place) => sum + side[place] * each, 0);
  const weight = bottleneck.map((_, k) => side.reduce((sum, each, place) => sum + each * head.weight[place][k], 0));
  const values = weight.map((each, k) => each * (bottleneck[k] - head.reference[k]));
  const base = mix(head.bias) + weight.reduce((sum, each, k) => sum + each * head.reference[k], 0);
  const bypass = mix(rest);
  return { of, minus, base, values, bypass, total: base + values.reduce((a, b) => a + b, 0) + bypass };
}

/** What the model says of the concepts (K): one value of an exclusive group holds, each of an independent one may. @param {Group[]} groups @param {number[]} scores */
export function stated(groups, scores) {
  const found = scores.map((x) => 1 / (1 + Math.exp(-x)));
  for (const group of groups.filter((each) => each.kind === "exclusive")) {
    const columns = columnsOf(group);
    const top = Math.max(...columns.map((k) => scores[k]));
    const sum = columns.reduce((total, k) => total + Math.exp(scores[k] - top), 0);
    for (const k of columns) found[k] = Math.exp(scores[k] - top) / sum;
  }
  return found;
}

/** Which concepts (K) the model reads as holding. @param {Group[]} groups @param {State} state */
function readLabels(groups, state) {
  const shares = stated(groups, state.concept_logits);
  const held = shares.map((share) => share >= 0.5);
  for (const group of groups.filter((each) => each.kind === "exclusive")) {
    const columns = columnsOf(group);
    const top = Math.max(...columns.map((k) => shares[k]));
    const first = columns.find((k) => shares[k] === top);
    for (const k of columns) held[k] = k === first;
  }
  return held;
}

/**
 * What is written for an answer to one question, as `ValueMap.answer` does: all of an exclusive group, or one concept.
 * @param {Head} head @param {Group[]} groups @param {State} state @param {number[]} columns @param {boolean[]} held
 * @returns {number[]} scores of the columns
 */
export function answerScores(head, groups, state, columns, held) {
  const told = (/** @type {boolean[]} */ which) =>
    columns.length > 1
      ? columns.map((_, place) => head.values[columns[which.indexOf(true)]][place])
      : [head[which[0] ? "yes" : "no"][columns[0]]];
  const read = readLabels(groups, state);
  const own = columns.map((k) => read[k]);
  const written = told(held);
  if (head.way === "shift") {
    const from = told(own);
    return columns.map((k, place) => state.bottleneck[k] + (written[place] - from[place]));
  }
  if (head.way === "one-hot" && columns.length === 1 && held[0] === own[0]) return [state.bottleneck[columns[0]]];
  return written;
}

/**
 * The bottleneck after edits in words, in order.
 * @param {Head} head @param {Group[]} groups as `GET /runs/{run}` has them @param {State} state @param {string[]} edits
 */
export function apply(head, groups, state, edits) {
  return edits.reduce((scores, edit) => applyOne(head, groups, state, scores, edit), state.bottleneck);
}

/** @param {Head} head @param {Group[]} groups @param {State} state @param {number[]} bottleneck @param {string} edit */
function applyOne(head, groups, state, bottleneck, edit) {
  const place = target(groups, edit);
  if (!place) return bottleneck;
  const { group, columns, word, whole } = place;
  const scores = [...bottleneck];
  if (word.startsWith("mean of ")) {
    const mean = head.class_mean[word.slice(8).trim()];
    if (mean) for (const k of columns) scores[k] = mean[k];
  } else if (whole || word === "yes" || word === "no") {
    const chosen = whole ? group.start + group.values.indexOf(word) : columns[0];
    const yes = whole || word === "yes"; // yes to a value of an exclusive group is no to the others
    const asked = yes && group.kind === "exclusive" ? columnsOf(group) : [chosen];
    const held = asked.map((k) => yes && k === chosen);
    answerScores(head, groups, state, asked, held).forEach((score, place) => {
      scores[asked[place]] = score;
    });
  } else if (word.startsWith("score ")) scores[columns[0]] = Number(word.slice(6));
  else setProbability(head, group, scores, columns[0], Number(word));
  return scores;
}

/** @param {Head} head @param {Group} group @param {number[]} scores @param {number} k @param {number} p */
function setProbability(head, group, scores, k, p) {
  const logarithm = head.space === "log-probability";
  if (head.space !== "probability" && !logarithm) {
    const middle = (head.low[k] + head.high[k]) / 2;
    const at = (Math.log(p / (1 - p)) - head.offset[k]) / head.slope[k];
    scores[k] = head.slope[k] > 0 ? Math.min(Math.max(at, head.low[k]), head.high[k]) : middle;
    return;
  }
  const exclusive = group.kind === "exclusive";
  const odds = (/** @type {number} */ share) => Math.log(share + head.epsilon) - (exclusive ? 0 : Math.log(1 - share + head.epsilon));
  const write = (/** @type {number} */ share) => (logarithm ? odds(share) : share);
  scores[k] = write(p);
  if (!exclusive) return;
  const rivals = columnsOf(group).filter((each) => each !== k);
  const read = (/** @type {number} */ score) => (logarithm ? Math.max(Math.exp(score) - head.epsilon, 0) : score);
  const shares = rivals.map((each) => read(scores[each]) + SURE);
  const sum = shares.reduce((total, each) => total + each, 0);
  rivals.forEach((each, place) => {
    scores[each] = write((shares[place] / sum) * (1 - p));
  });
}

/** The places of a group's concepts. @param {Group} group */
export const columnsOf = (group) => group.values.map((_, place) => group.start + place);

/** Where an edit goes: its group, its columns, the word behind the "=", and whether the whole group was named. @param {Group[]} groups @param {string} edit */
export function target(groups, edit) {
  const cut = edit.indexOf("=");
  const [name, word] = [edit.slice(0, cut).trim(), edit.slice(cut + 1).trim()];
  for (const group of groups) {
    if (group.name === name) return { group, columns: columnsOf(group), word, whole: true, name };
    const value = group.values.findIndex((each) => `${group.name}: ${each}` === name);
    if (value >= 0) return { group, columns: [group.start + value], word, whole: false, name };
  }
  return null;
}

/**
 * Names of the groups that have no meaning here: they stand under a value that does not hold, by what the model reads
 * and what edits tell.
 * @param {Group[]} groups @param {Array<{probability: number}>} concepts of a prediction @param {string[]} edits
 */
export function pointless(groups, concepts, edits) {
  const held = concepts.map((each) => each.probability >= 0.5);
  const settle = (/** @type {Group} */ group, /** @type {number} */ chosen) => columnsOf(group).forEach((k) => (held[k] = k === chosen));
  for (const group of groups)
    if (group.kind === "exclusive")
      settle(
        group,
        columnsOf(group).reduce((a, b) => (concepts[b].probability > concepts[a].probability ? b : a)),
      );
  for (const edit of edits) {
    const place = target(groups, edit);
    if (!place) continue;
    const { group, columns, word, whole } = place;
    const chosen = whole ? group.start + group.values.indexOf(word) : columns[0];
    if (whole && group.values.includes(word) && group.kind === "exclusive") settle(group, chosen);
    else if (whole && group.values.includes(word)) held[chosen] = true;
    else if (word === "yes" || word === "no") held[chosen] = word === "yes";
  }
  /** @param {Group | undefined} group @returns {boolean} */
  const applies = (group) => {
    if (!group?.under) return true;
    const [name, value] = group.under;
    const above = groups.find((each) => each.name === name);
    return !above || (applies(above) && (value === null || held[above.start + above.values.indexOf(value)]));
  };
  return new Set(groups.filter((group) => !applies(group)).map((group) => group.name));
}

/** Edits with one more, without those that it makes pointless. @param {Group[]} groups @param {string[]} edits @param {string} edit */
export function withEdit(groups, edits, edit) {
  const next = target(groups, edit);
  if (!next) return edits;
  const covered = new Set(
    next.whole && next.group.kind === "independent" && !next.word.startsWith("mean of ")
      ? [next.group.start + next.group.values.indexOf(next.word)]
      : next.columns,
  );
  return [
    ...edits.filter((each) => {
      const old = target(groups, each);
      const columns =
        old?.whole && old.group.kind === "independent" && !old.word.startsWith("mean of ")
          ? [old.group.start + old.group.values.indexOf(old.word)]
          : old?.columns;
      return columns !== undefined && !columns.every((k) => covered.has(k));
    }),
    edit,
  ];
}
