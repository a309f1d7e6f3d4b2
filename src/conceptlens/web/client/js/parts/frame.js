/** What every view begins with, and what stands where there is nothing to show. */
import { format } from "../address.js";
import { h } from "../dom.js";
import { downloadMenu } from "../download.js";
import { announce } from "../announce.js";

/** Title, one line for a newcomer, and what can be done with the whole view. @param {string} title @param {string} about */
export function viewHead(title, about, /** @type {{actions?: any, downloads?: any}} */ { actions = [], downloads = [] } = {}) {
  return h(
    "div",
    { class: "view-head" },
    h("div", {}, h("h1", { tabindex: "-1" }, title), h("p", { class: "about" }, about)),
    actions.length + downloads.length
      ? h("div", { class: "actions" }, actions, downloads.length ? downloadMenu(downloads) : null)
      : null,
  );
}

/** A titled box. @param {string} title @param {{note?: any, tools?: any, id?: string | null, level?: string}} options @param {...any} children */
export function card(title, { note = null, tools = null, id = null, level = "h2" } = {}, ...children) {
  return h(
    "section",
    { class: "card", id, "aria-label": title },
    h("header", {}, h(level, {}, title), tools),
    note ? h("p", { class: "note" }, note) : null,
    children,
  );
}

/** @type {{starts: string[], cards: Answers.RunCard[]}} what the server says of itself: commands that the page may start */
let known = { starts: [], cards: [] };

/** @param {typeof known} now */
export const offerJobs = (now) => {
  known = now;
};

/** The form that starts a command about a served folder, where the server allows it. @param {string} line */
function form(line) {
  const [, name, folder] = /^conceptlens (\S+) (\S+)$/.exec(line) ?? [];
  const card = known.starts.includes(name) && known.cards.find((each) => each.folder === folder);
  return card ? format("jobs", { command: name, run: card.key }) : null;
}

/** A command that can be copied, or started. @param {string} line */
export function command(line) {
  const place = form(line);
  return h(
    "span",
    { class: "command" },
    h("code", {}, line),
    copyButton(line, "Copy the command"),
    place ? h("a", { href: place }, "Start it here") : null,
  );
}

/** A button that copies text. @param {string | (() => string)} text @param {string} label */
export function copyButton(text, label, shown = "Copy") {
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      "aria-label": label,
      onclick: async () => {
        const ok = await copy(typeof text === "function" ? text() : text);
        button.textContent = ok ? "Copied" : "Not copied";
        announce(ok ? "Copied" : "The browser did not allow copying");
        setTimeout(() => {
          button.textContent = shown;
        }, 1500);
      },
    },
    shown,
  );
  return button;
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed here, as over plain http from another machine
  }
}

/** What stands where a run lacks something, and the command that makes it. @param {string} title @param {string} why @param {string | null} [line] */
export function missing(title, why, line = null) {
  return h(
    "section",
    { class: "card empty" },
    h("h2", {}, title),
    why ? h("p", {}, why) : null,
    line ? command(line) : null,
  );
}

/** What went wrong, in words: the server's own, or that a module or an answer did not come. @param {any} error */
export function said(error) {
  if (error?.code || !(error instanceof TypeError)) return error?.message ?? String(error);
  return /fetch|load|import|network/i.test(error.message)
    ? "A part of the page could not be loaded. Check that `conceptlens serve` is still running, then reload the page."
    : "The page has an error here. Reload it; if the error comes back, please report it.";
}

/** @param {any} error */
export function failure(error) {
  return h(
    "section",
    { class: "card empty", role: "alert" },
    h("h2", {}, "Something went wrong"),
    h("p", {}, said(error)),
    error?.command ? command(error.command) : null,
  );
}

export const loading = (text = "Loading…") => h("p", { class: "empty", role: "status" }, text);
