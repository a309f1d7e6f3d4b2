/** Do maps point at the region of their concept? Beside maps that know no concepts; from `localization.json`. */
import { rows } from "../../charts/rows.js";
import { choice, h } from "../../dom.js";
import { card } from "../frame.js";
import { count, percent, plural, short } from "../../words.js";
import { good, line, more, pointAxis, points, table, verdictLine } from "./words.js";
import { ofMaps } from "./verdicts.js";

/** @type {Record<string, string>} */
const TARGETS = { part: "each concept's own part", object: "the object as a whole" };
/** @type {Record<string, string>} */
export const MAPS = {
  own: "own map",
  gradcam: "Grad-CAM",
  prior: "prior: where parts are expected",
  uniform: "uniform",
  center_prior: "center prior",
  central_cell: "central cell",
  mean_region: "mean region of other images",
  mean_cell: "most covered cell of other images",
  darkness: "darkness or brightness",
  color_distance: "color distance from the edge",
  token_pca: "main component of tokens",
  perfect: "the region itself",
};
/** What a measure says, how it is read, and what a good value is. @type {Record<string, any>} */
const MEASURES = {
  energy: [
    "Share of the map on the region",
    percent,
    "far to the right of the maps that know no concepts.",
  ],
  lift: ["Times a uniform map", short, "above 2, which is more than twice the mass that a uniform map puts there."],
  pointing: ["Peak in the region", percent, "near 100%, and to the right of the maps that know no concepts."],
  pointing_patch: [
    "Peak at most one patch away from it",
    percent,
    "near 100%, and to the right of the maps that know no concepts.",
  ],
  pointing_tenth: [
    "Peak within a tenth of the object",
    percent,
    "near 100%, and to the right of the maps that know no concepts.",
  ],
  iou_best: [
    "Overlap with the region",
    percent,
    "near that of the region itself. To the left of the center prior, the map adds nothing.",
  ],
  distance_patches: ["Distance of centers, in patches", short, "near 0, and to the left of the center prior and of the mean region."],
};
const BLIND = [
  "prior",
  "uniform",
  "center_prior",
  "central_cell",
  "mean_region",
  "mean_cell",
  "darkness",
  "color_distance",
  "token_pca",
  "perfect",
];

/** @param {any} found */
export function localization(found, /** @type {{state: any, set: any}} */ { state, set }) {
  const targets = Object.keys(found.targets).sort().reverse(); // part before object: the harder question first
  const target = targets.includes(state.target) ? state.target : targets[0];
  const judged = found.targets[target];
  const known = Object.keys(MEASURES).filter((key) => Object.values(judged.maps).some((each) => each[key]));
  const measure = known.includes(state.measure) ? state.measure : known[0];
  const [name, read, words] = MEASURES[measure];
  const ours = judged.maps.own ? "own" : "gradcam";
  return [
    verdictLine(ofMaps(found)),
    h(
      "div",
      { class: "row toolbar" },
      targets.length > 1
        ? choice(
            "Compared with",
            targets.map((each) => [each, TARGETS[each]]),
            target,
            (key) => set({ target: key === targets[0] ? "" : key }),
          )
        : null,
      choice(
        "Measure",
        known.map((key) => [key, MEASURES[key][0]]),
        measure,
        (key) => set({ measure: key === known[0] ? "" : key }),
      ),
    ),
    h(
      "div",
      { class: "charts" },
      card(
        `Where maps point: ${name.toLowerCase()}`,
        {
          note: `${plural(judged.concepts, "map")} of ${plural(judged.images, "image")} compared with ${TARGETS[target]}. Bars are 95% intervals.`,
        },
        rows(
          Object.keys(MAPS)
            .filter((key) => judged.maps[key]?.[measure])
            .map((key) => ({
              name: MAPS[key],
              marks: [{ ...judged.maps[key][measure], kind: BLIND.includes(key) ? 2 : 0 }],
            })),
          {
            label: `${name} by map`,
            kinds: ["maps of the model", null, "maps that know no concepts"],
            read,
            within: read === percent ? [0, 1] : null,
          },
        ),
        good(words),
        found.maps.own === null
          ? h("p", { class: "note" }, "This method has no map of its own, so Grad-CAM is tested.")
          : null,
      ),
      against(judged, measure, read),
      parts(judged, measure, read, ours),
      concepts(judged, ours, found.concept_part),
    ),
  ];
}

/** @param {any} judged @param {string} measure @param {any} read */
function against(judged, measure, read) {
  const pairs = Object.entries(judged.against).filter(([, found]) => found[measure]);
  if (!pairs.length) return null;
  const difference = read === percent ? points : (/** @type {number | null | undefined} */ value) => short(value);
  return card(
    "Differences on the same images",
    { note: "The first map minus the second. Where a bar crosses 0, the difference is not significant." },
    rows(
      pairs.map(([name, found]) => ({
        name: name
          .split(" - ")
          .map((each) => MAPS[each] ?? each)
          .join(" − "),
        marks: [found[measure]],
      })),
      {
        label: "Differences between maps",
        bounds: [{ name: "no difference", value: 0, faint: true }],
        read: difference,
        axis: read === percent ? pointAxis : short,
      },
    ),
    good(
      measure === "distance_patches"
        ? "whole bars to the left of 0 against every map that knows no concepts."
        : "whole bars to the right of 0 against every map that knows no concepts.",
    ),
  );
}

/** @param {any} judged @param {any} measure @param {any} read @param {string} ours */
function parts(judged, measure, read, ours) {
  const shown = Object.entries(judged.parts).filter(([, found]) => found.maps[ours]?.[measure]);
  if (!shown.length) return null;
  return card(
    "By part",
    { note: `${MAPS[ours]} beside the center prior.` },
    rows(
      shown.map(([name, found]) => ({
        name: `${name} (${count(found.images)} images)`,
        marks: [
          { ...found.maps[ours][measure], kind: 0 },
          { value: found.maps.center_prior?.[measure]?.value ?? null, kind: 2 },
        ],
      })),
      {
        label: "Maps by part",
        kinds: [MAPS[ours], null, MAPS.center_prior],
        read,
        within: read === percent ? [0, 1] : null,
      },
    ),
    good("better than the center prior for every part, not only for large ones."),
  );
}

/** @param {any} judged @param {string} ours @param {any} partOf */
function concepts(judged, ours, partOf) {
  const shown = Object.entries(judged.by_concept ?? {}).filter(
    ([, found]) => found[ours]?.energy !== null && found[ours],
  );
  if (!shown.length) return null;
  shown.sort((a, b) => b[1][ours].energy - a[1][ours].energy);
  return card(
    "By concept",
    { note: `${MAPS[ours]}: share of its mass on the region, and of the image that the region covers.` },
    more(
      `${plural(shown.length, "concept")} in numbers`,
      table(
        "Maps by concept",
        ["Concept", ["Part"], "On the region", "Region", "Peak inside"],
        shown.map(([name, found]) =>
          line(
            name,
            h("td", {}, partOf?.[name] ?? "–"),
            h("td", { class: "num" }, percent(found[ours].energy)),
            h("td", { class: "num" }, percent(found[ours].share)),
            h("td", { class: "num" }, percent(found[ours].pointing)),
          ),
        ),
      ),
    ),
    good("the share on the region is far larger than the region's share of the image."),
  );
}
