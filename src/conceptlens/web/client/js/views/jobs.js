/** Trainings and measures: a form for each command, the command to copy, and the queue of what was started here. */
import { format, note } from "../address.js";
import { announce } from "../announce.js";
import { get, post } from "../api.js";
import { choice, h, put, whenQuiet } from "../dom.js";
import { fields, linesOf } from "../jobs/form.js";
import { queue } from "../jobs/queue.js";
import { live } from "../live.js";
import { card, command, viewHead } from "../parts/frame.js";

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{cards: any[]}} app */
export async function jobsView(host, params, { cards }) {
  const told = await get("jobs");
  const models = cards.filter((each) => each.kind === "bottleneck" && each.status !== "broken");
  /** @type {string[]} */
  const commands = told.forms.map((/** @type {any} */ form) => form.command);
  const state = {
    command: commands.includes(params.command) ? params.command : (commands[0] ?? ""),
    run: models.some((each) => each.key === params.run) ? params.run : (models[0]?.key ?? ""),
    recipe: told.recipes[0] ?? "",
    device: told.devices[0],
  };
  const [box, line, problem] = [h("div", {}), h("div", { role: "status" }), h("p", { class: "notice", role: "alert", hidden: true })];
  const jobs = queue(complain, cards);
  /** @type {ReturnType<typeof fields>} */
  let shown = fields([], () => {});
  const name = h("input", { type: "text", id: "job-new-name", maxlength: 80, oninput: () => drawLine() });
  let set = shown; // of a recipe
  /** @type {any} */
  let built = null; // the form whose fields they are: another run or recipe leaves what was entered
  const settings = h("textarea", { id: "job-settings", rows: 2, placeholder: "regularizer.weight = 0.5", oninput: () => drawLine() }); // prettier-ignore

  /** @param {string} words */
  function complain(words) {
    problem.textContent = words;
    problem.hidden = !words;
  }

  const training = () => state.command === "train";
  const body = () => ({
    command: state.command,
    run: state.run || null,
    recipe: state.run ? null : state.recipe,
    name: training() ? name.value.trim() : null,
    device: state.device,
    values: shown.values(),
    settings: training() ? [...linesOf(set.values()), ...settings.value.split("\n").filter((/** @type {string} */ each) => each.trim())] : [],
  });

  const drawLine = whenQuiet(async () => {
    if (training() && !name.value.trim()) {
      put(line, h("p", { class: "note" }, "Enter a name for the new run to see the command."));
      return;
    }
    try {
      put(line, command((await post("jobs/line", body())).line));
    } catch (error) {
      put(line, h("p", { class: "note" }, /** @type {Error} */ (error).message));
    }
  }, 250);

  async function start() {
    complain("");
    try {
      const { job } = await post("jobs", body());
      jobs.show([job]);
      announce(`${job.command} is in the queue`);
    } catch (error) {
      complain(/** @type {Error} */ (error).message);
    }
  }

  /** @param {string} words @param {...any} rows */
  const folded = (words, ...rows) => h("details", {}, h("summary", {}, words), h("div", { class: "job-options" }, rows));

  /** @param {string} to */
  function choose(to) {
    state.command = to;
    note({ command: to });
    drawForm();
  }

  function drawForm() {
    const form = told.forms.find((/** @type {any} */ each) => each.command === state.command);
    if (!form) return;
    if (built !== form) {
      shown = fields(form.options, drawLine);
      set = fields(form.settings, drawLine, "as in the recipe");
      built = form;
    }
    const runs = [...(training() ? [["", "a ready recipe"]] : []), ...models.map((each) => [each.key, training() ? `the recipe of ${each.name}` : each.name])];
    put(
      box,
      h("p", { class: "note" }, form.about),
      h(
        "div",
        { class: "row" },
        choice(training() ? "Recipe" : "Run", runs, state.run, (run) => { state.run = run; note({ run }); if (training()) drawForm(); else drawLine(); }),
        training() && !state.run ? choice("Ready recipe", told.recipes, state.recipe, (recipe) => { state.recipe = recipe; drawLine(); }) : null,
        choice("Device", told.devices, state.device, (device) => { state.device = device; drawLine(); }),
      ),
      training()
        ? [
            h("div", { class: "job-option" }, h("label", { for: "job-new-name" }, "Name of the new run"), name),
            folded("Settings of the recipe", set.rows, h("div", { class: "job-option" }, h("label", { for: "job-settings" }, "others, one per line"), settings)),
          ]
        : null,
      form.options.length ? folded(`Options of ${state.command}`, shown.rows) : null,
      line,
      told.allowed
        ? h("button", { type: "button", class: "main", onclick: start }, "Add to the queue")
        : h("p", { class: "note" }, "This server does not start jobs. Copy the command, or start the server with ", h("code", {}, told.how), "."),
    );
    drawLine();
  } // prettier-ignore

  put(
    host,
    viewHead("Jobs", "Train a model, or measure one. Each device runs one job at a time. A job continues when the page or the server is closed."), // prettier-ignore
    problem,
    told.forms.length
      ? card("New job", {}, choice("Command", commands, state.command, choose), box)
      : null,
    h("h2", { class: "jobs-head" }, "Queue"),
    told.jobs.length ? null : h("p", { class: "card note jobs-none" }, "No job was started from this page yet. ", h("a", { href: format("runs") }, "All runs")),
    jobs,
  ); // prettier-ignore
  drawForm();
  jobs.show(told.jobs);
  const stop = live(() => get("jobs"), {
    every: told.allowed ? 1500 : 10_000,
    onanswer: (answer) => {
      complain("");
      host.querySelector(".jobs-none")?.toggleAttribute("hidden", answer.jobs.length > 0);
      jobs.show(answer.jobs);
    },
    onproblem: (error) => complain(`${error.message} Trying again…`),
  });
  return { stop };
}
