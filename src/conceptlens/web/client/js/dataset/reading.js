/** The pass of the model over all images of a split: what it adds, a button that starts it, how far it is. */
import { h, put } from "../dom.js";
import { live } from "../live.js";
import { duration, plural } from "../words.js";
import { dataset } from "./api.js";

/** @param {string} run @param {import("./table.js").Table} table @param {() => void} ondone */
export function reading(run, table, ondone) {
  const node = h("div", { class: "notice row reading" });
  let stop = () => {};
  const adds = table.arrays.guess
    ? "neighbors and a map by tokens, near-duplicates, out-of-distribution scores"
    : "predictions, maps and neighbors";

  function begin() {
    stop = live(() => dataset.pass(run, table.split), { every: 700, onanswer: show, onproblem: (error) => put(node, error.message, " Trying again…") }); // prettier-ignore
  }

  /** @param {any} state @returns {boolean} whether to ask again */
  function show(state) {
    if (state.state === "done") ondone();
    if (state.state === "failed") put(node, `The model could not read the images: ${state.reason}`);
    if (state.state === "running")
      put(
        node,
        h("progress", { max: String(state.total), value: state.done, "aria-label": "Images read" }),
        `${state.done} of ${plural(state.total, "image")} read${state.seconds_left ? `, ${duration(state.seconds_left)} left` : ""}`,
      );
    return state.state === "running";
  }

  put(
    node,
    h("span", {}, `Not computed yet: ${adds}.`),
    h("button", { type: "button", onclick: async () => {
      try {
        if (show(await dataset.startPass(run, table.split))) begin();
      } catch (error) {
        put(node, /** @type {Error} */ (error).message);
      }
    } }, `Read ${plural(table.size, "image")}`),
  ); // prettier-ignore
  return Object.assign(node, { stop: () => stop() });
}
