/** Corrections: edits that a label can express, saved with a name, for the next training. */
import { announce } from "../announce.js";
import { api, shared } from "../api.js";
import { target } from "../head.js";
import { h, put } from "../dom.js";
import { command } from "./frame.js";
import { nameField } from "../rater.js";
import { plural } from "../words.js";

/** Whether a label can say it: a value of a group, or yes or no. @param {Answers.GroupPart[]} groups @param {string} edit */
export function isLabel(groups, edit) {
  const found = /** @type {any} */ (target(groups, edit));
  return (
    Boolean(found) &&
    (found.whole ? found.group.values.includes(found.word) : found.word === "yes" || found.word === "no")
  );
}

/** Whether an edit says what the model says already, and no label contradicts it: saving it would change nothing. @param {Answers.GroupPart[]} groups @param {any[]} concepts @param {string} edit */
export function confirms(groups, concepts, edit) {
  const found = /** @type {any} */ (target(groups, edit));
  if (!found) return false;
  const own = found.columns.map((/** @type {number} */ k) => concepts[k]);
  if (found.whole) {
    const top = own.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.probability > a.probability ? b : a));
    const label = own.find((/** @type {any} */ each) => each.label === true);
    return top.value === found.word && (!label || label.value === found.word);
  }
  const [{ probability, label }] = own;
  const yes = found.word === "yes";
  return probability >= 0.5 === yes && (label === null || label === undefined || label === yes);
}

/** @param {{run: string, image: string, groups: any[], edits: import("../edits.js").Edits, recipe: string, concepts: any[]}} options */
export function corrections({ run, image, groups, edits, recipe, concepts }) {
  const saved = () => edits.list.filter((each) => isLabel(groups, each) && !confirms(groups, concepts, each));
  const rater = nameField();
  const button = h("button", { type: "button", onclick: save }, "Save as corrections");
  const told = h("div", { role: "status", class: "note" });
  const [split, row] = image.split("/");

  async function save() {
    const labels = saved();
    if (!rater.value.trim()) {
      put(told, "Enter your name first.");
      rater.focus();
      return;
    }
    button.disabled = true;
    try {
      const answer = await api.correct(run, {
        rater: rater.value.trim(),
        image: { split, row: Number(row) },
        edits: labels,
      });
      if (!answer.added) {
        put(told, `${answer.note.charAt(0).toUpperCase()}${answer.note.slice(1)}. No correction was saved.`);
        announce("nothing changed");
        return;
      }
      put(
        told,
        answer.note ? h("p", {}, `Not saved: ${answer.note}.`) : null,
        h(
          "p",
          {},
          `${plural(answer.added, "correction")} ${shared ? "noted" : "saved"}, ${answer.total} in all: `,
          h("a", { href: api.correctionsFile(run), download: "corrections.csv" }, "corrections.csv"),
          shared ? ". They are lost when this page is closed, so save the table and send it back. " : ". ",
          "Train with them:",
        ),
        command(`conceptlens train ${recipe} --data.corrections ${answer.file}`),
      );
      announce(`${plural(answer.added, "correction")} saved`);
    } catch (error) {
      put(told, /** @type {any} */ (error).message);
    } finally {
      update();
    }
  }

  function update() {
    const labels = saved().length;
    const idle = edits.list.length > 0 && labels === 0;
    button.disabled = image === "upload" || labels === 0;
    button.textContent = labels ? `Save ${plural(labels, "correction")}` : "Save as corrections";
    button.title = idle ? "There is nothing to correct: the model already gives these answers, or they cannot be written as labels." : "";
  }

  const node = h(
    "div",
    { class: "stack tight" },
    image === "upload"
      ? h(
          "p",
          { class: "note" },
          "This file is not part of the run's data, so corrections of it cannot be used in training.",
        )
      : null,
    h("div", { class: "row" }, rater, button),
    told,
  );
  update();
  api.corrections(run).then(
    (answer) => {
      if (answer.total && !told.firstChild)
        put(
          told,
          `${plural(answer.total, "correction")} of this run saved so far: `,
          h("a", { href: api.correctionsFile(run), download: "corrections.csv" }, "corrections.csv"),
        );
    },
    () => {},
  ); // only a reminder: saving says what is wrong
  return Object.assign(node, { update });
}
