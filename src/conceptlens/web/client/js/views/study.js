/** View: a blinded study of a model's maps. Who has answered how much; the raters' page; the result, once it is closed. */
import { announce } from "../announce.js";
import { get, post } from "../api.js";
import { tableHead, h, put, scrolling } from "../dom.js";
import { saveJSON } from "../download.js";
import { card, command, copyButton, viewHead } from "../parts/frame.js";
import { result, resultDownloads } from "../parts/study/result.js";
import { file } from "../transport.js";
import { moment, plural } from "../words.js";

const LOOK = 5000; // ms between looks at how far raters are
const ABOUT =
  "People rate the maps without knowing which are the model's own and which were shuffled. If both get the same ratings, the maps show nothing.";
const RATERS = "Progress of each rater. Answers stay hidden until the study is closed.";

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{renewStrip: () => Promise<void>}} app */
export async function studyView(host, params, { renewStrip }) {
  const at = `studies/${encodeURIComponent(params.run)}`;
  let study = await get(at);
  let told = study.card.closed ? await get(`${at}/analysis`) : null;
  let timer = 0;
  let stopped = false;
  const raters = h("div", {});
  const body = h("div", { class: "stack" });
  const head = h("div", {});

  function draw() {
    const name = study.card.name;
    put(
      head,
      viewHead("Study", ABOUT, {
        downloads: [
          ["Raters and progress (JSON)", () => saveJSON(study, `${name}-raters`)],
          ...(told ? resultDownloads(told, body, name, file(`${at}/analysis.html`)) : []),
        ],
      }),
    );
    put(raters, ratersTable(study.raters));
    const people = card("Raters", { note: RATERS }, raters);
    put(body, told ? result(told) : [invitation(study), people, closing(study.analyze, () => study.raters, close)]);
  }

  function showResult() {
    draw();
    renewStrip().catch(() => {}); // it only says that there is a result
  }

  async function look() {
    try {
      const now = await get(at);
      if (stopped) return;
      const same = JSON.stringify(now.raters) === JSON.stringify(study.raters);
      study = now;
      if (study.card.closed) {
        told = await get(`${at}/analysis`);
        if (!stopped) showResult();
      } else if (!same) put(raters, ratersTable(study.raters)); // where nothing is new, nobody loses their place
    } catch (error) {
      announce(/** @type {any} */ (error).message); // the server may be back at the next look
    }
    if (!stopped && !told) timer = setTimeout(look, LOOK);
  }

  /** @param {any} unfinished */
  async function close(unfinished) {
    told = await post(`${at}/analysis`, { unfinished });
    study = await get(at);
    clearTimeout(timer);
    showResult();
    announce("The study is closed. The result is shown.");
    host.querySelector("h1")?.focus();
  }

  draw();
  put(host, head, body);
  if (!told) timer = setTimeout(look, LOOK);
  return {
    stop: () => {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** What raters need, and what they must not see. @param {any} study */
function invitation(study) {
  const address = new URL(study.page, document.baseURI).href;
  return card(
    "For raters",
    {
      note: `${plural(study.card.questions, "question")} about ${plural(study.card.images, "image")}, each rater in an order of their own. Answers are saved as they are given.`,
    },
    h(
      "p",
      { class: "row" },
      h("a", { class: "button main", href: study.page }, "Open the raters' page"),
      copyButton(address, "Copy the address of the raters' page", "Copy its address"),
    ),
    study.rater_token
      ? h(
          "p",
          { class: "row" },
          h("span", {}, "Token for raters: it opens this page only, and shows neither results nor other raters."),
          h("code", {}, study.rater_token),
          copyButton(study.rater_token, "Copy the token for raters"),
        )
      : null,
    study.models && !study.rater_token
      ? h(
          "div",
          { class: "notice stack tight" },
          h(
            "p",
            {},
            `This server also shows ${plural(study.models, "trained model")} and ${study.models === 1 ? "its" : "their"} true maps. If raters can reach them, serve the study alone:`,
          ),
          command(study.alone),
        )
      : null,
  );
}

/** @param {any[]} raters */
function ratersTable(raters) {
  if (!raters.length) return h("p", { class: "note" }, "Nobody has started yet.");
  return scrolling(
    "Table of raters",
    {},
    h(
      "table",
      { class: "raters" },
      tableHead(["Rater", "Answered", "Last saved", "Where"]),
      h(
        "tbody",
        {},
        raters.map((each) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, each.rater),
            h(
              "td",
              {},
              each.reason
                ? h("span", { class: "tag warn" }, each.reason)
                : h(
                    "span",
                    { class: "row" },
                    h("progress", { max: each.of, value: each.answered, "aria-label": `Answered by ${each.rater}` }),
                    `${each.answered} of ${each.of}`,
                    each.complete ? h("span", { class: "tag good" }, "complete") : null,
                  ),
            ),
            h("td", {}, each.saved ? moment(each.saved) : "–"),
            h("td", {}, each.here ? "on this page" : "a file that was sent"),
          ),
        ),
      ),
    ),
  );
}

/** The end of a study, after a question: there is no way back from it on the page. @param {string} line @param {() => any[]} raters @param {any} close */
function closing(line, raters, close) {
  const told = h("p", { role: "status", class: "note" });
  const button = h("button", { type: "button", onclick: ask }, "Close the study and analyze…");

  function ask() {
    const dialog = h("dialog", { "aria-labelledby": "close-title", onclose: () => dialog.remove() });
    const end = (/** @type {boolean} */ sure) => async () => {
      dialog.close();
      if (!sure) return;
      button.disabled = true;
      put(told, "Analyzing…");
      try {
        await close(true);
      } catch (error) {
        button.disabled = false;
        put(told, /** @type {any} */ (error).message, /** @type {any} */ (error).command ? [" ", command(/** @type {any} */ (error).command)] : null);
      }
    };
    put(
      dialog,
      h("h2", { id: "close-title" }, "Close the study?"),
      h("p", {}, "The result shows how shuffled maps were rated. Later ratings would not be blind, so no more answers are accepted."),
      h("p", {}, asked()),
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", class: "main", onclick: end(true) }, "Close and analyze"),
        h("button", { type: "button", onclick: end(false) }, "Not yet"),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
  }

  const asked = () => {
    const done = raters().filter((/** @type {any} */ each) => each.complete).length;
    return raters().length
      ? `${done} of ${plural(raters().length, "rater")} answered everything.`
      : "Nobody has started yet.";
  };
  return card(
    "Result",
    { note: "Mean rating against shuffled maps, share of right choices, agreement. Hidden until the study is closed." },
    h("p", { class: "row" }, button),
    told,
    h("p", { class: "note after" }, "Or from a terminal, which closes it too:"),
    command(line),
  );
}
