/** Prediction sets, selective prediction and images out of distribution. From `trust/failures.json`. */
import { curves } from "../../charts/curves.js";
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { imageName } from "../image_name.js";
import { count, fixed, known, percent, short } from "../../words.js";
import { cell, good, line, more, p, reading, table, verdictLine, verdictTag } from "./words.js";
import { ofSets } from "./verdicts.js";

/** @param {any} found @param {any} view */
export function uncertainty(found, view) {
  return [
    verdictLine(ofSets(found)),
    h(
      "div",
      { class: "charts" },
      sets(found),
      selective(found.selective),
      answers(found, view),
      outOfDistribution(found.ood, found.split, view.run),
    ),
  ];
}

/** @param {any} found */
function sets(found) {
  if (!found.sets.length) return null;
  return card(
    "Coverage of prediction sets",
    {
      note: "A prediction set holds all answers that may be true. Coverage is how often the true answer is in it, on images that were not used for calibration.",
    },
    rows(
      found.sets.map((/** @type {any} */ each) => ({ name: each.question, marks: [each.coverage], range: each.between })),
      {
        label: "Coverage of prediction sets",
        bounds: [{ name: "nominal coverage", value: found.sets[0].wanted }],
        range: found.sets.some((/** @type {any} */ each) => each.between) ? "expected range" : null,
        within: [0, 1],
      },
    ),
    good("coverage is on or to the right of the dashed line, or within the gray bar, with few answers in a set."),
    more(
      "In numbers",
      table(
        "Prediction sets",
        ["Question", "Coverage", "Set size", "One answer", "Empty"],
        found.sets.map((/** @type {any} */ each) =>
          line(
            [`${each.question} `, each.holds === false ? verdictTag("bad", "below nominal") : null],
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

/** @param {any} found */
function answers(found, /** @type {{state: any, set: any}} */ { state, set }) {
  const chosen = found.sets.find((/** @type {any} */ each) => each.question === state.sets) ?? found.sets[0];
  if (!chosen) return null;
  return card(
    "Prediction sets by true answer",
    {
      note: "The nominal coverage holds over all images together; a rare answer may be covered less.",
      tools: choice(
        "Question",
        found.sets.map((/** @type {any} */ each) => each.question),
        chosen.question,
        (key) => set({ sets: key === found.sets[0].question ? "" : key }),
      ),
    },
    table(
      "Coverage by true answer",
      ["True answer", "Images", "Coverage", "Set size"],
      chosen.answers
        .filter((/** @type {any} */ each) => each.images)
        .map((/** @type {any} */ each) =>
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
    good(`${percent(chosen.wanted, 0)} or more for every answer, with sets of about one answer.`),
  );
}

/** @param {any} found */
function selective(found) {
  if (!found) return null;
  const reached = found.operating_points.filter((/** @type {any} */ each) => known(each.confidence));
  return card(
    "Selective prediction",
    { note: "Error of the answers when the model answers only the most confident share of the images." },
    curves([{ name: "most confident first", place: 0, points: found.points.map((/** @type {any} */ [share, error]) => [share, error, null]) }], {
      label: "Error against share answered",
      x: "of the images answered",
      bounds: [{ name: "random abstention", value: found.error.value }],
      readX: (value) => percent(value, 0),
      marks: false,
      domain: [0, Math.max(0.02, found.error.value ?? 0, ...found.points.map((/** @type {any[]} */ point) => point[1]))],
    }),
    good(
      `the curve is low on the left and far below the dashed line. Area under the curve ${reading(found.area, fixed)}; abstaining exactly on the errors would give ${fixed(found.oracle)}.`,
    ),
    reached.length
      ? more(
          "Confidence chosen on validation images",
          table(
            "Abstention below a confidence",
            ["Target error", "Confidence", "Answered", "Error"],
            reached.map((/** @type {any} */ each) =>
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

/** @param {any} found @param {string} split @param {string} run */
function outOfDistribution(found, split, run) {
  if (!found) return null;
  const tested = Object.values(found.bounds).some(known);
  return card(
    "Images out of distribution",
    { note: `Measured by the distance of an image's patches from ${found.compared_with}.` },
    tested
      ? h(
          "p",
          {},
          `${reading(found.flagged)} of the ${split} images are flagged; of images in distribution, at most ${percent(found.expected)} are expected to be.`,
        )
      : h(
          "p",
          {},
          `Not possible: ${count(found.validation_images)} validation images are too few for this false alarm rate.`,
        ),
    found.images.length
      ? table(
          "Images with the largest scores",
          ["Image", ["Most unusual in"], "p"],
          found.images
            .slice(0, 8)
            .map((/** @type {any} */ each) =>
              line(
                imageName(run, split, each.image),
                h("td", {}, each.score),
                h("td", { class: "num" }, p(each.p)),
              ),
            ),
        )
      : null,
    good(
      "about the expected share. If many more are flagged, these images differ from the training images, and results measured on other images do not apply to them.",
    ),
  );
}
