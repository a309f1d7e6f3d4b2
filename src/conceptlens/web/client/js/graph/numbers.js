/** Numbers of a graph as they are read. */

/** A contribution, signed, with three digits. @param {number} value */
export function strength(value) {
  const size = Math.abs(value);
  const text = size !== 0 && (size < 0.001 || size >= 10_000) ? size.toExponential(1) : size.toPrecision(3);
  return `${value < 0 ? "−" : "+"}${text}`;
}

/** A share, which is negative where something is taken away. @param {number} value */
export function part(value, digits = 1) {
  const text = (100 * Math.abs(value)).toFixed(digits);
  return `${value < 0 && Number(text) ? "−" : ""}${text}%`;
}
