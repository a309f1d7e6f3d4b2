/** What commands wrote of a codebook study besides its images: token sets, bias, edits, and what could be written yet. */
import { note } from "../address.js";
import { h, put } from "../dom.js";
import { source, studio } from "../studio.js";
import { biasPanel } from "./bias.js";
import { card, command, failure, loading, missing } from "./frame.js";
import { WRITTEN } from "./studio_results.js";
import { tokenSets } from "./token_sets.js";

/** @type {Record<string, string>} */
const OTHERS = {
  bias: "Bias, for a study whose concepts are values of one attribute: what is drawn when none is requested",
  edit: "A saved edit, with independent judges where --judge names some",
  search: "Which tokens of the whole codebook could make a concept",
  masking: "Whether hiding the important tokens changes what independent judges predict",
  pairs: "Concepts edited into each other, judged by others",
};

/** @param {any} bias */
export const biasOk = (bias) => Boolean(bias) && !(bias instanceof Error) && bias.tables?.length > 0;

/**
 * @param {{run: string, about: any, tokens: any, bias: any, params: Record<string, string>, concept: string, onlink: (token: number | null) => void}} options
 * @returns the cards, and the picture of the bias if there is one
 */
export function written({ run, about, tokens, bias, params, concept, onlink }) {
  const parts = [];
  const panel = biasOk(bias)
    ? biasPanel({
        bias,
        n: params.n,
        picture: about.pictures.bias ? source(about.pictures.bias) : null,
        onchange: note,
      })
    : null;
  if (tokens instanceof Error) parts.push(failure(tokens));
  else if (tokens)
    parts.push(
      card(
        "Token sets",
        { note: "The tokens that most often make a concept. Point at one to see where it is in the image above." },
        tokenSets({ found: tokens, names: about.names, concept: params.set ?? concept, onconcept: (name) => note({ set: name }), onlink }),
      ),
    );
  else if (about.images.length)
    parts.push(missing("No token sets yet", "Which tokens make each concept:", about.missing.tokens));
  if (panel)
    parts.push(card("Bias", { note: "Which value's tokens does the generator use when no value is requested?" }, panel));
  else if (bias instanceof Error) parts.push(failure(bias));
  else if (about.concepts.every((/** @type {string} */ name) => name.includes("=")))
    parts.push(
      missing("No bias study yet", "Which value's tokens are used when no value is requested?", about.missing.bias),
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
        h("summary", {}, "What else can be measured"),
        h(
          "ul",
          {},
          lacks.map((name) => h("li", {}, OTHERS[name], command(about.missing[name]))),
        ),
      ),
    );
  return { parts, svg: () => panel?.svg() };
}
