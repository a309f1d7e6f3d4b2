/**
 * The rows of the table of runs: joined, filtered, sorted, grouped. Pure.
 * @typedef {{key: string, name: string, status: string, method: string, data: string, encoder: string, seed: number | null, tag: string, note: string, trust: string | null, changed: string, epoch: number | null, epochs: number | null, metrics: Record<string, number>, intervals: Record<string, [number, number]>}} Row
 */

/** Cards of trained models with what the table knows of them. @param {any[]} cards @param {any[]} known @returns {Row[]} */
export function joined(cards, known) {
  const byKey = new Map(known.map((each) => [each.key, each]));
  return cards
    .filter((card) => card.kind === "bottleneck")
    .map((card) => {
      const { metrics = {}, intervals = {}, tag = "", note = "" } = byKey.get(card.key) ?? {};
      const regularizer = card.regularizer && card.regularizer !== "none" ? ` + ${card.regularizer}` : "";
      return { ...card, method: `${card.method ?? ""}${regularizer}`, metrics, intervals, tag, note };
    });
}

/** Every metric that some run has, in order of how many have it. @param {Row[]} rows */
export function metricNames(rows) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const row of rows)
    for (const name of Object.keys(row.metrics)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts.keys()].sort((a, b) => (counts.get(b) ?? 0) - (counts.get(a) ?? 0) || a.localeCompare(b));
}

/** A cell's value, for sorting. @param {Row} row @param {string} column @returns {number | string | null} */
export const cell = (row, column) =>
  column in row.metrics ? row.metrics[column] : (/** @type {any} */ (row)[column] ?? null);

/**
 * Rows whose words fit and whose numbers do: `method:evidence class.accuracy>0.9 seed=1`, or plain words.
 * @param {Row[]} rows @param {string} words
 */
export function filtered(rows, words) {
  const tests = words.toLowerCase().split(/\s+/).filter(Boolean).map(testOf); // prettier-ignore
  return rows.filter((row) => tests.every((test) => test(row)));
}

/** @param {string} word @returns {(row: Row) => boolean} */
function testOf(word) {
  const match = /^([\w.]+)(>=|<=|>|<|=|:)(.+)$/.exec(word);
  if (!match)
    return (row) =>
      [row.name, row.method, row.data, row.encoder, row.tag, row.note, row.status]
        .join(" ")
        .toLowerCase()
        .includes(word);
  const [, column, sign, value] = match;
  return (row) => {
    const found = cell(row, column);
    if (sign === ":") return String(found ?? "").toLowerCase().includes(value); // prettier-ignore
    if (found === null) return false;
    if (sign === "=") return String(found).toLowerCase() === value || (typeof found === "number" && found === Number(value)); // prettier-ignore
    const [left, right] = [Number(found), Number(value)];
    return { ">": left > right, ">=": left >= right, "<": left < right, "<=": left <= right }[sign] ?? false;
  };
}

/** Rows in the order of a column; what has no value comes last, whichever way. @param {Row[]} rows @param {string} column @param {1 | -1} way */
export function sorted(rows, column, way) {
  return rows.slice().sort((a, b) => {
    const [one, two] = [cell(a, column), cell(b, column)];
    const [none, other] = [one === null || one === "", two === null || two === ""];
    if (none || other) return Number(none) - Number(other);
    const order = typeof one === "number" && typeof two === "number" ? one - two : String(one).localeCompare(String(two));
    return way * order || a.key.localeCompare(b.key);
  });
}

/** Rows by the value of a column, in the order in which they come. @param {Row[]} rows @param {string} column @returns {Array<[string, Row[]]>} */
export function grouped(rows, column) {
  if (!column) return [["", rows]];
  /** @type {Map<string, Row[]>} */
  const groups = new Map();
  for (const row of rows) {
    const name = String(cell(row, column) ?? "") || "none";
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups];
}

/** The mean of a metric over rows that have it; null where none has. @param {Row[]} rows @param {string} metric */
export function mean(rows, metric) {
  const values = rows.map((row) => row.metrics[metric]).filter((value) => Number.isFinite(value));
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
}

/** A curve smoothed by an exponential average that begins without a bias. @param {Array<[number, number]>} points @param {number} weight 0 to 0.99 @returns {Array<[number, number]>} */
export function smoothed(points, weight) {
  let [sum, norm] = [0, 0];
  return points.map(([x, y]) => {
    sum = weight * sum + (1 - weight) * y;
    norm = weight * norm + (1 - weight);
    return [x, sum / norm];
  });
}

/** Series (epoch, value) of a key in the lines of a history. @param {any[]} lines @param {string} split @param {string} key @returns {Array<[number, number]>} */
export function curve(lines, split, key) {
  /** @type {Map<number, number>} */
  const points = new Map();
  for (const line of lines)
    if (line.split === split && Number.isFinite(line[key])) points.set(line.epoch, line[key]);
  return [...points].sort((a, b) => a[0] - b[0]);
}

/** What can be drawn of some histories: `val/class.accuracy`. @param {any[][]} histories */
export function curveNames(histories) {
  const names = new Set();
  for (const lines of histories)
    for (const line of lines)
      for (const [key, value] of Object.entries(line))
        if (line.split && Number.isFinite(value) && !["epoch", "step", "time"].includes(key)) names.add(`${line.split}/${key}`);
  return [...names].sort();
} // prettier-ignore
