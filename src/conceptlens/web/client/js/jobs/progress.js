/** How far a job is. Pure. */
import { duration } from "../words.js";

/** How far a job is, in words; empty where it says nothing. @param {any} job */
export function progressWords({ state, done, total, seconds_left: left, left_of: of, said }) {
  if (state !== "running") return "";
  const step = total ? `${done} of ${total}` : "";
  const time = left === null || left === undefined ? "" : `${duration(left)} left${of === "step" ? " in this step" : ""}`;
  return [step, time, said].filter(Boolean).join(" · ");
}
