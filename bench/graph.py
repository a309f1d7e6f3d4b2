"""How smoothly a large graph moves in a browser, and how soon it is there.

A drawn decomposition of 2,000 nodes is served and opened in Chromium; then it is dragged, and zoomed, in every frame.
What counts are frames that the browser asked for while it had something to draw in each.

python bench/graph.py [--nodes 2000] [--layers 12] [--sources 12] [--seconds 4] [--json FILE]
"""

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conceptlens.core.files import write_json  # noqa: E402
from tests.web.browser import CHROMIUM, FLAGS, serve  # noqa: E402
from tests.web.decomposition import draw_graph, write_decomposition  # noqa: E402

WANTED = {"frames_per_second": 30, "first_paint_s": 1.0}
READY = "performance.getEntriesByName('graph-painted')[0]?.startTime ?? 0"
# A drag along a figure of eight that leaves what is painted; or the wheel, in and out.
MOVE = """async ([seconds, how]) => {
    const canvas = document.querySelector(".graph-canvas");
    const box = canvas.getBoundingClientRect();
    const send = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {
        pointerId: 1, bubbles: true, clientX: box.left + x, clientY: box.top + y }));
    canvas.focus();
    const [cx, cy] = [box.width / 2, box.height / 2];
    if (how === "pan") send("pointerdown", cx, cy);
    const times = [];
    const painted = Number(canvas.dataset.painted);
    await new Promise((done) => {
        const begin = performance.now();
        const step = (now) => {
            times.push(now);
            const t = (now - begin) / 1000;
            if (t > seconds) return done();
            if (how === "pan") send("pointermove", cx + 900 * Math.sin(2 * t), cy + 500 * Math.sin(4 * t));
            else canvas.dispatchEvent(new WheelEvent("wheel", {
                deltaY: Math.sin(2 * t) > 0 ? -24 : 24,
                clientX: box.left + cx, clientY: box.top + cy, cancelable: true }));
            requestAnimationFrame(step);
        };
        requestAnimationFrame(step);
    });
    if (how === "pan") send("pointerup", cx, cy);
    const gaps = times.slice(1).map((time, place) => time - times[place]).sort((a, b) => a - b);
    return {
        frames: gaps.length,
        frames_per_second: 1000 * gaps.length / (times.at(-1) - times[0]),
        p99_ms: gaps[Math.floor(0.99 * (gaps.length - 1))],
        longest_ms: gaps.at(-1),
        sheets: Number(canvas.dataset.painted) - painted,
    };
}"""


def until(page: Any, expression: str) -> Any:
    for _ in range(600):
        if value := page.evaluate(expression):
            return value
        page.wait_for_timeout(50)
    raise SystemExit(f"never came true: {expression}")


def measure(page: Any, base: str, seconds: float) -> dict[str, Any]:
    """First paint, then every kind of movement, near and far, with few edges and with all."""
    found: dict[str, Any] = {"first_paint_s": {}, "moves": []}
    for which in ("cold", "warm"):
        page.goto("about:blank")
        page.goto(f"{base}/#/graph?run=drawn")
        found["first_paint_s"][which] = until(page, READY) / 1000
    for edges in ("strong", "all"):
        if edges == "all":
            page.get_by_label("Weakest edge that is shown").fill("0")
        page.wait_for_timeout(2500)
        told = page.locator("#graph [role=status]").inner_text()
        for near in (0, 6, 6):
            for _ in range(near):
                page.get_by_role("button", name="Nearer").click()
            page.wait_for_timeout(800)
            for how in ("pan", "zoom"):
                moved = page.evaluate(MOVE, [seconds, how])
                at = page.url.split("at=")[1].split("&")[0].replace("%2C", ",").split(",")
                found["moves"].append({"shown": told, "how": how, "zoom": float(at[2]), **moved})
                page.wait_for_timeout(400)
        page.get_by_role("button", name="All of the graph").click()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--sources", type=int, default=12, help="edges into each node")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each movement")
    parser.add_argument("--size", default="1600x1000", help="of the window")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    concepts = round((args.nodes - 2) / args.layers) - 1  # each layer has its error besides
    graph = draw_graph(layers=args.layers, concepts=concepts, sources=args.sources)
    width, height = map(int, args.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        run = write_decomposition(Path(folder, "drawn"), {"graph.json": graph})
        with serve(run) as base, sync_playwright() as library:
            browser = library.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(60_000)
            began = time.perf_counter()
            found = measure(page, base, args.seconds)
            version = browser.version
            browser.close()
    print(f"{len(graph.nodes):,} nodes, {len(graph.edges):,} edges, Chromium {version} without a GPU, {args.size}")
    paint = found["first_paint_s"]
    print(f"first paint: {paint['cold']:.2f} s, again {paint['warm']:.2f} s (at most {WANTED['first_paint_s']:.0f})")
    for move in found["moves"]:
        print(
            f"{move['how']:4} at {move['zoom']:5.1f}×, {move['shown']}: {move['frames_per_second']:.0f} frames/s, "
            f"99 % within {move['p99_ms']:.0f} ms, longest {move['longest_ms']:.0f} ms"
        )
    slowest = min(move["frames_per_second"] for move in found["moves"])
    print(
        f"slowest: {slowest:.0f} frames/s (at least {WANTED['frames_per_second']}); {time.perf_counter() - began:.0f} s"
    )
    if args.json:
        machine = {"machine": platform.platform(), "chromium": version, "window": args.size}
        size = {"nodes": len(graph.nodes), "edges": len(graph.edges)}
        write_json(args.json, {**machine, **size, "wanted": WANTED, **found})


if __name__ == "__main__":
    main()
