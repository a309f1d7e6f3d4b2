/**
 * Corrections in a shared file: kept for as long as it is open, and taken home as the table that the server would have
 * written (`corrections.csv`). Whoever shared the file trains on it: `conceptlens train RECIPE --data.corrections FILE`.
 */
import { columnsOf, target } from "../head.js";

const COLUMNS = ["time", "rater", "image", "concept", "before", "said", "after"];
const RATER = /^[\p{L}\p{N}][\p{L}\p{N}_ .'@-]*$/u; // nothing with which a spreadsheet begins a formula
/** @type {any[]} */
const rows = [];

/** What is labeled and how: a group that has one value, or a yes/no concept. @param {Answers.GroupPart[]} groups @param {string} edit */
function asLabel(groups, edit) {
  const { group, columns, word, whole, name } = /** @type {any} */ (target(groups, edit));
  if (whole) return group.kind === "exclusive" ? [group.name, word] : [`${group.name}: ${word}`, "yes"];
  if (group.kind === "independent") return [name, word];
  const value = group.values[columns[0] - group.start];
  const others = group.values.filter((/** @type {any} */ each) => each !== value);
  if (word === "yes") return [group.name, value];
  if (others.length === 1) return [group.name, others[0]];
  throw new Error(`${edit}: say which value of ${group.name} it is instead: ${others.join(", ")}.`);
}

/** What the labels on file and the model say of a group or a concept; empty where they say nothing. @param {Answers.GroupPart[]} groups @param {any[]} concepts @param {any} concept */
function sides(groups, concepts, concept) {
  const group = groups.find((each) => each.name === concept);
  if (!group) {
    const each = concepts.find((one) => one.name === concept);
    return [each.label === null ? "" : each.label ? "yes" : "no", each.probability >= 0.5 ? "yes" : "no"];
  }
  const part = columnsOf(group).map((k) => concepts[k]);
  const held = part.filter((each) => each.label === true);
  const top = part.reduce((a, b) => (b.probability > a.probability ? b : a));
  return [held.length === 1 ? held[0].value : "", top.value];
}

/** Whether a row is neither what the model says already nor what the same person said before. @param {any} row */
function changes(row) {
  const alike = rows.filter((each) => each.image === row.image && each.concept === row.concept);
  const confirms = row.after === row.said && ["", row.after].includes(row.before);
  const repeats = alike.findLast((each) => each.rater === row.rater)?.after === row.after;
  return (alike.at(-1)?.after ?? row.after) !== row.after || !(confirms || repeats);
}

/** As `POST /corrections` answers. @param {Answers.Prediction} prediction @param {Answers.GroupPart[]} groups */
export function addCorrections(/** @type {{rater: any, edits: string[]}} */ { rater, edits }, prediction, groups) {
  if (!RATER.test(rater.trim()))
    throw new Error("A name of letters, digits, spaces, . _ - ' @ is expected, beginning with a letter or digit.");
  const time = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const given = edits.map((edit) => {
    const [concept, after] = asLabel(groups, edit);
    const [before, said] = sides(groups, prediction.concepts, concept);
    return { time, rater: rater.trim(), image: prediction.image.id, concept, before, said, after };
  });
  const fresh = given.filter(changes);
  rows.push(...fresh);
  const idle = given.filter((row) => !fresh.includes(row)).map((row) => row.concept);
  const note = idle.length ? `${idle.join(", ")}: already predicted, labeled or saved so` : "";
  return {
    file: "corrections.csv",
    total: rows.length,
    rows: fresh,
    added: fresh.length,
    note: fresh.length ? note : `nothing changed (${note})`,
  };
}

/** As `GET /corrections` answers, of what was corrected since the file was opened. */
export const savedCorrections = () => ({ file: "corrections.csv", total: rows.length, rows: [...rows].reverse() });

// As conceptlens.core.spreadsheet: an apostrophe before what a spreadsheet would compute, also behind a semicolon.
const FORMULA = /^'*[=+\-@＝＋－＠\x00-\x1f\x7f]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const INNER = /([;\t\r\n] *)(?![+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:[;\t\r\n]|$))('*[=+\-@＝＋－＠])/gi;
/** @param {string} word */
const safe = (word) => {
  const text = word.replace(INNER, "$1'$2");
  return FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
};
/** @param {string} word */
const quoted = (word) => (/[",\r\n]/.test(word) ? `"${word.replaceAll('"', '""')}"` : word);

/** The table as an address that can be saved. */
export function correctionsTable() {
  const lines = [COLUMNS, ...rows.map((row) => COLUMNS.map((name) => row[name]))];
  const text = lines.map((line) => `${line.map(safe).map(quoted).join(",")}\n`).join("");
  return URL.createObjectURL(new Blob([text], { type: "text/csv" }));
}
