/** The picture with its map: which kind, of which concept, how strong; and the legend of the index map. */
import { api } from "../api.js";
import { eachFrame, h, put, rove, segment, opacitySlider } from "../dom.js";
import { upload } from "../visit.js";
import { PLACELESS, howToRead, largest, logits, movedWords, sumWords } from "./evidence.js";
import { picture } from "./picture.js";
import { meaning } from "./trust/meaning.js";
import { unit } from "../plain.js";
import { percent, plural } from "../words.js";

/**
 * @param {{run: string, image: string, prediction: any, maps: import("../maps.js").Maps, concept: number, kind?: string, opacity: number, onchange: (changes: Record<string, any>) => void, onpatch: (patch: number | null) => void, onhoverpatch: (patch: number | null) => void}} options
 */
export function mapPanel({ run, image, prediction, maps, concept, kind, opacity, onchange, onpatch, onhoverpatch }) {
  const kinds = [...maps.kinds(), ["none", "Image"]];
  kind = kinds.some(([key]) => key === kind) ? kind : kinds[0][0];
  let legendOf = new Map((maps.index?.legend ?? []).map((/** @type {any} */ each) => [each.code, each]));
  const view = picture({
    source: prediction.picture.replace(/^\/(?=api)/, ""),
    alt: `Image ${prediction.image.id}`,
    grid: maps.grid,
    onpick: onpatch,
    onhover: (patch) => {
      markLegend(patch === null ? null : maps.index?.codes[patch]);
      onhoverpatch(patch);
    },
    name: (patch) => patchName(patch),
  });
  const legend = h("ul", { class: "codes", "aria-label": "Codes in this image" });
  const line = h("p", { class: "note caption", role: "status" });
  const hint = h("p", { class: "note" });
  const scale = h("div", { class: "heat", "aria-hidden": "true" });
  const doubt = h("div", { class: "notice doubt", role: "note", hidden: true });
  const badge = h("span", { class: "tag warn failed-tag", hidden: true });
  view.append(badge);
  const failed = (/** @type {string | undefined} */ name) => prediction.maps.failed?.[name ?? ""] ?? null;
  const slider = opacitySlider("Opacity of the map", opacity, (value) => {
    opacity = value;
    view.setOpacity(opacity);
    onchange({ opacity });
  });
  const pick = h("select", {
    "aria-label": "Concept whose map is shown",
    onchange: () => {
      concept = Number(pick.value);
      onchange({ concept });
      draw(concept);
    },
  });
  let group = null;
  for (const each of prediction.concepts) {
    if (group?.label !== each.group) {
      group = h("optgroup", { label: each.group });
      group.label = each.group;
      pick.append(group);
    }
    group.append(h("option", { value: each.index, selected: each.index === concept }, each.name));
  }
  const chooser = segment("Kind of map", kinds, kind, (key) => {
    kind = key;
    onchange({ map: key });
    draw(concept);
  });

  /** @param {number} patch */
  function patchName(patch) {
    const [, columns] = maps.grid;
    const code = maps.index
      ? `, code ${maps.index.codes[patch]}: ${legendOf.get(maps.index.codes[patch])?.name ?? "unnamed"}`
      : "";
    const values = kind === "none" || kind === "index" ? null : maps.of(String(kind), concept);
    const signed = kind === "evidence";
    const amount = (/** @type {number} */ each, /** @type {Float32Array} */ all) =>
      signed ? `${logits(each, largest(all))} ${unit()}` : `${percent(each / (Math.max(...all) || 1), 0)} of the largest value`;
    const level = values ? `, ${amount(values[patch], values)}` : "";
    const place = `row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}${level}${code}`;
    return [place, ...(signed ? movedWords(maps, prediction, patch) : [])].join("\n");
  }

  /** @param {number} k */
  async function more(k) {
    const answer =
      image === "upload"
        ? await api.upload(run, /** @type {{file: File}} */ (upload(run)).file, String(k))
        : await api.prediction(run, image.split("/")[0], image.split("/")[1], String(k));
    maps.add(answer);
    if (k === concept) draw(k);
  }

  /** @param {number} k */
  function draw(k) {
    const each = prediction.concepts[k];
    const off = kind === "none" || kind === "index";
    view.setIndex(kind === "index" ? maps.index : null);
    pick.disabled = off;
    scale.hidden = off;
    legend.hidden = kind !== "index";
    const values = off ? null : maps.of(String(kind), k);
    view.setMap(values, kind === "evidence", failed(kind) !== null);
    drawDoubt(each, values !== null);
    drawScale(values);
    if (kind === "gradcam" && !values && !each.placeless)
      more(k).catch((error) => {
        line.textContent = error.message;
      });
    if (kind === "index")
      line.textContent = `${plural(maps.index.legend.length, "code")} in this image: patches with the same color are nearest to the same one. ${maps.index.sample || image === "upload" ? "Gray codes have no name." : "Their names are being looked up."}`;
    else if (kind === "none")
      line.textContent =
        kinds.length === 1
          ? Object.values(prediction.maps.without ?? {}).join(" ") || "There are no maps."
          : "The image as the model sees it.";
    else if (each.placeless) line.textContent = PLACELESS;
    else {
      const sharing = kind === "attention" ? prediction.concepts.filter((/** @type {any} */ other) => other.slot === each.slot).length : 1;
      line.textContent = `“${each.text}”${each.part ? ` (part: ${each.part})` : ""}.${sharing > 1 ? ` ${sharing} concepts share this map: they read the same slot.` : ""}${kind === "evidence" ? ` ${sumWords(prediction, k)}` : values && !Math.max(...values) ? " No patch raises this score." : ""}`;
    }
    hint.textContent = howToRead(String(kind), prediction.maps);
    pick.value = String(k);
  }

  /** A map that was tested and failed says so before anything else; so does one that is the same in every image. @param {any} each @param {boolean} drawn */
  function drawDoubt(each, drawn) {
    const reason = failed(kind);
    const still = prediction.maps.unmoving?.includes(each?.name) && kind !== "gradcam";
    doubt.hidden = !drawn || (reason === null && !still);
    badge.hidden = doubt.hidden;
    badge.textContent = reason === null ? "! the same in every image" : "! failed its test";
    put(
      doubt,
      reason === null ? null : h("p", {}, h("b", {}, "This map failed its test and is drawn in gray. "), meaning("maps", "finding")), reason === null ? null : h("small", {}, reason),
      still ? h("p", {}, h("b", {}, "This map is nearly the same in every image. "), "It says nothing about this image.") : null,
    );
  }

  /** The colors of the map: from 0 to its most, or in logits on both sides of 0. @param {Float32Array | null} values */
  function drawScale(values) {
    const signed = kind === "evidence";
    const most = values && signed ? largest(values) : 0;
    scale.classList.toggle("signed", signed);
    scale.classList.toggle("failed", failed(kind) !== null);
    scale.hidden = scale.hidden || !values;
    put(scale, h("span", {}, signed ? logits(-most) : "0"), h("i", {}), h("span", {}, signed ? `${logits(most)} ${unit()}` : "largest"));
  }

  /** @param {number} code */
  function markLegend(code) {
    for (const row of legend.children) row.classList.toggle("linked", Number(row.dataset.code) === code);
  }

  function drawLegend() {
    if (!maps.index) return;
    const named = maps.index.legend.filter((/** @type {any} */ each) => each.level);
    const others = maps.index.legend.filter((/** @type {any} */ each) => !each.level);
    const shown = Math.max(named.length, 6);
    const hidden = maps.index.legend.length - shown > 1;
    const more = h(
      "li",
      {},
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            for (const row of legend.children) row.hidden = false;
            more.remove();
          },
        },
        `${maps.index.legend.length - shown} more without a name`,
      ),
    );
    put(
      legend,
      [...named, ...others].map((each, place) => {
        const cells = () => maps.index.codes.flatMap((/** @type {any} */ code, /** @type {any} */ cell) => (code === each.code ? [cell] : []));
        const on = () => view.link(cells());
        const off = () => view.link(null);
        return h(
          "li",
          { "data-code": each.code, hidden: hidden && place >= shown },
          h(
            "button",
            {
              type: "button",
              class: "code",
              tabindex: place ? "-1" : "0",
              onpointerenter: on,
              onpointerleave: off,
              onfocus: on,
              onblur: off,
              title:
                each.confidence === null
                  ? ""
                  : `${percent(each.confidence, 0)} of its patches belong to this concept; ${percent(each.chance, 0)} would by chance`,
            },
            h("span", { class: "dot", style: { background: each.color } }),
            h("span", { class: "label" }, `${each.name}`),
            h("span", { class: "note" }, `code ${each.code} · ${plural(each.patches, "patch", "patches")}`),
          ),
        );
      }),
      hidden ? more : null,
    );
    rove(legend, ".code");
  }

  /** A server that has not yet looked what codes stand for does so meanwhile: ask again for their names. */
  async function awaitNames(tries = 6) {
    if (!maps.index || maps.index.sample || image === "upload" || tries === 0) return;
    await new Promise((resolve) => {
      setTimeout(resolve, 2500);
    });
    if (!node.isConnected) return;
    const { index } = await api.predictionNow(run, image.split("/")[0], image.split("/")[1]);
    if (!index?.sample) {
      await awaitNames(tries - 1);
      return;
    }
    maps.index = index;
    legendOf = new Map(index.legend.map((each) => [each.code, each]));
    drawLegend();
    if (kind === "index") draw(concept);
  }

  const node = h(
    "div",
    { class: "map-panel" },
    view,
    h("div", { class: "row spread" }, pick),
    doubt,
    h(
      "div",
      { class: "row under" },
      kinds.length > 1 ? h("label", { class: "opacity" }, h("span", { class: "note" }, "Opacity"), slider) : null,
      scale,
    ),
    line,
    hint,
    legend,
  );
  drawLegend();
  view.setOpacity(opacity);
  draw(concept);
  awaitNames().catch(() => {}); // without names the codes stay gray, as they are
  const preview = eachFrame((k) => {
    if (kind !== "index" && kind !== "none") draw(k ?? concept);
  });
  return Object.assign(node, {
    chooser,
    setConcept(/** @type {number} */ k) {
      concept = k;
      if (kind === "none" && kinds.length > 1) {
        kind = kinds[0][0];
        chooser.set(kind);
      }
      draw(k);
    },
    /** Show another concept's map for as long as it is pointed at. */
    preview,
    setPatch: (/** @type {any} */ patch) => view.setPicked(patch),
    nextKind() {
      const at = kinds.findIndex(([key]) => key === kind);
      [kind] = kinds[(at + 1) % kinds.length];
      chooser.set(kind);
      onchange({ map: kind });
      draw(concept);
    },
    compose: () => view.compose(),
  });
}
