/** Look again and again while the page is seen. A look that fails, as when the server restarts, does not end it. */

/** @param {() => Promise<void>} look @param {() => number} wait ms until the next @returns {{stop: () => void}} */
export function poll(look, wait) {
  let timer = 0;
  let stopped = false;
  async function turn() {
    if (!document.hidden) await look().catch(() => {}); // the next one may reach it
    if (!stopped) timer = setTimeout(turn, wait());
  }
  timer = setTimeout(turn, wait());
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
