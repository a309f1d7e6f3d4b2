"""The page with 50,000 images and with 500 runs, in Chromium: main-thread time a frame while panning, filter, table.

The images are synthetic: the thousand test images of a run, repeated with slightly other scores; pictures are drawn
shapes. Times of the main thread are summed from a recorded trace (`devtools.timeline`, tasks of the renderer's main
thread), frame by frame. Writes JSON to stdout, or to the file that is named.
"""

import contextlib
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import conceptlens as cl  # noqa: E402
from conceptlens.core.files import read_json, write_json  # noqa: E402
from conceptlens.web.server.loaded import LoadedRun  # noqa: E402
from conceptlens.web.server.serve import READY  # noqa: E402
from conceptlens.web.views.dataset.sprites import SpriteSheets  # noqa: E402
from conceptlens.web.views.dataset.table import ImageTable, table_of  # noqa: E402
from tests.training.tiny import tiny  # noqa: E402
from tests.web.browser import CHROMIUM, FLAGS, serve_inside  # noqa: E402

IMAGES = 50_000
RUNS = 500
FRAMES = 120
TRACED = ["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]


def many_images(table: ImageTable) -> ImageTable:
    """The same images again and again, each time with slightly other scores, until there are 50,000."""
    rows = np.arange(IMAGES) % len(table)
    chance = np.random.default_rng(0)
    assert table.probs is not None
    assert table.concept_probs is not None
    noise = chance.uniform(0.6, 1.4, (IMAGES, table.probs.shape[1]))
    probs = table.probs[rows] * noise
    spread = chance.normal(0, 0.1, (IMAGES, table.concept_probs.shape[1]))
    return ImageTable(
        ids=tuple(f"image-{row:05}.png" for row in range(IMAGES)),
        labels=table.labels[rows],
        concept_labels=table.concept_labels[rows],
        probs=probs / probs.sum(1, keepdims=True),
        concept_probs=np.clip(table.concept_probs[rows] + spread, 0, 1),
        vectors=None,
        groups={},
    )


@contextlib.contextmanager
def serve_many(folder: Path) -> Iterator[str]:
    """A server whose test images are 50,000; all sheets of sprites are the first one."""
    draw = SpriteSheets.get

    def sheet(self: SpriteSheets, loaded: LoadedRun, split: str, number: int) -> bytes:
        return draw(self, loaded, split, 0)

    with (
        patch("conceptlens.web.routes.dataset.table_of", lambda loaded, split: many_images(table_of(loaded, split))),
        patch.object(SpriteSheets, "get", sheet),
        serve_inside(folder) as base,
    ):
        yield base


def make_runs(folder: Path, model: Path) -> None:
    """500 run folders with metrics of their own; weights are left out."""
    chance = np.random.default_rng(0)
    for number in range(RUNS):
        run = folder / f"run-{number:03}"
        run.mkdir(parents=True)
        for name in ("run.json", "recipe.yaml", "history.jsonl", "concepts.yaml", "splits.json"):
            shutil.copy(model / name, run / name)
        metrics = read_json(model / "metrics.json")
        for split in metrics["splits"].values():
            split["class"]["accuracy"] = float(chance.uniform())
        write_json(run / "metrics.json", metrics)


def main_thread_seconds(trace: bytes) -> float:
    """Processor time of the tasks of the main thread of the page that did most."""
    spent: Counter[tuple[int, int]] = Counter()
    events = json.loads(trace)["traceEvents"]
    names = [e for e in events if e.get("name") == "thread_name" and e["args"].get("name") == "CrRendererMain"]
    main = {(e["pid"], e["tid"]) for e in names}
    for event in events:
        if (event["pid"], event["tid"]) in main and event.get("name") == "RunTask":
            spent[event["pid"], event["tid"]] += event.get("tdur", 0)
    return max(spent.values(), default=0) / 1e6


def busy_frames(trace: bytes) -> list[float]:
    """Milliseconds for which the main thread worked between one frame and the next: the processor's time, as the trace
    has it (`tdur`), so that other programs on the machine do not count."""
    events = json.loads(trace)["traceEvents"]
    frames = [e for e in events if e.get("name") == "FireAnimationFrame"]
    main = Counter((e["pid"], e["tid"]) for e in frames).most_common(1)[0][0]
    own = [e for e in events if (e["pid"], e["tid"]) == main and e.get("ph") == "X" and "tdur" in e]
    tasks = sorted((e["tts"], e["tdur"]) for e in own if e["name"] == "RunTask")
    starts = sorted(e["tts"] for e in frames if (e["pid"], e["tid"]) == main and "tts" in e)
    return [
        sum(max(0, min(begin + took, after) - max(begin, start)) for begin, took in tasks if begin < after) / 1000
        for start, after in pairwise(starts)
    ]


def pan(browser: Browser, page: Page) -> dict[str, float]:
    """Drag the canvas for two seconds while a trace is recorded."""
    box = page.locator(".dataset-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    browser.start_tracing(page=page, categories=TRACED)
    page.mouse.down()
    for step in range(FRAMES):
        page.mouse.move(x + 150 * np.sin(step / 12), y + 80 * np.cos(step / 9))
        page.wait_for_timeout(16)
    page.mouse.up()
    frames = busy_frames(browser.stop_tracing())
    return {
        "frames": len(frames),
        "median_ms": round(statistics.median(frames), 2),
        "p95_ms": round(float(np.percentile(frames, 95)), 2),
        "max_ms": round(max(frames), 2),
    }


FILTER = """async () => {
    const { readTable } = await import("/static/js/dataset/table.js");
    const { mask, rowsOf } = await import("/static/js/dataset/filter.js");
    const { dataset } = await import("/static/js/dataset/api.js");
    const table = readTable(await dataset.columns("many", "test"));
    const times = [];
    for (let turn = 0; turn < 21; turn += 1) {
        const begun = performance.now();
        const [truth, concept] = [table.classes[turn % 4], table.concepts[turn % 8]];
        rowsOf(mask(table, { truth, error: "wrong", concept, least: 0.3 }));
        times.push(performance.now() - begun);
    }
    return { images: table.size, median_ms: times.sort((a, b) => a - b)[10], max_ms: Math.max(...times) };
}"""
CHANGE = """() => new Promise((done) => {
    const selects = [...document.querySelectorAll(".dataset-controls select")];
    const select = selects.find((each) => each.closest("label").textContent.startsWith("True class"));
    const begun = performance.now();
    select.value = select.options[1].value;
    select.dispatchEvent(new Event("change"));
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - begun)));
})"""


def measure_images(browser: Browser, base: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for layout in ("map", "axes", "grid"):
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.set_default_timeout(120_000)
        begun = time.monotonic()
        page.goto(f"{base}/#/dataset?run=many&layout={layout}")
        page.wait_for_selector(".dataset-canvas")
        page.locator(".dataset [role=status].note", has_text=f"{IMAGES:,} images").first.wait_for()
        result[f"open_{layout}_s"] = round(time.monotonic() - begun, 2)
        page.wait_for_timeout(4000)
        result[f"pan_{layout}"] = pan(browser, page)
        if layout == "map":
            result["filter"] = {name: round(value, 2) for name, value in page.evaluate(FILTER).items()}
            result["filter_until_drawn_ms"] = round(page.evaluate(CHANGE), 1)
        page.close()
    return result


def measure_runs(browser: Browser, base: str, openings: int = 5) -> dict[str, Any]:
    """Seconds until the last row is there, by the clock; and for how much of them the page's main thread and the server
    (this process) had a processor, which other programs on the machine do not change."""
    clock, page_cpu, server_cpu = [], [], []
    for _ in range(openings):
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        browser.start_tracing(page=page, categories=TRACED)
        begun, spent = time.monotonic(), time.process_time()
        page.goto(f"{base}/#/table")
        page.wait_for_selector(f".runs-table tbody tr:nth-child({RUNS})", state="attached", timeout=120_000)
        clock.append(time.monotonic() - begun)
        server_cpu.append(time.process_time() - spent)
        page_cpu.append(main_thread_seconds(browser.stop_tracing()))
        page.close()
    return {
        "runs": RUNS,
        "clock_s": [round(value, 2) for value in clock],
        "main_thread_cpu_s": [round(value, 2) for value in page_cpu],
        "server_cpu_s": [round(value, 2) for value in server_cpu],
    }


def machine(chromium: str) -> dict[str, Any]:
    """What measured, and how busy it was: the load is the mean of the last minute, the bench's own work in it."""
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "chromium": chromium,
        "load_at_the_end": [round(value, 1) for value in os.getloadavg()],
    }


def main(out: str | None = None) -> None:
    root = Path(tempfile.mkdtemp())
    data = {"source": "shapes", "shapes": {"n": 5200, "size": 32}}
    model = cl.train(tiny(root / "images" / "many", training__epochs=1, data=data), quiet=True).path
    make_runs(root / "runs", model)
    result: dict[str, Any] = {"images": IMAGES}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with serve_inside(root / "runs", ready=READY) as base:  # as `conceptlens serve` does it
            result["table"] = measure_runs(browser, base)
        with serve_inside(root / "runs") as base:
            result["table_of_a_server_that_has_read_nothing"] = measure_runs(browser, base, openings=1)
        print(json.dumps(result), flush=True)
        with serve_many(root / "images") as base:
            result["data_set"] = measure_images(browser, base)
        result["machine"] = machine(browser.version)
        browser.close()
    shutil.rmtree(root)
    text = json.dumps(result, indent=1)
    print(text)
    if out:
        Path(out).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:2])
