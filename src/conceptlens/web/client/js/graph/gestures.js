/** One finger or the mouse moves, two fingers or the wheel zoom, a tap that goes nowhere is a click. */

const STILL = 6; // pixels that a click may wander

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{pan: (dx: number, dy: number) => void, zoom: (factor: number, x: number, y: number) => void, hover: (x: number | null, y?: number) => void, click: (x: number, y: number, more: boolean) => void}} does
 */
export function gestures(canvas, does) {
  /** @type {Map<number, {x: number, y: number}>} */
  const down = new Map();
  let far = 0;
  const at = (/** @type {any} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const spread = () => {
    const [one, two] = [...down.values()];
    return { wide: Math.hypot(one.x - two.x, one.y - two.y), x: (one.x + two.x) / 2, y: (one.y + two.y) / 2 };
  };

  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    if (!down.size) far = 0;
    down.set(event.pointerId, at(event));
    if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
    does.hover(null);
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = down.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") does.hover(now.x, now.y);
      return;
    }
    far += Math.hypot(now.x - before.x, now.y - before.y);
    if (down.size === 1) {
      down.set(event.pointerId, now);
      if (far > STILL) does.pan(now.x - before.x, now.y - before.y);
      return;
    }
    const was = spread();
    down.set(event.pointerId, now);
    const is = spread();
    far = Infinity;
    does.pan(is.x - was.x, is.y - was.y);
    if (was.wide > 0) does.zoom(is.wide / was.wide, is.x, is.y);
  });
  const up = (/** @type {any} */ event) => {
    const place = at(event);
    if (down.delete(event.pointerId) && event.type === "pointerup" && !down.size && far <= STILL)
      does.click(place.x, place.y, event.shiftKey);
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => does.hover(null));
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return; // the page scrolls unless the graph is meant
      event.preventDefault();
      const place = at(event);
      does.zoom(Math.exp(-event.deltaY / (event.ctrlKey ? 120 : 400)), place.x, place.y);
    },
    { passive: false },
  );
  // A click gives the focus, and with it the wheel; the browser does so on its own only for a mouse.
  canvas.addEventListener("pointerdown", () => canvas.focus({ preventScroll: true }));
}
