/** The measures of a run's trustworthiness, one section each, with what a good value is. */
import { note } from "../address.js";
import { api, shared } from "../api.js";
import { h, put, segment } from "../dom.js";
import { pictureEntries, saveJSON } from "../download.js";
import { failure, loading, missing, viewHead } from "../parts/frame.js";
import { examined } from "../parts/trust/examined.js";
import { others } from "../parts/trust/others.js";
import { SECTIONS } from "../parts/trust/sections.js";
import { summary } from "../parts/trust/summary.js";
import { ofOutcome } from "../parts/trust/verdicts.js";
import { shortcut } from "../shortcuts.js";

const NAMES = ["summary", ...SECTIONS.map((each) => each.name)];
const DOCUMENTS = [...new Set(["trust"].concat(SECTIONS.flatMap((each) => each.parts.map((/** @type {any} */ part) => part.document))))];
const STATE = { order: "", question: "", measure: "", by: "", sets: "", target: "" }; // what a section keeps in the address

/** @param {HTMLElement} host @param {Record<string, string>} params */
export async function trustView(host, params) {
  const { run } = params;
  let section = NAMES.includes(params.section) ? params.section : "summary";
  let state = { ...params };
  let found = await read(run);
  const [head, body] = [h("div", {}), h("div", { class: "trust" })];
  const chooser = segment(
    "Sections",
    [["summary", "Summary"], ...SECTIONS.map((each) => [each.name, each.title])],
    section,
    (key) => open(key),
  );
  put(host, head, h("div", { class: "sections" }, chooser), body);

  /** @param {string} key */
  function open(key) {
    section = key;
    state = { run, ...STATE };
    note({ ...STATE, section: key === "summary" ? "" : key });
    chooser.set(key);
    draw();
  }

  const view = {
    run,
    get state() {
      return state;
    },
    commands: found.commands,
    set(/** @type {any} */ changes) {
      state = { ...state, ...changes };
      note(changes);
      const focus = document.activeElement?.closest("label")?.firstChild?.textContent;
      draw();
      // A choice draws its section anew; the focus stays on it.
      [...body.querySelectorAll("label.field")]
        .find((each) => each.firstChild.textContent === focus)
        ?.lastChild.focus();
    },
  };

  function draw() {
    const chosen = SECTIONS.find((each) => each.name === section);
    put(
      body,
      chosen
        ? chosen.parts.map((/** @type {any} */ part) => drawn(chosen, part))
        : [examined(found.documents.trust, found.commands.trust), summary(parts(), open), others(found.others)],
    );
    const figures = [...body.querySelectorAll("svg[data-figure]")];
    const used = chosen ? chosen.parts.map((/** @type {any} */ part) => part.document) : DOCUMENTS;
    put(
      head,
      viewHead(chosen ? `Trust: ${chosen.title.toLowerCase()}` : "Trust", chosen?.asks ?? ABOUT, {
        actions: shared
          ? []
          : [h("button", { type: "button", onclick: again, title: "Read the run folder again" }, "Reload")],
        downloads: [
          ...figures.flatMap((svg) =>
            pictureEntries(svg.dataset.figure, () => svg, `${run}-${slug(svg.dataset.figure)}`),
          ),
          ["Verdicts (JSON)", () => saveJSON(parts(), `${run}-trust`)],
          ...used
            .filter((/** @type {string} */ name) => found.documents[name])
            .map((/** @type {string} */ name) => [`${name} (JSON)`, () => saveJSON(found.documents[name], `${run}-${name}`)]),
        ],
      }),
    );
  }

  /** One part of a section: what its document says, or how to make the document. @param {any} chosen @param {any} part */
  function drawn(chosen, part) {
    const why = impossible(chosen, found);
    const title = part.title ?? chosen.title;
    const document = found.documents[part.document];
    if (document) {
      try {
        return h("div", { class: "stack" }, part.draw(document, view));
      } catch (error) {
        return failure(shapeless(error, found, part.document));
      }
    }
    if (found.errors[part.document]) return failure(found.errors[part.document]);
    if (why) return missing(`${title}: not available`, why);
    const text = [part.asks ?? chosen.asks, part.needs].filter(Boolean).join(" ");
    return missing(`${title}: not measured yet`, `${text} This command measures it:`, found.commands[part.document]);
  }

  /** Every part of every section at a glance. */
  function parts() {
    return SECTIONS.flatMap((chosen) =>
      chosen.parts.map((/** @type {any} */ part) => {
        const document = found.documents[part.document];
        const broken = found.errors[part.document];
        return {
          name: chosen.name,
          title: part.title ?? chosen.title,
          asks: part.asks ?? chosen.asks,
          verdict: broken
            ? { verdict: "look", says: broken.message }
            : document
              ? said(part, document)
              : examinedSide(part.side ?? chosen.name),
          why: document ? null : impossible(chosen, found),
          needs: part.needs,
          told: (part.side ?? chosen.name) in (found.documents.trust?.verdicts ?? {}) && !broken,
          command: found.commands[part.document] ?? null,
        };
      }),
    );
  }

  /** What `conceptlens trust` found on this side, where its own document was not written. @param {any} side */
  function examinedSide(side) {
    const verdict = found.documents.trust?.verdicts?.[side];
    return verdict ? ofOutcome(verdict, side) : null;
  }

  /** The verdict of a document; one of an unknown shape has none. @param {any} part @param {any} document */
  function said(part, document) {
    try {
      return part.verdict(document);
    } catch (error) {
      return { verdict: "look", says: shapeless(error, found, part.document).message };
    }
  }

  async function again() {
    put(body, loading("Reading the run folder…"));
    found = await read(run);
    view.commands = found.commands;
    draw();
  }

  const step = (/** @type {number} */ by) => open(NAMES[(NAMES.indexOf(section) + by + NAMES.length) % NAMES.length]);
  shortcut("j", "next section", () => step(1));
  shortcut("k", "previous section", () => step(-1));
  draw();
  return {};
}

const ABOUT =
  "Accuracy alone does not make a model trustworthy. These sections measure whether corrections work, whether the concepts decide the class, which subgroups do worse, and whether maps are right. Each section says what a good value is.";

/** The documents that the run has, and the commands that make the others. @param {string} run */
async function read(run) {
  const whole = await api.runNow(run);
  /** @type {{documents: Record<string, any>, errors: Record<string, any>, commands: Record<string, string>, concepts: boolean, others: Record<string, any>}} */
  const found = { documents: {}, errors: {}, commands: {}, concepts: readsConcepts(whole), others: {} };
  await Promise.all(
    DOCUMENTS.filter((name) => whole.card.has.includes(name)).map((name) =>
      api.document(run, name).then(
        (document) => (found.documents[name] = document),
        (error) => (found.errors[name] = error),
      ),
    ),
  );
  const more = Object.entries(whole.results).filter(([name]) => !DOCUMENTS.includes(name) && name !== "metrics");
  for (const [name, about] of more) {
    found.others[name] = await api.document(run, name).then(
      (document) => ({ about, document }),
      (error) => ({ about, error }),
    );
  }
  found.commands = { ...remade(whole.card.folder), ...whole.missing };
  return found;
}

/** How to measure again what is there already, but cannot be read. @param {string} folder */
function remade(folder) {
  /** @type {Record<string, string>} */
  const words = {
    interventions: "intervene",
    localization: "localize",
    failures: "audit",
    faithfulness: "localize --faithfulness 64",
  };
  const quoted = /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", `'"'"'`)}'`;
  return Object.fromEntries(DOCUMENTS.map((name) => [name, `conceptlens ${words[name] ?? name} ${quoted}`]));
}

/** A method without concepts has no numbers about them. */
function readsConcepts(/** @type {{metrics: any}} */ { metrics }) {
  const splits = Object.values(metrics ?? {});
  return !splits.length || splits.some((each) => each?.concept);
}

/** @param {any} section */
function impossible(section, /** @type {{concepts: boolean}} */ { concepts }) {
  return section.concepts && !concepts ? "This method reads no concepts, so there is nothing to measure." : null;
}

/** What is said of a document that another version wrote. @param {any} error @param {string} name */
function shapeless(error, /** @type {{commands: any}} */ { commands }, name) {
  console.debug(error);
  const text = new Error(
    `The file of ${name} cannot be shown. Another version may have written it; measure it again.`,
  );
  return Object.assign(text, { command: commands[name] ?? null });
}

/** @param {string} text */
const slug = (text) =>
  text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "");
