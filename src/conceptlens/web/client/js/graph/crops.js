/** Pictures of nodes, loaded a few at a time when they come into view, and forgotten when there are many. */

const AT_ONCE = 6;
const KEPT = 600;

/**
 * @param {(number: number) => string} address of a node's sheet
 * @param {(number: number) => void} came is told which picture came
 */
export function crops(address, came) {
  /** @type {Map<number, HTMLImageElement | null>} null: on its way, or there is none */
  const kept = new Map();
  /** @type {any[]} */
  let waiting = [];
  let running = 0;

  function next() {
    while (running < AT_ONCE && waiting.length) {
      const number = waiting.shift();
      const picture = new Image();
      running += 1;
      const done = (/** @type {boolean} */ good) => {
        running -= 1;
        if (good) {
          kept.set(number, picture);
          came(number);
        }
        next();
      };
      picture.onload = () => done(true);
      picture.onerror = () => done(false);
      picture.src = address(number);
    }
  }

  return {
    /** The picture of a node if it is there. */
    get: (/** @type {number} */ number) => kept.get(number) ?? null,
    /** Those that are in view now; what was waiting before is out of view. */
    want(/** @type {number[]} */ numbers) {
      for (const number of waiting) kept.delete(number);
      waiting = numbers.filter((/** @type {number} */ number) => !kept.has(number));
      for (const number of waiting) kept.set(number, null);
      const wanted = new Set(numbers);
      for (const [number, picture] of kept) {
        if (kept.size <= KEPT) break;
        if (picture && !wanted.has(number)) kept.delete(number);
      }
      next();
    },
    stop() {
      waiting = [];
    },
  };
}
