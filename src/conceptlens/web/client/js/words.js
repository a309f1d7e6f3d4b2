/** Numbers and names as they are read. */
import { format } from "../vendor/d3.js";

const three = format(".3f");
const two = format(".2f");
const comma = format(",");

/** A fraction as a percentage. @param {number | null | undefined} value */
export const percent = (value, digits = 1) => (known(value) ? `${(100 * value).toFixed(digits)}%` : "–");
/** A score, signed. @param {number | null | undefined} value */
export const signed = (value, digits = 2) =>
  known(value) ? `${value < -0.5 * 10 ** -digits ? "−" : "+"}${Math.abs(value).toFixed(digits)}` : "–";
/** @param {number | null | undefined} value */
export const fixed = (value) => (known(value) ? three(value) : "–");
/** @param {number | null | undefined} value */
export const short = (value) => {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 100) return comma(Math.round(value));
  if (size >= 10) return value.toFixed(1);
  return size >= 1e-6 && size < 0.005 ? value.toPrecision(1).replace("-", "−") : two(value); // small is not nothing
};
/** @param {number | null | undefined} value */
export const count = (value) => (known(value) ? comma(value) : "–");
/** @param {number} n @param {string} one */
export const plural = (n, one, many = `${one}s`) => `${comma(n)} ${n === 1 ? one : many}`;
/** @param {any} value @returns {value is number} */
export const known = (value) => typeof value === "number" && Number.isFinite(value);

/** Seconds as people say them. @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** A name that is too long loses its middle, so that names with the same beginning stay different. @param {string} name @param {number} most letters */
export function shortened(name, most) {
  if (name.length <= most) return name;
  const end = Math.floor((most - 1) / 2);
  return `${name.slice(0, Math.max(1, most - 1 - end))}…${end > 0 ? name.slice(-end) : ""}`;
}

/** `class.balanced_accuracy` → `class balanced accuracy`. @param {string} key */
export const spoken = (key) => key.replace(/[._]/g, " ");

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** A time as the server writes it, as it is read here. @param {string} text */
export const moment = (text) => (Number.isNaN(Date.parse(text)) ? "" : clock.format(new Date(text)));
