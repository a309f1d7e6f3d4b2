/**
 * The address says what is seen: `#/VIEW?key=value&…`. It stands behind the `#`, so that no server ever sees it.
 * @typedef {{view: string, params: Record<string, string>}} Address
 */

/** @param {string} hash @returns {Address} */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { view: path || "runs", params: Object.fromEntries(new URLSearchParams(query)) };
}

/** @param {string} view @param {Record<string, any>} params what is null, undefined or "" is left out */
export function format(view, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

let pending = {}; // changes that are not in the address yet
let timer = 0;

/** Where we are, with what is about to be written. */
export function here() {
  const { view, params } = parse(location.hash);
  const all = Object.entries({ ...params, ...pending }).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return { view, params: Object.fromEntries(all.map(([key, value]) => [key, String(value)])) };
}

/** Go somewhere else: a step that "back" undoes. @param {string} view @param {Record<string, any>} params */
export function go(view, params) {
  write();
  location.hash = format(view, params);
}

/**
 * Change the address of what is seen already, without a step in the history and without drawing anew. Browsers refuse
 * more than some twenty changes a second, and a slider makes more: they are gathered.
 * @param {Record<string, any>} changes
 */
export function note(changes) {
  Object.assign(pending, changes);
  if (timer) return;
  write();
  timer = setTimeout(() => {
    timer = 0;
    write();
  }, 120);
}

function write() {
  if (!Object.keys(pending).length) return;
  const { view, params } = here();
  pending = {};
  try {
    history.replaceState(null, "", format(view, params));
  } catch {
    return; // a preview of a shared file that has no history: the view works, its address stays
  }
}

window.addEventListener("hashchange", () => {
  pending = {};
}); // somebody went elsewhere: what was about to be written is of another view
