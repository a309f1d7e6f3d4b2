/** The queue: each job with its state, how far it is, its log, and a button that ends it. */
import { format } from "../address.js";
import { h, put } from "../dom.js";
import { command } from "../parts/frame.js";
import { duration, moment } from "../words.js";
import { get, post } from "../api.js";
import { progressWords } from "./progress.js";

/** @type {Record<string, [string, string]>} */
const STATES = {
  queued: ["waiting", ""],
  running: ["running", "live"],
  done: ["done", "good"],
  failed: ["failed", "bad"],
  cancelled: ["cancelled", ""],
  interrupted: ["interrupted: the machine or its process stopped", "bad"],
};

/** Where what a job makes is seen: the curves of a training that began, what was measured of a run; null if nowhere yet. @param {any} job @param {any[]} cards */
export function placeOf({ command: name, run, started }, cards) {
  if (name === "train") return run && started ? format("training", { run }) : null;
  const card = cards.find((each) => each.folder === run);
  return card ? format("trust", { run: card.key }) : null;
}

/** @param {(words: string) => void} onproblem @param {any[]} cards of the served folders */
export function queue(onproblem, cards) {
  const list = h("ol", { class: "jobs" });
  /** @type {Map<string, {node: any, draw: (job: any) => void}>} */
  const rows = new Map();

  /** @param {any} job */
  function row(job) {
    const [head, log] = [h("div", {}), h("pre", { class: "log", tabindex: "0", "aria-label": `Log of job ${job.id}` })];
    let after = 0;
    let latest = job;
    async function readLog() {
      if (!details.open) return;
      try {
        const answer = await get(`jobs/${latest.id}/log?after=${after}`);
        if (answer.text) log.append(answer.text.replaceAll("\r", "\n"));
        after = answer.after;
      } catch (error) {
        onproblem(/** @type {Error} */ (error).message);
      }
    }
    const details = h("details", { ontoggle: readLog }, h("summary", {}, "Log"), log);
    const node = h("li", { class: "card job", "aria-label": `Job ${job.id}` }, head, details);
    /** @param {any} next */
    function draw(next) {
      latest = next;
      const [word, look] = STATES[next.state] ?? [next.state, ""];
      const open = next.state === "queued" || next.state === "running";
      const place = placeOf(next, cards);
      const took = next.started && next.ended ? ` · ${duration((Date.parse(next.ended) - Date.parse(next.started)) / 1000)}` : "";
      put(
        head,
        h("div", { class: "row" }, h("strong", {}, next.command), place ? h("a", { href: place }, next.run) : (next.run ?? ""), h("span", { class: `tag ${look}` }, word), h("span", { class: "note" }, `${next.device} · ${moment(next.created)}${took}`), open ? h("button", { type: "button", class: "quiet", onclick: () => end(next.id) }, "Cancel") : null),
        next.state === "running" && next.total ? h("progress", { max: String(next.total), value: next.done, "aria-label": `Job ${next.id}` }) : null,
        h("p", { class: "note", role: "status" }, progressWords(next)),
        command(next.line),
      ); // prettier-ignore
      readLog();
    }
    draw(job);
    return { node, draw };
  }

  /** @param {string} id */
  async function end(id) {
    try {
      rows.get(id)?.draw((await post(`jobs/${id}/cancel`, {})).job);
    } catch (error) {
      onproblem(/** @type {Error} */ (error).message);
    }
  }

  /** @param {any[]} jobs newest first */
  function show(jobs) {
    for (const job of [...jobs].reverse()) {
      const known = rows.get(job.id);
      if (known) known.draw(job);
      else {
        const made = row(job);
        rows.set(job.id, made);
        list.prepend(made.node);
      }
    }
  }
  return Object.assign(list, { show });
}
