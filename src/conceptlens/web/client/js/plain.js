/**
 * Plain words: points in place of logits and nats. Ten points are one logit or one nat, so that seven points double the
 * odds of an answer. The choice is remembered in this browser only.
 */
import { fixed, known, signed } from "./words.js";

const KEY = "conceptlens-plain";
const SCALE = 10;

/** Whether plain words are chosen. */
export const plain = () => document.documentElement.dataset.words === "plain";

/** @param {boolean} on */
function apply(on) {
  if (on) document.documentElement.dataset.words = "plain";
  else delete document.documentElement.dataset.words;
  const button = document.getElementById("plain");
  button?.setAttribute("aria-pressed", String(on));
}

/** Start with what was chosen last. @param {() => void} redraw called when the choice changes */
export function startPlain(redraw) {
  let on = false;
  try {
    on = localStorage.getItem(KEY) === "1";
  } catch {
    on = false; // a browser that keeps nothing for us
  }
  apply(on);
  const toggle = () => {
    apply(!plain());
    try {
      localStorage.setItem(KEY, plain() ? "1" : "0");
    } catch {
      return redraw(); // kept for as long as the page is open
    }
    redraw();
  };
  document.getElementById("plain")?.addEventListener("click", toggle);
  return toggle;
}

/** What amounts are counted in. */
export const unit = () => (plain() ? "points" : "logits");

/** An amount of logits, signed. @param {number | null} value */
export const amount = (value, digits = 2) =>
  plain() && value !== null ? signed(SCALE * value, Math.max(0, digits - 1)) : signed(value, digits);

/** An amount of nats with its unit. @param {number} value */
export const nats = (value) => `${natsNumber(value)} ${natsUnit()}`;

/** What information is counted in. */
export const natsUnit = () => (plain() ? "points" : "nats");

/** An amount of nats without its unit. @param {number | null | undefined} value */
export const natsNumber = (value) => (!known(value) ? "–" : plain() ? (SCALE * value).toFixed(1) : fixed(value));

/** The name of a sum: "logit of A minus B". @param {string} of @param {string | null} minus */
export const sumName = (of, minus) => {
  if (plain()) return minus ? `points for ${of}, ahead of ${minus}` : `points for ${of}`;
  return minus ? `logit of ${of} minus ${minus}` : `logit of ${of}`;
};

/** A sentence of a result file: its nats as points. @param {string} text */
export const inWords = (text) =>
  plain()
    ? text.replace(/(−?-?\d+\.\d+)(?: \((-?\d+\.\d+) to (-?\d+\.\d+)\))? nats/g, (_, ...found) => {
        const [value, low, high] = found.slice(0, 3).map((each) => (each ? (SCALE * Number(each.replace("−", "-"))).toFixed(1) : null));
        return `${value}${low ? ` (${low} to ${high})` : ""} points`;
      })
    : text;
