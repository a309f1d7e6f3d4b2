/** What this visit keeps that no address can hold: files that were dropped, and which image a run was last seen with. */

/** @type {Map<string, {file: File, prediction: any}>} by run */
const uploads = new Map();
/** @type {Map<string, string>} by run */
const lastImage = new Map();

export const keepUpload = (run, file, prediction) => uploads.set(run, { file, prediction });
export const upload = (run) => uploads.get(run) ?? null;
export const keepImage = (run, image) => lastImage.set(run, image);
export const image = (run) => lastImage.get(run) ?? null;
