/** The class head in the page: what-if without waiting. The same arithmetic as the library's; the server confirms it. */

const SURE = 1e-12;

/** @param {any} head as `GET /head` has it @param {number[]} bottleneck (K) @param {number[]} rest (C) @returns {number[]} logits (C) */
export function logits(head, bottleneck, rest) {
  return head.weight.map((row, place) =>
    row.reduce((sum, each, k) => sum + each * bottleneck[k], head.bias[place] + (rest[place] ?? 0)),
  );
}

/** Softmax of one label, sigmoid of several. */
export function probabilities(head, found) {
  if (head.task === "multilabel") return found.map((each) => 1 / (1 + Math.exp(-each)));
  const top = Math.max(...found);
  const raised = found.map((each) => Math.exp(each - top));
  const sum = raised.reduce((a, b) => a + b, 0);
  return raised.map((each) => each / sum);
}

/** Which classes are said. */
export function said(head, shares) {
  if (head.task === "multilabel")
    return head.classes.filter((_, place) => shares[place] >= (head.thresholds[place] ?? 0.5));
  return [head.classes[shares.indexOf(Math.max(...shares))]];
}

/** How a class's logit, or its difference to another, is made up: total = base + Σ values + bypass. */
export function decomposeLogit(head, of, minus, bottleneck, rest) {
  const side = head.classes.map(
    (name) => (name === of ? 1 : 0) - (minus === "mean" ? 1 / head.classes.length : name === minus ? 1 : 0),
  );
  const mix = (rows) => rows.reduce((sum, each, place) => sum + side[place] * each, 0);
  const weight = bottleneck.map((_, k) => side.reduce((sum, each, place) => sum + each * head.weight[place][k], 0));
  const values = weight.map((each, k) => each * (bottleneck[k] - head.reference[k]));
  const base = mix(head.bias) + weight.reduce((sum, each, k) => sum + each * head.reference[k], 0);
  const bypass = mix(rest);
  return { of, minus, base, values, bypass, total: base + values.reduce((a, b) => a + b, 0) + bypass };
}

/**
 * The bottleneck after edits in words, in order.
 * @param {any} head @param {any[]} groups as `GET /runs/{run}` has them @param {number[]} bottleneck @param {string[]} edits
 */
export function apply(head, groups, bottleneck, edits) {
  return edits.reduce((scores, edit) => applyOne(head, groups, scores, edit), bottleneck);
}

function applyOne(head, groups, bottleneck, edit) {
  const place = target(groups, edit);
  if (!place) return bottleneck;
  const { group, columns, word, whole } = place;
  const scores = [...bottleneck];
  if (word.startsWith("mean of ")) {
    const mean = head.class_mean[word.slice(8).trim()];
    if (mean) for (const k of columns) scores[k] = mean[k];
  } else if (whole) {
    const chosen = group.start + group.values.indexOf(word);
    if (group.kind === "independent") scores[chosen] = head.yes[chosen];
    else for (const k of columns) scores[k] = k === chosen ? head.yes[k] : head.no[k];
  } else if (word === "yes" || word === "no") scores[columns[0]] = head[word][columns[0]];
  else if (word.startsWith("score ")) scores[columns[0]] = Number(word.slice(6));
  else setProbability(head, group, scores, columns[0], Number(word));
  return scores;
}

function setProbability(head, group, scores, k, p) {
  if (head.space !== "probability") {
    const middle = (head.low[k] + head.high[k]) / 2;
    const at = (Math.log(p / (1 - p)) - head.offset[k]) / head.slope[k];
    scores[k] = head.slope[k] > 0 ? Math.min(Math.max(at, head.low[k]), head.high[k]) : middle;
    return;
  }
  scores[k] = p;
  if (group.kind !== "exclusive") return;
  const rivals = columnsOf(group).filter((each) => each !== k);
  const sum = rivals.reduce((total, each) => total + scores[each], 0);
  for (const each of rivals) scores[each] = sum > SURE ? (scores[each] / sum) * (1 - p) : (1 - p) / rivals.length;
}

export const columnsOf = (group) => group.values.map((_, place) => group.start + place);

/** Where an edit goes: its group, its columns, the word behind the "=", and whether the whole group was named. */
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
 * @param {any[]} groups @param {any[]} concepts of a prediction @param {string[]} edits
 */
export function pointless(groups, concepts, edits) {
  const held = concepts.map((each) => each.probability >= 0.5);
  const settle = (group, chosen) => columnsOf(group).forEach((k) => (held[k] = k === chosen));
  for (const group of groups)
    if (group.kind === "exclusive")
      settle(
        group,
        columnsOf(group).reduce((a, b) => (concepts[b].probability > concepts[a].probability ? b : a)),
      );
  for (const edit of edits) {
    const { group, columns, word, whole } = target(groups, edit) ?? {};
    if (!group) continue;
    const chosen = whole ? group.start + group.values.indexOf(word) : columns[0];
    if (whole && group.values.includes(word) && group.kind === "exclusive") settle(group, chosen);
    else if (whole && group.values.includes(word)) held[chosen] = true;
    else if (word === "yes" || word === "no") held[chosen] = word === "yes";
  }
  const applies = (group) => {
    if (!group?.under) return true;
    const [name, value] = group.under;
    const above = groups.find((each) => each.name === name);
    return applies(above) && (value === null || held[above.start + above.values.indexOf(value)]);
  };
  return new Set(groups.filter((group) => !applies(group)).map((group) => group.name));
}

/** Edits with one more, without those that it makes pointless. */
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
      return old && !columns.every((k) => covered.has(k));
    }),
    edit,
  ];
}
