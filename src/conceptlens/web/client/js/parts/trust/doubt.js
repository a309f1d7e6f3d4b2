/** Answers with a promise: prediction sets, silence when unsure, images unlike the training images. From `trust/failures.json`. */
import { curves } from "../../charts/curves.js";
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { count, fixed, known, percent, short } from "../../words.js";
import { cell, good, line, more, p, reading, table, verdictLine, verdictTag } from "./words.js";
import { ofSets } from "./verdicts.js";

export function doubt(found, view) {
  return [
    verdictLine(ofSets(found)),
    h(
      "div",
      { class: "charts" },
      sets(found),
      silence(found.silence),
      answers(found, view),
      unlike(found.unlike, found.split),
    ),
  ];
}

function sets(found) {
  if (!found.sets.length) return null;
  return card(
    "Sets that hold the truth",
    {
      note: "Instead of one answer, all answers that might be true. How often the truth is among them, on images that calibrated nothing.",
    },
    rows(
      found.sets.map((each) => ({ name: each.question, marks: [each.coverage], range: each.between })),
      {
        label: "Coverage of prediction sets",
        bounds: [{ name: "promised", value: found.sets[0].wanted }],
        range: found.sets.some((each) => each.between) ? "what chance allows" : null,
        within: [0, 1],
      },
    ),
    good("on or to the right of the dashed line, up to chance (the gray bar), with few answers in a set."),
    more(
      "In numbers",
      table(
        "Prediction sets",
        ["Question", "Holds the truth", "Answers in a set", "A single answer", "None"],
        found.sets.map((each) =>
          line(
            [`${each.question} `, each.holds === false ? verdictTag("bad", "falls short") : null],
            cell(each.coverage),
            cell(each.size, short),
            cell(each.single),
            h("td", { class: "num" }, percent(each.empty)),
          ),
        ),
      ),
    ),
  );
}

function answers(found, { state, set }) {
  const chosen = found.sets.find((each) => each.question === state.sets) ?? found.sets[0];
  if (!chosen) return null;
  return card(
    "Sets, by true answer",
    {
      note: "The promise is one about all images together; a rare answer may be covered less.",
      tools: choice(
        "Question",
        found.sets.map((each) => each.question),
        chosen.question,
        (key) => set({ sets: key === found.sets[0].question ? "" : key }),
      ),
    },
    table(
      "Coverage by true answer",
      ["True answer", "Images", "Holds the truth", "Answers in a set"],
      chosen.answers
        .filter((each) => each.images)
        .map((each) =>
          line(
            each.answer,
            h("td", { class: "num" }, count(each.images)),
            h(
              "td",
              { class: `num ${known(each.coverage) && each.coverage < chosen.wanted - 0.1 ? "bad" : ""}` },
              percent(each.coverage),
            ),
            h("td", { class: "num" }, short(each.size)),
          ),
        ),
    ),
    good(`${percent(chosen.wanted, 0)} or more of every answer's images, with sets of about one answer.`),
  );
}

function silence(found) {
  if (!found) return null;
  const reached = found.silences.filter((each) => known(each.confidence));
  return card(
    "If it may stay silent",
    { note: "Error of the answers it gives, when only the surest share of the images is answered." },
    curves([{ name: "surest first", place: 0, points: found.points.map(([share, error]) => [share, error, null]) }], {
      label: "Error against share answered",
      x: "of the images answered",
      bounds: [{ name: "silent at random", value: found.error.value }],
      readX: (value) => percent(value, 0),
      marks: false,
      domain: [0, Math.max(0.02, found.error.value ?? 0, ...found.points.map((point) => point[1]))],
    }),
    good(
      `low on the left and far below the dashed line. Area under the curve ${reading(found.area, fixed)}; an oracle that is silent exactly where it errs would have ${fixed(found.oracle)}.`,
    ),
    reached.length
      ? more(
          "Confidence chosen on validation images",
          table(
            "Silence below a confidence",
            ["Error aimed at", "Confidence", "Answered", "Error"],
            reached.map((each) =>
              line(
                percent(each.target, 0),
                h("td", { class: "num" }, fixed(each.confidence)),
                cell(each.answered),
                cell(each.error),
              ),
            ),
          ),
        )
      : null,
  );
}

function unlike(found, split) {
  if (!found) return null;
  const told = Object.values(found.bounds).some(known);
  return card(
    "Unlike the training images",
    { note: `By the distance of an image's patches from ${found.compared_with}.` },
    told
      ? h(
          "p",
          {},
          `${reading(found.warned)} of the ${split} images are warned of; of images of the same kind as the training images, at most ${percent(found.expected)} would be.`,
        )
      : h(
          "p",
          {},
          `It cannot be told: ${count(found.validation_images)} validation images are too few for so few false alarms.`,
        ),
    found.images.length
      ? table(
          "Strangest images",
          ["Image", ["Most unusual in"], "p"],
          found.images
            .slice(0, 8)
            .map((each) =>
              line(
                h("span", { class: "break" }, each.image),
                h("td", {}, each.sign),
                h("td", { class: "num" }, p(each.p)),
              ),
            ),
        )
      : null,
    good(
      "about as many warnings as among training images. Many more: these images are of another kind, and numbers measured on the old kind do not hold.",
    ),
  );
}
