"use strict";
// One study: what is shown comes from the script element above, answers go to this browser and to a file. A server that
// shows the page sets `studyHome` before: begin(rater) brings answers that it has, keep(response) takes those given.
(() => {
  const study = JSON.parse(document.getElementById("study").textContent);
  const home = window.studyHome ?? null;
  const at = (id) => document.getElementById(id);
  const SIDE = 448;
  const OPACITY = 0.6;
  const LIKERT = ["not at all", "poorly", "partly", "well", "perfectly"];
  const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const colors = bytes(study.colors);
  const state = { rater: "", order: [], place: 0, answers: {}, comment: "", started: "", finished: "" };
  let shownAt = 0;
  let mapOn = true;

  // The same code gives the same order on every machine: the order need not be stored to go on.
  function hash(text) {
    let value = 2166136261;
    for (const sign of text) value = Math.imul(value ^ sign.codePointAt(0), 16777619);
    return value >>> 0;
  }
  function randomFrom(seed) {
    let value = seed;
    return () => {
      value = (value + 0x6d2b79f5) | 0;
      let mixed = Math.imul(value ^ (value >>> 15), 1 | value);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }
  function shuffled(list, seed) {
    const random = randomFrom(hash(seed));
    const copy = [...list];
    for (let last = copy.length - 1; last > 0; last--) {
      const other = Math.floor(random() * (last + 1));
      [copy[last], copy[other]] = [copy[other], copy[last]];
    }
    return copy;
  }
  function orderFor(rater) {
    const part = (kind) => shuffled(study.trials.filter((trial) => trial.kind === kind), `${study.study}:${rater}:${kind}`);
    return [...part("choice"), ...part("likert")]; // an image is named in the second part only
  }

  const slot = () => `conceptlens-study:${study.study}:${state.rater}`;
  function keep() {
    try {
      localStorage.setItem(slot(), JSON.stringify({ answers: state.answers, comment: state.comment, started: state.started }));
      localStorage.setItem("conceptlens-study:last", state.rater);
    } catch {
      if (!home) at("count").textContent += " · this browser keeps nothing: save before you close the page";
    }
    if (home && Object.keys(state.answers).length) home.keep(response());
  }
  function recall(name) {
    try { return localStorage.getItem(name); } catch { return null; }
  }

  async function begin(rater) {
    const there = home ? await home.begin(rater) : null;
    state.rater = rater;
    state.order = orderFor(rater);
    state.started = new Date().toISOString();
    let here = null;
    try { here = JSON.parse(recall(slot()) || "null"); } catch { here = null; }
    for (const before of [there, here]) {
      if (!before) continue;
      for (const { id } of state.order) {
        const [one, other] = [state.answers[id], before.answers?.[id]];
        if (other && !(one && one.ms >= other.ms)) state.answers[id] = other; // time adds up: the later has more
      }
      state.comment = String(before.comment || state.comment);
      state.started = before.started || state.started;
    }
    const open = state.order.findIndex((trial) => !(trial.id in state.answers));
    state.place = open < 0 ? state.order.length : open;
    at("start").hidden = true;
    keep();
    show();
  }

  const loaded = new Map();
  function picture(index) {
    if (!loaded.has(index)) {
      const image = new Image();
      image.src = study.images[index];
      loaded.set(index, image.decode().then(() => image));
      if (loaded.size > 12) loaded.delete(loaded.keys().next().value);
    }
    return loaded.get(index);
  }
  function heat(index) {
    const { grid: [height, width], values } = study.maps[index];
    const cells = bytes(values);
    const layer = new ImageData(SIDE, SIDE);
    const value = (row, column) => cells[Math.min(Math.max(row, 0), height - 1) * width + Math.min(Math.max(column, 0), width - 1)];
    for (let y = 0; y < SIDE; y++) {
      const v = ((y + 0.5) * height) / SIDE - 0.5, top = Math.floor(v), down = v - top;
      for (let x = 0; x < SIDE; x++) {
        const u = ((x + 0.5) * width) / SIDE - 0.5, left = Math.floor(u), right = u - left;
        const smooth = (value(top, left) * (1 - right) + value(top, left + 1) * right) * (1 - down)
          + (value(top + 1, left) * (1 - right) + value(top + 1, left + 1) * right) * down;
        const place = 4 * (y * SIDE + x), color = 3 * Math.round(smooth);
        layer.data.set(colors.subarray(color, color + 3), place);
        layer.data[place + 3] = Math.round(OPACITY * smooth);
      }
    }
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = SIDE;
    canvas.getContext("2d").putImageData(layer, 0, 0);
    return canvas;
  }
  async function draw(trial) {
    const image = await picture(trial.image);
    if (state.order[state.place] !== trial) return; // the rater was faster than the picture
    for (const id of ["plain", "mapped"]) {
      const pen = at(id).getContext("2d");
      pen.clearRect(0, 0, SIDE, SIDE);
      pen.imageSmoothingQuality = "high";
      pen.drawImage(image, 0, 0, SIDE, SIDE);
      if (id === "mapped" && mapOn) pen.drawImage(heat(trial.map), 0, 0);
    }
    at("trial").dataset.drawn = trial.id;
  }

  function show() {
    const done = state.place >= state.order.length;
    at("trial").hidden = done;
    at("end").hidden = !done;
    if (done) { at("comment").value = state.comment; at("finish").focus(); return; }
    const trial = state.order[state.place];
    const choice = trial.kind === "choice";
    at("part").textContent = choice ? "Part one: which feature?" : "Part two: how well does it point?";
    at("count").textContent = `${state.place + 1} of ${state.order.length}`;
    at("progress").value = state.place / state.order.length;
    at("question").textContent = choice ? "Which feature does the map point at?" : "How well does the map point at this feature?";
    at("feature").replaceChildren();
    if (!choice) at("feature").append(element("b", trial.concept.name), element("span", trial.concept.text));
    const options = choice ? shuffled(trial.options, `${study.study}:${state.rater}:${trial.id}`)
      : LIKERT.map((word, n) => ({ id: String(n + 1), name: word, text: "" }));
    at("answers").className = choice ? "" : "scale5";
    at("answers").replaceChildren(...options.map((option, n) => answerButton(trial, option, n + 1)));
    at("back").disabled = state.place === 0;
    at("trial").dataset.trial = trial.id;
    shownAt = performance.now();
    draw(trial);
    if (state.order[state.place + 1]) picture(state.order[state.place + 1].image);
  }
  function element(tag, text) {
    const made = document.createElement(tag);
    made.textContent = text; // never markup: names come from strangers
    return made;
  }
  function answerButton(trial, option, number) {
    const button = element("button", "");
    button.type = "button";
    button.className = "answer";
    button.dataset.answer = option.id;
    const words = element("div", option.name);
    if (option.text && option.text !== option.name) words.append(element("span", option.text));
    button.append(element("kbd", String(number)), words);
    button.setAttribute("aria-pressed", String(state.answers[trial.id]?.answer === option.id));
    button.addEventListener("click", () => answer(trial, option.id));
    return button;
  }
  function answer(trial, value) {
    const before = state.answers[trial.id];
    const spent = Math.round(performance.now() - shownAt);
    state.answers[trial.id] = { answer: value, ms: spent + (before ? before.ms : 0), changes: before ? before.changes + 1 : 0 };
    state.place += 1;
    keep();
    show();
  }
  function back() {
    if (state.place > 0) { state.place -= 1; show(); }
  }
  function toggle() {
    mapOn = !mapOn;
    at("toggle").textContent = mapOn ? "Map on (M)" : "Map off (M)";
    at("toggle").setAttribute("aria-pressed", String(mapOn));
    draw(state.order[state.place]);
  }
  function response() {
    const complete = state.order.every((trial) => trial.id in state.answers);
    return {
      schema: 1, study: study.study, rater: state.rater, started: state.started, saved: new Date().toISOString(),
      complete, comment: state.comment, order: state.order.map((trial) => trial.id), answers: state.answers,
    };
  }
  function save() {
    keep();
    const link = document.createElement("a");
    const address = URL.createObjectURL(new Blob([JSON.stringify(response(), null, 1)], { type: "application/json" }));
    link.href = address;
    link.download = `responses-${study.study}-${state.rater}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
    at("saved").textContent = `Saved as ${link.download}.`;
  }

  at("who").addEventListener("submit", (event) => {
    event.preventDefault();
    const rater = at("rater").value.trim().toLowerCase();
    at("warning").textContent = "";
    if (!/^[a-z0-9_-]{1,40}$/.test(rater)) at("warning").textContent = "A code has letters, digits, - and _ only.";
    else begin(rater).catch((error) => { at("warning").textContent = error.message; });
  });
  at("comment").addEventListener("input", () => { state.comment = at("comment").value; keep(); });
  at("back").addEventListener("click", back);
  at("review").addEventListener("click", back);
  at("toggle").addEventListener("click", toggle);
  at("save").addEventListener("click", save);
  at("finish").addEventListener("click", save);
  document.addEventListener("keydown", (event) => {
    if (at("trial").hidden || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const buttons = at("answers").children;
    const number = Number(event.key);
    if (number >= 1 && number <= buttons.length) { event.preventDefault(); buttons[number - 1].click(); }
    else if (event.key === "ArrowLeft" || event.key === "Backspace") { event.preventDefault(); back(); }
    else if (event.key.toLowerCase() === "m") toggle();
  });
  at("rater").value = recall("conceptlens-study:last") || "";
  at("rater").focus();
})();
