/** Maps as the server packs them: a byte a patch, a scale a map. */

/**
 * @param {{of: number[], scale: number[], data: string} | null} block
 * @param {(byte: number) => number} level a byte as a part of the scale
 * @returns {Map<number, Float32Array>} (L) by slot or by concept
 */
export function unpack(block, level = (byte) => byte / 255) {
  const found = new Map();
  if (!block || !block.of.length) return found;
  const bytes = Uint8Array.from(atob(block.data), (letter) => letter.charCodeAt(0));
  const cells = bytes.length / block.of.length;
  block.of.forEach((key, place) => {
    const values = new Float32Array(cells);
    for (let cell = 0; cell < cells; cell += 1) values[cell] = level(bytes[place * cells + cell]) * block.scale[place];
    found.set(key, values);
  });
  return found;
}

/** All maps of a prediction, asked for by concept. */
export class Maps {
  /** @param {any} prediction as the server has it */
  constructor(prediction) {
    this.prediction = prediction;
    this.grid = prediction.maps.grid;
    this.evidence = unpack(prediction.maps.evidence, (byte) => (byte - 128) / 127);
    this.attention = unpack(prediction.maps.attention);
    this.assignment = unpack(prediction.maps.assignment);
    this.gradcam = unpack(prediction.maps.gradcam);
    this.index = prediction.index;
  }

  /** @param {string} kind @param {number} concept @returns {Float32Array | null} (L) */
  of(kind, concept) {
    if (this.prediction.concepts[concept]?.placeless) return null;
    if (kind === "evidence") return this.evidence.get(concept) ?? null;
    if (kind === "gradcam") return this.gradcam.get(concept) ?? null;
    const slot = this.prediction.concepts[concept]?.slot;
    return slot === null || slot === undefined ? null : (this.attention.get(slot) ?? null);
  }

  /** Kinds that this method has at all. @returns {[string, string][]} */
  kinds() {
    return /** @type {[string, string][]} */ ([
      this.evidence.size ? ["evidence", "Evidence"] : null,
      this.attention.size ? ["attention", "Attention"] : null,
      this.gradcam.size ? ["gradcam", "Grad-CAM"] : null,
      this.index ? ["index", "Index"] : null,
    ].filter(Boolean));
  }

  /** The concepts whose map, of the method's own kind if it has one, is strongest at a patch. @param {number} patch @returns {Set<number>} */
  strongestAt(patch) {
    const kind = this.evidence.size ? "evidence" : this.attention.size ? "attention" : "gradcam";
    const columns = this.prediction.concepts.map((/** @type {{index: number}} */ each) => each.index);
    const strong = (/** @type {number} */ k) => {
      const values = this.of(kind, k);
      return values !== null && values[patch] / (Math.max(...values) || 1) > 0.6;
    };
    return new Set(columns.filter(strong));
  }

  /** More Grad-CAM maps that came later. @param {any} prediction */
  add(prediction) {
    for (const [key, values] of unpack(prediction.maps.gradcam)) this.gradcam.set(key, values);
  }
}
