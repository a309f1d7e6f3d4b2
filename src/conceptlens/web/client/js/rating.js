/** The raters' page on a server: answers go there too, under a code that its first owner keeps with a word. */

const key = decodeURIComponent(location.pathname.split("/").pop() ?? "");
const home = `../api/v1/studies/${encodeURIComponent(key)}/raters`;
const study = JSON.parse(document.getElementById("study")?.textContent ?? "").study;
const QUIET = 400; // ms: answers that come faster than this go together
const AGAIN = 3000; // ms until a server that did not answer is asked again

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);
/** @param {any} rater */
const slot = (rater) => `conceptlens-study:${study}:${rater}:word`;
let mine = { rater: "", word: "" };
/** @type {any} */
let waiting = null; // the newest answers that the server does not have
let sending = false;
let complete = false; // as the server said last
let timer = 0;

/** @param {string} address @param {string} method @param {any} body */
async function ask(address, method, body, options = {}) {
  let answer;
  try {
    answer = await fetch(address, {
      method,
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json" },
      credentials: "same-origin",
      ...options,
    });
  } catch {
    throw Object.assign(new Error("The server does not answer."), { again: true });
  }
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return told;
  const again = [408, 429, 500, 503].includes(answer.status);
  const code = told.error?.code;
  const ended = "Your login has expired. Reload this page, then enter the token for raters and your code again.";
  throw Object.assign(new Error(code === "token" ? ended : (told.error?.message ?? "The server gave no reason.")), { again, code });
}

/** @param {any} rater */
function remembered(rater) {
  try {
    return localStorage.getItem(slot(rater));
  } catch {
    return null; // a browser that keeps nothing for us: the rater has the word
  }
}

/** @param {any} rater */
async function begin(rater) {
  const word = at("word").value.trim() || remembered(rater);
  try {
    const begun = await ask(home, "POST", { rater, word });
    mine = { rater, word: begun.word };
    try {
      localStorage.setItem(slot(rater), begun.word);
    } catch {
      // as above
    }
    at("mine").textContent = `To continue in another browser: code ${rater}, word ${begun.word}.`;
    return begun;
  } catch (error) {
    if (/** @type {any} */ (error).code === "taken") {
      at("again").hidden = false;
      at("word").focus();
    }
    throw error;
  }
}

/** @param {string} text @param {string} state */
function say(text, state) {
  at("state").textContent = text;
  at("kept").dataset.state = state;
}

function body() {
  const { started, comment, order, answers } = waiting;
  return { word: mine.word, started, comment, order, answers };
}

/** @param {{started: string, comment: string, order: string[], answers: Record<string, any>}} response */
function keep(response) {
  waiting = response;
  if (complete) say("Saving …", "waiting"); // whoever reads "all are saved" closes the page
  else at("kept").dataset.state = "waiting";
  if (!timer && !sending) timer = setTimeout(send, QUIET);
}

async function send() {
  timer = 0;
  if (!waiting || sending) return;
  const [sent, content] = [waiting, body()];
  sending = true;
  waiting = null;
  try {
    const kept = await ask(`${home}/${mine.rater}`, "PUT", content);
    complete = kept.complete;
    if (!waiting) say(complete ? "All answers are saved on the server." : "Saved on the server.", "saved");
  } catch (error) {
    if (/** @type {any} */ (error).again) waiting ??= sent;
    say(
      `${/** @type {any} */ (error).message} Your answers are kept in this browser${/** @type {any} */ (error).again ? " and sent again in a moment" : ""}.`,
      "trouble",
    );
    if (/** @type {any} */ (error).again) timer = setTimeout(send, AGAIN);
  } finally {
    sending = false;
    if (waiting && !timer) timer = setTimeout(send, QUIET);
  }
}

window.addEventListener("pagehide", () => {
  if (!waiting) return;
  const content = body();
  waiting = null;
  // What the browser may still send when the page is gone is small; what is larger is in its storage.
  ask(`${home}/${mine.rater}`, "PUT", content, { keepalive: true }).catch(() => {});
});

at("where").textContent =
  "Your answers are saved on the server as you give them. You can stop at any time and continue later with the same code.";
at("thanks").textContent =
  "All questions are answered. As soon as this page says below that they are saved, you may close it.";
at("finish").textContent = "Save a copy for yourself";
/** @type {any} */ (window).studyHome = { begin, keep };
