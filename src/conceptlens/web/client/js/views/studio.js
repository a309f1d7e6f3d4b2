/** The codebook studio: an image and its tokens, which of them make a concept, what happens when they change, bias. */
import { here, note } from "../address.js";
import { announce } from "../announce.js";
import { shared } from "../api.js";
import { shares } from "../charts/shares.js";
import { choice, h, put, rove, segment, opacitySlider } from "../dom.js";
import { saveCanvas, saveJSON, savePNG, saveSVG } from "../download.js";
import { biasPanel } from "../parts/bias.js";
import { card, command, failure, loading, missing, viewHead } from "../parts/frame.js";
import { editPanel } from "../parts/studio_edit.js";
import { maskPanel } from "../parts/studio_mask.js";
import { WRITTEN } from "../parts/studio_results.js";
import { membership, rankWords, tokenFacts } from "../parts/token_facts.js";
import { tokenGrid } from "../parts/token_grid.js";
import { tokenSets } from "../parts/token_sets.js";
import { parseRegion } from "../region.js";
import { shortcut } from "../shortcuts.js";
import { latest, source, studio } from "../studio.js";
import { percent, plural } from "../words.js";

const ABOUT =
  "A generator draws images from tokens, each the index of a code. See which tokens make a concept, hide or change them, and see whether the generator is biased when no value is asked for.";
const ABOUT_READ =
  "Each position of an image is encoded as a token, the index of a code. See which tokens make a concept, and what is predicted when some are hidden or changed.";
const OTHERS = {
  bias: "Bias, for a study whose concepts are values of one attribute: what is drawn when none is asked for",
  edit: "A saved edit, with independent judges where --judge names some",
  search: "Which tokens of the whole codebook could make a concept",
  masking: "Whether hiding the important tokens changes what independent judges predict",
  pairs: "Concepts edited into each other, judged by others",
};
const MODES = [
  ["look", "Look"],
  ["mask", "Hide tokens"],
  ["region", "Edit a region"],
];

/** @param {HTMLElement} host @param {Record<string, string>} params @param {{card: any}} app */
export async function studioView(host, params, { card: folder }) {
  const { run } = params;
  const read = (name) => (folder?.has.includes(name) ? studio.result(run, name).catch((error) => error) : null);
  const [about, tokens, bias] = await Promise.all([studio.about(run), read("tokens"), read("bias")]);
  const live = about.model.here && !shared;
  const [, columns] = about.grid;
  const member = membership(tokens?.sets);

  let current = null; // the reading that is shown
  let past = []; // readings before each edit
  let start = null; // as the address names it: a row, or `made:seed:condition`
  let heats = new Map();
  let concept = Math.max(0, about.concepts.indexOf(params.concept));
  let named = about.concepts.includes(params.concept);
  let mode = MODES.some(([key]) => key === params.mode) ? params.mode : "look";
  let pinned = null;
  let biased = null;
  const state = { ...params };

  const facts = h("div", { "aria-live": "off" });
  const caption = h("p", { class: "note caption", role: "status" });
  const said = h("div", {});
  const tool = h("div", {});
  const tried = h("div", {});

  const grid = tokenGrid({
    grid: about.grid,
    mode,
    name: (cell) => {
      const heat = heats.get(concept);
      const token = current?.tokens.flat()[cell];
      return `token ${token}${heat ? ` · ${rankWords(heat.levels, cell, about.concepts[concept])}` : ""}`;
    },
    onhover: (cell) => showFacts(cell ?? pinned),
    onpick: (cell) => {
      pinned = cell;
      note({ pin: cell ?? "" });
      showFacts(cell);
    },
    onchosen: (cells) => mask?.setCells(cells),
    onregion: (region) => edit?.setRegion(region),
  });

  const mask = live
    ? maskPanel({
        run,
        names: about.concepts,
        state,
        reading: () => current,
        concept: () => concept,
        top: (n) => {
          const heat = heats.get(concept);
          if (!heat) return [];
          const order = heat.levels.map((level, cell) => [Math.abs(level), cell]);
          return order
            .sort((a, b) => b[0] - a[0])
            .slice(0, n)
            .map(([, cell]) => cell);
        },
        onchosen: (cells) => {
          grid.setChosen(cells);
          mask.setCells(cells);
        },
        onchange: note,
      })
    : null;

  const edit = live
    ? editPanel({
        run,
        about,
        state,
        reading: () => current,
        onregion: (region) => {
          grid.setRegion(region);
          edit.setRegion(region);
        },
        onedited: (reading) => {
          past.push({ reading: current, heats });
          show(reading, { edited: true });
        },
        onundo: undo,
        onchange: note,
      })
    : null;

  function undo() {
    const before = past.pop();
    if (!before) return;
    heats = before.heats;
    current = before.reading;
    edit.clear();
    drawCurrent();
    announce("Undone");
  }

  // The image that is shown

  function show(reading, { edited = false } = {}) {
    if (!edited) {
      past = [];
      edit?.stop();
      edit?.clear();
    }
    current = reading;
    heats = new Map(reading.heat.map((each) => [each.concept, each]));
    if (!named && reading.concept !== null && reading.concept !== undefined && !edited) concept = reading.concept;
    drawCurrent();
  }

  function drawCurrent() {
    const address = current.picture ? source(current.picture) : null;
    picker.value = String(concept);
    grid.setReading(current, address);
    edit?.setUndo(past.length);
    const first = past[0]?.reading.tokens.flat();
    grid.setChanged(first ? current.tokens.flat().flatMap((each, cell) => (each === first[cell] ? [] : [cell])) : []);
    drawHeat();
    drawSaid();
    showFacts(pinned);
    mask?.refresh();
  }

  const askHeat = latest(
    (reading, of) => studio.importance(run, reading.tokens, of).then((heat) => ({ reading, heat })),
    ({ reading, heat }) => {
      if (reading !== current) return;
      heats.set(heat.concept, heat);
      if (heat.concept === concept) drawHeat();
    },
    (error) => {
      caption.textContent = error.message;
    },
  );

  function drawHeat() {
    const heat = heats.get(concept);
    const name = about.concepts[concept];
    grid.setHeat(heat?.levels ?? null);
    caption.textContent = heat
      ? `The brighter a token, the more the probability of ${name} depends on it.${current.picture ? "" : " The model has no decoder: each color stands for a code."}`
      : live
        ? `Importance for ${name} is being computed…`
        : `Importance for ${name} was not written for this image.`;
    if (!heat && live) askHeat(current, concept);
    showFacts(pinned);
  }

  function drawSaid() {
    put(
      said,
      shares(
        about.concepts.map((name, place) => ({
          name,
          probability: current.probabilities[place],
          was: past.length ? past[0].reading.probabilities[place] : undefined,
          said: place === concept,
        })),
      ),
    );
  }

  function showFacts(cell) {
    put(
      facts,
      cell === null || cell === undefined || !current
        ? h(
            "p",
            { class: "note" },
            "Point at a token, or move over the image with the arrow keys. Enter keeps it here.",
          )
        : tokenFacts({
            reading: current,
            cell,
            columns,
            heat: heats.get(concept),
            concept: about.concepts[concept],
            member,
            ontoken: linkToken,
          }),
    );
  }

  let unlink = 0;
  function linkToken(token) {
    clearTimeout(unlink);
    const cells = current.tokens.flat().flatMap((each, cell) => (each === token ? [cell] : []));
    grid.link(cells);
    if (!cells.length) announce(`Token ${token} is not in this image`);
    unlink = setTimeout(() => grid.link(null), 1600);
  }

  async function open(name) {
    start = name;
    note({ image: name });
    for (const each of strip.querySelectorAll(".thumb"))
      each.setAttribute("aria-pressed", String(each.dataset.row === name));
    try {
      const [kind, seed, ...words] = name.split(":");
      const reading =
        kind === "made"
          ? await studio.generate(run, words.join(":"), Number(seed) || 0)
          : await studio.image(run, kind);
      if (start === name) show(reading);
      put(tried);
    } catch (error) {
      if (start === name) put(tried, failure(error));
    }
  }

  // What can be chosen

  const strip = h("ul", { class: "strip", "aria-label": "Written images" });
  for (const each of about.images)
    strip.append(
      h(
        "li",
        {},
        h(
          "button",
          {
            type: "button",
            class: "thumb",
            "data-row": String(each.row),
            "aria-pressed": "false",
            tabindex: strip.children.length ? "-1" : "0",
            title: `${about.concepts[each.concept]} · ${percent(each.probability)} by the extractor`,
            "aria-label": `${about.concepts[each.concept]}, sample ${each.row}, ${percent(each.probability)}`,
            onclick: () => {
              named = false;
              open(String(each.row));
            },
          },
          each.picture ? h("img", { src: source(each.picture), alt: "", loading: "lazy" }) : `${each.row}`,
        ),
      ),
    );
  rove(strip, ".thumb");

  const conditions = about.source === "generated" ? [...about.concepts, "neutral"] : ["neutral"];
  let condition = conditions[0];
  const seedField = h("input", { type: "number", min: "0", max: "2147483647", value: "0" });
  const file = h("input", {
    type: "file",
    class: "hidden",
    id: "studio-file",
    accept: "image/*,.dcm,.tif,.tiff",
    tabindex: "-1",
    "aria-hidden": "true",
    onchange: async () => {
      if (!file.files[0]) return;
      try {
        start = "file";
        note({ image: "" });
        const chosen = file.files[0];
        const reading = await studio.encode(run, chosen);
        show({ ...reading, picture: reading.picture ?? URL.createObjectURL(chosen) }); // no decoder: the file itself
        put(tried);
      } catch (error) {
        put(tried, failure(error));
      }
      file.value = "";
    },
  });
  const makers = live
    ? h(
        "div",
        { class: "row makers" },
        about.source === "generated"
          ? [
              choice("Generate", conditions, condition, (key) => {
                condition = key;
              }),
              h("label", { class: "field seed" }, "Seed", seedField),
              h(
                "button",
                {
                  type: "button",
                  onclick: () => {
                    named = false;
                    open(`made:${Math.max(0, Number(seedField.value) || 0)}:${condition}`);
                  },
                },
                "Generate",
              ),
            ]
          : null,
        h("button", { type: "button", onclick: () => file.click() }, "Open an image file…"),
        file,
      )
    : null;

  const picker = h("select", {
    "aria-label": "Concept whose importance is shown",
    onchange: () => {
      concept = Number(picker.value);
      named = true;
      note({ concept: about.concepts[concept] });
      drawHeat();
      drawSaid();
      mask?.redraw();
    },
  });
  about.concepts.forEach((name, place) =>
    picker.append(h("option", { value: String(place), selected: place === concept }, name)),
  );
  const opacity = Number(params.opacity ?? 0.65);
  const slider = opacitySlider("Opacity of the importance", opacity, (value) => {
    grid.setOpacity(value);
    note({ opacity: value });
  });
  const lined = h("input", {
    type: "checkbox",
    checked: params.lines !== "0",
    onchange: () => {
      grid.setLines(lined.checked);
      note({ lines: lined.checked ? "" : "0" });
    },
  });
  const setMode = (key) => {
    mode = key;
    note({ mode: key === "look" ? "" : key });
    grid.setMode(key);
    drawTool();
    if (key === "mask" && current) mask.refresh();
  };
  const chooser = live ? segment("What the pointer does", MODES, mode, setMode) : null;

  function drawTool() {
    put(
      tool,
      mode === "mask"
        ? card("Hide tokens", { note: "What is left of the image, and of the concept, without them?" }, mask)
        : mode === "region"
          ? card(
              "Edit the region",
              {
                note: "The tokens of the region are optimized until the extractor predicts the target; the best result is kept. An extractor can be fooled: whether the picture shows the target, judge yourself, or ask independent judges (codebook edit --judge).",
              },
              edit,
            )
          : null,
    );
  }

  const absent = about.model.here
    ? null
    : h(
        "section",
        { class: "notice", role: "note", id: "no-model" },
        h("b", {}, "The model of this study is not here: "),
        `${about.model.why}. What its commands wrote is shown; new images, hiding tokens and edits need the model.`,
      );

  const stage = about.images.length || live;
  const top = h(
    "div",
    { class: "studio" },
    h(
      "div",
      { class: "stack" },
      card(
        "The image and its tokens",
        { tools: h("span", { class: "note" }, `${about.grid.join(" × ")} tokens of ${plural(about.codes, "code")}`) },
        chooser,
        grid,
        h(
          "div",
          { class: "row under" },
          picker,
          h("label", { class: "opacity" }, h("span", { class: "note" }, "Opacity"), slider),
          h("label", { class: "row lined" }, lined, "Grid"),
        ),
        caption,
      ),
    ),
    h(
      "div",
      { class: "stack" },
      tool,
      card("A token", {}, facts),
      card("Prediction of the extractor", { note: "Probability of each concept, by the study's own extractor." }, said),
    ),
  );

  put(
    host,
    viewHead("Codebook studio", about.source === "generated" ? ABOUT : ABOUT_READ, {
      downloads: [
        ["Image with its tokens (PNG)", () => current && saveCanvas(grid.compose(), `${run}-tokens`)],
        ["Path of the edit (SVG)", () => edit?.chart() && saveSVG(edit.chart(), `${run}-edit`)],
        biasOk(bias) ? ["Bias (SVG)", () => saveSVG(biased.svg(), `${run}-bias`)] : null,
        biasOk(bias) ? ["Bias (PNG)", () => savePNG(biased.svg(), `${run}-bias`)] : null,
        [
          "Everything shown (JSON)",
          () =>
            saveJSON(
              {
                study: about,
                image: current && { ...current, picture: undefined },
                edits: past.length,
                mask: mask?.data() ?? null,
                edit: edit?.data() ?? null,
                bias: biasOk(bias) ? bias : null,
              },
              `${run}-studio`,
            ),
        ],
      ].filter(Boolean),
    }),
    absent,
    h(
      "p",
      { class: "note study-line" },
      `${about.network} extractor of ${plural(about.concepts.length, "concept")}`,
      about.accuracy["top-1"] === undefined
        ? null
        : `, right for ${percent(about.accuracy["top-1"])} of held-out samples`,
      ` · ${about.source === "generated" ? "samples of" : `${about.source}, as tokens of`} ${about.model.name}`,
    ),
    stage
      ? card(
          "Images",
          {},
          about.images.length
            ? strip
            : h("p", { class: "note" }, "No images were written yet. ", command(about.missing.images)),
          makers,
          tried,
        )
      : missing(
          "No images were written yet",
          "This writes some, with the importance of their tokens:",
          about.missing.images,
        ),
    stage ? top : null,
    h("div", { class: "stack studio-more" }, more()),
  );

  function more() {
    const parts = [];
    if (tokens instanceof Error) parts.push(failure(tokens));
    else if (tokens)
      parts.push(
        card(
          "Token sets",
          { note: "The tokens that most often make a concept. Point at one to see where it is in the image above." },
          tokenSets({
            found: tokens,
            concept: params.set ?? about.concepts[concept],
            onconcept: (name) => note({ set: name }),
            onlink: (token) => {
              clearTimeout(unlink);
              if (!current) return;
              grid.link(
                token === null ? null : current.tokens.flat().flatMap((each, cell) => (each === token ? [cell] : [])),
              );
            },
          }),
        ),
      );
    else if (about.images.length)
      parts.push(missing("No token sets yet", "Which tokens make each concept:", about.missing.tokens));
    if (biasOk(bias)) {
      biased = biasPanel({
        bias,
        n: params.n,
        picture: about.pictures.bias ? source(about.pictures.bias) : null,
        onchange: note,
      });
      parts.push(
        card("Bias", { note: "Which value's tokens does the generator use when no value is asked for?" }, biased),
      );
    } else if (bias instanceof Error) parts.push(failure(bias));
    else if (about.concepts.every((name) => name.includes("=")))
      parts.push(
        missing(
          "No bias study yet",
          "Which value's tokens are used when no value is asked for?",
          about.missing.bias,
        ),
      );
    for (const [name, draw] of Object.entries(WRITTEN)) {
      if (!about.has.includes(name)) continue;
      const place = h("div", {}, loading());
      studio
        .result(run, name)
        .then((found) => put(place, draw(about, found)))
        .catch((error) => put(place, failure(error)));
      parts.push(place);
    }
    const lacks = Object.keys(OTHERS).filter((name) => about.missing[name]);
    if (lacks.length)
      parts.push(
        h(
          "details",
          { class: "card lacks" },
          h("summary", {}, "What else can be looked at"),
          h(
            "ul",
            {},
            lacks.map((name) => h("li", {}, OTHERS[name], command(about.missing[name]))),
          ),
        ),
      );
    return parts;
  }

  // As the address has it

  grid.setOpacity(opacity);
  grid.setLines(lined.checked);
  if (!live) mode = "look";
  grid.setMode(mode);
  drawTool();
  showFacts(null);
  const region = parseRegion(params.region, about.grid);
  const cells = (params.cells ?? "")
    .split(",")
    .filter((word) => /^\d+$/.test(word))
    .map(Number)
    .filter((cell) => cell < about.grid[0] * columns);
  const first =
    params.image ?? (about.images.length ? String(about.images[0].row) : live ? `made:0:${condition}` : null);
  if (first !== null && stage) await open(first);
  if (region && live) {
    grid.setRegion(region);
    edit.setRegion(region);
  }
  if (cells.length && live) {
    grid.setChosen(cells);
    mask.setCells(cells);
  }
  if (/^\d+$/.test(params.pin ?? "") && Number(params.pin) < about.grid[0] * columns) {
    pinned = Number(params.pin);
    grid.setPicked(pinned);
    showFacts(pinned);
  }

  const stepImage = (by) => {
    const at = about.images.findIndex((each) => String(each.row) === here().params.image);
    const next = about.images[at + by];
    if (next) {
      named = false;
      open(String(next.row));
    }
  };
  shortcut("j", "next image", () => stepImage(1));
  shortcut("k", "previous image", () => stepImage(-1));
  if (live) {
    shortcut("u", "undo the last edit", undo);
    shortcut("m", "look, hide tokens, edit a region", () => {
      const at = MODES.findIndex(([key]) => key === mode);
      const [next] = MODES[(at + 1) % MODES.length];
      chooser.set(next);
      setMode(next);
    });
  }
  return {
    stop: () => {
      clearTimeout(unlink);
      edit?.stop();
    },
  };
}

const biasOk = (bias) => Boolean(bias) && !(bias instanceof Error) && bias.tables?.length > 0;
