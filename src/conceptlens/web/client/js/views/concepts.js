/** View 5: what each concept and each code of the codebook stands for: patches, classes, use, flags, and a map. */
import { note } from "../address.js";
import { api } from "../api.js";
import { h, put, segment } from "../dom.js";
import { saveCanvas, saveJSON } from "../download.js";
import { browse } from "../parts/browse.js";
import { loading, missing, viewHead } from "../parts/frame.js";
import { shortcut } from "../shortcuts.js";

/** @type {Record<string, string>} */
const ABOUT = {
  concepts:
    "All concepts: how well each is predicted, which classes it speaks for, and the patches where its map is largest.",
  codebook:
    "Codes are vectors that training placed among the patches: where their patches occur, how often, and the concept that each is named after.",
};
/** @param {HTMLElement} host @param {Record<string, string>} params @param {any} app */
export async function conceptsView(host, params, { card }) {
  const { run } = params;
  let what = params.what === "codebook" ? "codebook" : "concepts";
  let stop = () => {};
  const body = h("div", {});
  const about = h("div", {});
  const chooser = segment(
    "Show",
    [
      ["concepts", "Concepts"],
      ["codebook", "Codebook"],
    ],
    what,
    (key) => {
      what = key;
      note({ what: key === "concepts" ? "" : key, code: "", concept: "", sort: "", find: "" });
      draw({});
    },
  );
  /** @type {any} */
  let current = null;
  let drawn = 0; // counts choices, so that a slow answer is not shown in the place of another
  put(host, about, body);

  /** @param {any} state */
  async function draw(state) {
    stop();
    current = null;
    put(
      about,
      viewHead(what === "concepts" ? "Concepts" : "Codebook", ABOUT[what], {
        actions: [chooser],
        downloads: [
          ["Map (PNG)", () => current && saveCanvas(current.map.compose(), `${run}-${what}-map`)],
          [
            `${what === "concepts" ? "Concepts" : "Codes"} (JSON)`,
            () => current && saveJSON(current.answer, `${run}-${what}`),
          ],
        ],
      }),
    );
    put(body, loading());
    const [now, all] = what === "concepts" ? [api.conceptsNow, api.concepts] : [api.codebookNow, api.codebook];
    const mine = (drawn += 1);
    try {
      const answer = await now(run);
      if (mine !== drawn) return;
      if (what === "concepts" && !(/** @type {Answers.Concepts} */ (answer).concepts.length)) {
        put(body, missing("No concepts", answer.why ?? "This run has no concepts."));
        return;
      }
      current = browse({ body, run, what, answer, state, maps: card?.verdicts?.maps });
      stop = current.stop;
      if (answer.complete) return;
      const later = await all(run);
      if (mine === drawn) current.update(later);
    } catch (error) {
      if (mine !== drawn) return;
      if (current && /** @type {any} */ (error).code !== "missing") return current.say(/** @type {any} */ (error).message); // what is seen stays
      put(body, missing(what === "codebook" ? "No codebook" : "Nothing to show", /** @type {any} */ (error).message, /** @type {any} */ (error).command));
    }
  }
  draw(params);
  shortcut("/", "filter the list", () => /** @type {HTMLElement | null} */ (host.querySelector("input[type=search]"))?.focus());
  return {
    stop: () => {
      drawn += 1;
      stop();
    },
  };
}
