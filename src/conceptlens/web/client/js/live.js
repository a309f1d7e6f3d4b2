/**
 * Ask again and again while something changes. A request that fails does not end it: it is tried again, later each time.
 * While nobody looks at the page nothing is asked; once somebody does, it is asked at once.
 */

const LONGEST = 30_000;

/**
 * How long to wait after so many failures in a row. @param {number} every @param {number} failures
 */
export const pause = (every, failures) => Math.min(every * 2 ** failures, LONGEST);

/**
 * @param {() => Promise<any>} ask
 * @param {{every: number | (() => number), onanswer: (answer: any) => boolean | void,
 *   onproblem?: (error: Error, failures: number) => void, later?: (call: () => void, wait: number) => any,
 *   cancel?: (timer: any) => void, page?: any}} options `every`: milliseconds between two questions; `onanswer` returns
 *   false where there is nothing left to wait for
 * @returns {() => void} stops it
 */
export function live(
  ask,
  {
    every,
    onanswer,
    onproblem = () => {},
    later = (call, wait) => setTimeout(call, wait),
    cancel = clearTimeout,
    page = globalThis.document,
  },
) {
  let [stopped, failures] = [false, 0];
  /** @type {any} */
  let timer = null;
  const wait = () => pause(typeof every === "number" ? every : every(), failures);

  async function turn() {
    if (stopped) return;
    if (page?.hidden) {
      page.addEventListener("visibilitychange", turn, { once: true });
      return;
    }
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
    if (more && !stopped) timer = later(turn, wait());
  }

  timer = later(turn, wait());
  return () => {
    stopped = true;
    cancel(timer);
  };
}
