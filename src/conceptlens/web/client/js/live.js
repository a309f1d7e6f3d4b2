/**
 * Ask again and again while something changes. A request that fails does not end it: it is tried again, later each time,
 * and at once when the page is looked at again.
 */

const LONGEST = 30_000;

/**
 * How long to wait after so many failures in a row. @param {number} every @param {number} failures
 */
export const pause = (every, failures) => Math.min(every * 2 ** failures, LONGEST);

/**
 * @param {() => Promise<any>} ask
 * @param {{every: number, onanswer: (answer: any) => boolean | void, onproblem?: (error: Error, failures: number) => void,
 *   later?: (call: () => void, wait: number) => any, cancel?: (timer: any) => void}} options `onanswer` returns false
 *   where there is nothing left to wait for
 * @returns {() => void} stops it
 */
export function live(
  ask,
  { every, onanswer, onproblem = () => {}, later = (call, wait) => setTimeout(call, wait), cancel = clearTimeout },
) {
  let [stopped, failures] = [false, 0];
  /** @type {any} */
  let timer = null;

  async function turn() {
    let more = true;
    try {
      const answer = await ask();
      if (stopped) return;
      failures = 0;
      more = onanswer(answer) !== false;
    } catch (error) {
      if (stopped) return;
      failures += 1;
      onproblem(/** @type {Error} */ (error), failures);
    }
    if (more && !stopped) timer = later(turn, pause(every, failures));
  }

  timer = later(turn, every);
  return () => {
    stopped = true;
    cancel(timer);
  };
}
