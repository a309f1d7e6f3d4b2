/** What this visit keeps that no address can hold: files that were dropped, and which image a run was last seen with. */

/** @type {Map<string, {file: File, prediction: any}>} by run */
const uploads = new Map();
/** @type {Map<string, string>} by run */
const lastImage = new Map();

/** @param {string} run @param {File} file @param {any} prediction */
export const keepUpload = (run, file, prediction) => uploads.set(run, { file, prediction });
/** @param {string} run */
export const upload = (run) => uploads.get(run) ?? null;
/** @param {string} run @param {string} image */
export const keepImage = (run, image) => lastImage.set(run, image);
/** @param {string} run */
export const image = (run) => lastImage.get(run) ?? null;
