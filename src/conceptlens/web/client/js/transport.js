/**
 * How the page reaches its data: here by asking the server that it came from (docs/api.md). A shared file has no server
 * and answers from itself; in it, share/transport.js stands in the place of this module.
 */

const ROOT = "api/v1";

/** Whether this is a shared file: no server to confirm anything, and no model to look at other images. */
export const shared = false;

/** Whether a view is there. */
/** @param {string} _view */
export const holds = (_view) => true;

/** What the server refused, in its words. */
export class ApiError extends Error {
  /** @param {number} status @param {{code?: string, message?: string, command?: string | null}} [refusal] */
  constructor(status, { code = "bug", message = "The server gave no reason.", command = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.command = command;
  }
}

/** The answer of an address, whatever it is; an error in words where nobody answers. @param {string} address @param {RequestInit} [options] */
export async function reach(address, options = {}) {
  try {
    return await fetch(address, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error instanceof Error && error.name === "AbortError") throw error;
    throw new ApiError(0, {
      code: "away",
      message: "The server does not answer. Is `conceptlens serve` still running?",
    });
  }
}

/** @param {string} path @param {RequestInit} [options] */
export async function ask(path, options = {}) {
  const answer = await reach(`${ROOT}/${path}`, options);
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new ApiError(answer.status, body.error);
  return body;
}

/** The address of a picture or a file. @param {string} path */
export const file = (path) => `${ROOT}/${path}`;
