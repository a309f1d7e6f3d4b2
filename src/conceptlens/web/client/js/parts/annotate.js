/** What people call a node, a code or a token: the name and the group that it has, and a form to give it others. */
import { here } from "../address.js";
import { announce } from "../announce.js";
import { get, post, shared } from "../api.js";
import { h, put } from "../dom.js";
import { nameField } from "../rater.js";
import { moment } from "../words.js";

/** @type {Record<string, string>} */
const PLACES = { node: "nodes", code: "codes", token: "tokens" };

/** What an answer says of a thing, in a sentence; empty where nobody said anything. @param {any} said */
function saidWords(said) {
  if (!said?.name && !said?.group) return "";
  const name = [said.group, said.name].filter(Boolean).join(": ");
  return `Called “${name}” by ${said.author}, ${moment(said.time)}.`;
}

/** @param {{kind: "node" | "code" | "token", of: string, number?: number}} thing `number`: of a node, for proposals */
export function annotateForm({ kind, of, number }) {
  const { run, graph = "classes" } = here().params;
  if (shared || !run) return null; // a shared file shows the names that there were when it was made
  const at = `runs/${encodeURIComponent(run)}`;
  const [now, told, offers] = [h("p", { class: "note" }), h("p", { class: "note", role: "status" }), h("p", { class: "chips" })];
  const [author, name, group] = [nameField(), field("Name"), field("Group")];

  /** @param {any} answer */
  function show(answer) {
    const said = answer[PLACES[kind]][of];
    now.textContent = saidWords(said);
    name.value = said?.name ?? "";
    group.value = said?.group ?? "";
  }

  async function save() {
    if (!author.value.trim()) {
      put(told, "Enter your name first.");
      author.focus();
      return;
    }
    try {
      const body = { author: author.value.trim(), kind, of: [of], name: name.value, group: group.value };
      show(await post(`${at}/annotations`, body));
      put(told, "Saved in annotations.jsonl. ", h("button", { type: "button", class: "quiet", onclick: () => location.reload() }, "Reload to show it everywhere"));
      announce("Saved");
    } catch (error) {
      put(told, /** @type {Error} */ (error).message);
    }
  } // prettier-ignore

  async function propose() {
    put(offers, h("span", { class: "note", role: "status" }, "Searching…"));
    try {
      const answer = await get(`${at}/graphs/${encodeURIComponent(graph)}/nodes/${number}/proposals`);
      put(offers, answer.proposals.map((/** @type {any} */ each) => h("button", { type: "button", class: "chip", title: `similarity ${each.similarity}`, onclick: () => { name.value = each.text; } }, each.text)));
    } catch (error) {
      put(offers, h("span", { class: "note" }, /** @type {Error} */ (error).message));
    }
  } // prettier-ignore

  get(`${at}/annotations`).then(show, () => {}); // only a reminder: saving says what is wrong
  return h(
    "div",
    { class: "annotate" },
    now,
    h(
      "details",
      {},
      h("summary", {}, "Name it"),
      h("div", { class: "row" }, name, group, author, h("button", { type: "button", onclick: save }, "Save")),
      number === undefined ? null : h("button", { type: "button", class: "quiet", onclick: propose }, "Propose names from its pictures"),
      offers,
      told,
    ),
  ); // prettier-ignore
}

/** @param {string} label */
const field = (label) => h("input", { type: "text", maxlength: 200, placeholder: label.toLowerCase(), "aria-label": label });
