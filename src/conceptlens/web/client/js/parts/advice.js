/** What to ask a person next, and the smallest change that makes the model say something else. */
import { announce } from "../announce.js";
import { api } from "../api.js";
import { h, put } from "../dom.js";
import { nats, plain } from "../plain.js";
import { plural } from "../words.js";

/** @param {{run: string, state: any, edits: import("../edits.js").Edits}} options */
export function advice({ run, state, edits }) {
  const told = h("div", { class: "advice", "aria-live": "polite" });
  /** @type {any} */
  let open = null;

  /** @param {any} work */
  async function guarded(work) {
    put(told, h("p", { class: "note" }, "Searching…"));
    try {
      await work();
    } catch (error) {
      put(told, h("p", { class: "note" }, /** @type {any} */ (error).message));
    }
  }

  const ask = () =>
    guarded(async () => {
      open = "ask";
      const answer = await api.ask(run, { state, edits: edits.list, most: 3 });
      const [first, ...others] = answer.ask;
      if (!first) {
        put(told, h("p", { class: "note" }, "Every concept has been answered."));
        return;
      }
      put(
        told,
        h("h3", {}, `Check: ${first.unit}`),
        h(
          "p",
          { class: "note" },
          `An answer is expected to reduce ${plain() ? "the doubt about the class" : "the entropy of the class"} (${nats(answer.entropy)}) by ${nats(first.expected_gain)}.${others.length ? ` Then: ${others.map((each) => each.unit).join(", ")}.` : ""}`,
        ),
        h(
          "div",
          { class: "row" },
          first.answers.slice(0, 24).map((each) =>
            h(
              "button",
              {
                type: "button",
                onclick: () => {
                  edits.add(each.edit);
                  ask();
                },
              },
              each.words,
            ),
          ),
        ),
      );
    });

  const flip = () =>
    guarded(async () => {
      open = "flip";
      const answer = await api.flip(run, { state, edits: edits.list });
      if (!answer.edits) {
        put(told, h("p", { class: "note" }, `The class stays ${answer.before}, whichever answers are changed.`));
        return;
      }
      const words = answer.edits.join("; ");
      put(
        told,
        h(
          "h3",
          {},
          `${plural(answer.edits.length, "answer")} make${answer.edits.length === 1 ? "s" : ""} it ${answer.after}`,
        ),
        h(
          "p",
          { class: "note" },
          `${words}.${answer.kind === "exact" ? " No smaller set does." : " There may be a smaller set."}`,
        ),
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              edits.add(...(answer.edits ?? []));
              put(told);
              open = null;
              announce(`Set ${words}`);
            },
          },
          "Make this change",
        ),
      );
    });

  return {
    node: told,
    ask,
    flip,
    close: () => {
      if (open) put(told);
      open = null;
    },
  };
}
