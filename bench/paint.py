"""How soon each view of the page is there: from the start of the navigation to the first frame with its own content.

Each view is opened in Chromium in a context of its own, so with nothing in its cache: first of a server that was just
started and has answered nothing but whether it is up, then again of the same server. Kinds of results that are not
among the folders are drawn.

python bench/paint.py FOLDER... [--views image,graph] [--rounds 3] [--json FILE]
python bench/paint.py FOLDER... --warm 5 [--json FILE]
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from conceptlens.core.files import write_json  # noqa: E402
from page_views import TRACED, machine, main_thread_seconds  # noqa: E402
from tests.web.browser import CHROMIUM, FLAGS, serve  # noqa: E402
from tests.web.comparisons import make_comparison  # noqa: E402
from tests.web.decomposition import draw_graph, write_decomposition  # noqa: E402
from tests.web.studio_world import make_studies  # noqa: E402
from tests.workflows.study.world import make_key, make_pack  # noqa: E402

WANTED = {"first_paint_s": 1.0, "warm_s": 0.7}
# A view: the kind of folder it shows, its address, and what of its own must be there. A canvas counts when it is drawn.
VIEWS: dict[str, tuple[str | None, str, Sequence[str]]] = {
    "runs": (None, "runs?", ["article.run-card"]),
    "image": ("bottleneck", "image?", [".story .sentence", ".story canvas", ".story .sums"]),
    "what-if": ("bottleneck", "what-if?", ["#shares > *", ".dials"]),
    "training": ("bottleneck", "training?", [".charts svg.chart"]),
    "concepts": ("bottleneck", "concepts?", [".things .thing", ".browse canvas"]),
    "codebook": ("bottleneck", "concepts?what=codebook&", [".things .thing", ".browse canvas"]),
    "trust": ("bottleneck", "trust?", [".trust .card"]),
    "study": ("study", "study?", [".view-study .card"]),
    "graph": ("decomposition", "graph?", [".graph-canvas[data-painted]"]),
    "studio": ("codebook", "studio?", [".view-studio canvas", ".view-studio .strip img"]),
    "compare": ("comparison", "compare?", [".view-compare table", ".view-compare svg"]),
    "dataset": ("bottleneck", "dataset?", [".dataset-canvas", ".dataset .thumbs li"]),
    "table": (None, "table?", [".runs-table tbody tr"]),
    "jobs": (None, "jobs?", [".view-jobs .card button"]),
    "methods": (None, "methods?", [".view-methods svg", ".view-methods .things .thing"]),
}
# The time of the first frame that was drawn with all of them: the second callback comes when the first frame is done.
WATCH = """(() => {
    const wanted = %s;
    const look = () => {
        if (!wanted.every((each) => document.querySelector(each))) return requestAnimationFrame(look);
        requestAnimationFrame(() => setTimeout(() => { window.firstPaint = performance.now(); }, 0));
    };
    requestAnimationFrame(look);
})();"""
ASKED = """performance.getEntriesByType("resource").map((each) => ({
    name: each.name.replace(location.origin + "/", ""), start: each.startTime, end: each.responseEnd,
    bytes: each.encodedBodySize, moved: each.transferSize }))"""


def drawn(folder: Path, kinds: set[str]) -> list[Path]:
    """Folders of those kinds that nobody gave."""
    made = []
    if "decomposition" in kinds:
        graph = draw_graph(layers=12, concepts=165, sources=12)
        made.append(write_decomposition(folder / "drawn", {"graph.json": graph}))
    if "codebook" in kinds:
        made.append(make_studies(folder / "studies") / "shapes")
    if "study" in kinds:
        made.append(make_pack(folder / "pack", make_key(images=4, catch=2, attention=1)))
    if "comparison" in kinds:
        made.append(make_comparison(folder))
    return made


def opened(browser: Any, address: str, wanted: Sequence[str], patience: float = 60.0) -> dict[str, Any]:
    """One view with an empty cache: seconds until it is drawn, and what it asked the server for."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        return opened_in(context, address, wanted, patience)
    finally:
        context.close()


def opened_in(context: Any, address: str, wanted: Sequence[str], patience: float = 60.0) -> dict[str, Any]:
    """The same in a browser that may have been there before."""
    page = context.new_page()
    try:
        page.add_init_script(WATCH % list(wanted))
        began = time.perf_counter()
        page.goto(address, wait_until="commit")
        while not (found := page.evaluate("window.firstPaint ?? 0")):
            if time.perf_counter() - began > patience:
                raise SystemExit(f"{address}: never drew {', '.join(wanted)}: {page.inner_text('main')[:300]}")
            page.wait_for_timeout(100)
        asked = [each for each in page.evaluate(ASKED) if each["end"] <= found]
        return {"seconds": found / 1000, "asked": asked}
    finally:
        page.close()


def cards(base: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{base}/api/v1/runs", timeout=60).json()["runs"]
    return found


def measure_warm(browser: Any, folders: list[Path], names: list[str], times: int) -> dict[str, Any]:
    """Every view of a server and in a browser that have both shown it once: seconds by the clock, and for how much of
    them the page's main thread and the server had a processor, which other programs on the machine do not change; and
    what was asked of the server, not of the browser's own cache."""
    found: dict[str, Any] = {}
    before = {child.pid for child in psutil.Process().children()}
    with serve(*folders) as base:
        server = next(child for child in psutil.Process().children() if child.pid not in before)
        keys = fullest(cards(base))
        for name in names:
            kind, address, wanted = VIEWS[name]
            if kind is not None and kind not in keys:
                continue
            where = f"{base}/#/{address}run={keys[kind]['key']}" if kind else f"{base}/#/{address}"
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            opened_in(context, where, wanted)
            rows = []
            for _ in range(times):
                browser.start_tracing(categories=TRACED)
                spent = sum(server.cpu_times()[:2])
                painted = opened_in(context, where, wanted)
                spent = sum(server.cpu_times()[:2]) - spent
                page = main_thread_seconds(browser.stop_tracing())
                rows.append(
                    {
                        "clock_s": round(painted["seconds"], 3),
                        "page_cpu_s": round(page, 3),
                        "server_cpu_s": round(spent, 3),
                        "requests": sum(each["moved"] > 0 for each in painted["asked"]),
                    }
                )
            context.close()
            found[name] = {"warm": rows, "warm_s": [row["clock_s"] for row in rows]}
            busy = [row["page_cpu_s"] + row["server_cpu_s"] for row in rows]
            print(
                f"{name:9} clock {statistics.median(found[name]['warm_s']):.2f} s, busy {max(busy):.2f} s", flush=True
            )
    return found


def fullest(known: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each kind a folder: a model with a codebook, which has a view of its own, and that most was measured of."""
    order = sorted(known, key=lambda card: (card.get("regularizer") in (None, "none"), -len(card["has"])))
    return {card["kind"]: card for card in reversed(order)}


def measure(browser: Any, folders: list[Path], names: list[str], rounds: int) -> dict[str, Any]:
    """Every view, of a new server and of one that has shown it."""
    with serve(*folders) as base:
        keys = fullest(cards(base))
    found: dict[str, Any] = {}
    for name in names:
        kind, address, wanted = VIEWS[name]
        if kind is not None and kind not in keys:
            continue
        where = f"#/{address}run={keys[kind]['key']}" if kind else f"#/{address}"
        first, again, starts = [], [], []
        for _ in range(rounds):
            began = time.perf_counter()
            with serve(*folders) as base:
                starts.append(round(time.perf_counter() - began, 2))
                first.append(opened(browser, f"{base}/{where}", wanted))
                again += [opened(browser, f"{base}/{where}", wanted) for _ in range(2)]
        found[name] = {
            "new_server_s": [round(each["seconds"], 3) for each in first],
            "again_s": [round(each["seconds"], 3) for each in again],
            "server_start_s": starts,
            "requests": len(first[-1]["asked"]),
            "kilobytes": round(sum(each["bytes"] for each in first[-1]["asked"]) / 1000),
            "slowest": [
                {"name": each["name"], "from_ms": round(each["start"]), "to_ms": round(each["end"])}
                for each in sorted(first[-1]["asked"], key=lambda each: each["start"] - each["end"])[:5]
            ],
        }
        print(
            f"{name:9} new server {worst(first):.2f} s, again {worst(again):.2f} s (median "
            f"{statistics.median(each['seconds'] for each in again):.2f}), {found[name]['requests']} requests",
            flush=True,
        )
    return found


def worst(times: list[dict[str, Any]]) -> float:
    return max(float(each["seconds"]) for each in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+", help="finished runs and other results")
    parser.add_argument("--views", default=",".join(VIEWS), help="names by commas")
    parser.add_argument("--rounds", type=int, default=3, help="servers that are started for each view")
    parser.add_argument("--warm", type=int, metavar="N", help="of one server only: each view once, then N times")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as library:
        with serve(*args.folders) as base:
            there = {card["kind"] for card in cards(base)}
        names = args.views.split(",")
        shown = {kind for name in names if (kind := VIEWS[name][0])}
        folders = [*args.folders, *drawn(Path(folder), shown - {"bottleneck"} - there)]
        browser = library.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        if args.warm:
            found = measure_warm(browser, folders, names, args.warm)
        else:
            found = measure(browser, folders, names, args.rounds)
        version = browser.version
        browser.close()
    wanted = WANTED["warm_s" if args.warm else "first_paint_s"]
    slowest = {
        name: max(each["warm_s"] if args.warm else each["new_server_s"] + each["again_s"])
        for name, each in found.items()
    }
    late = [name for name, seconds in slowest.items() if seconds > wanted]
    print(f"later than {wanted} s: {', '.join(late) or 'none'}")
    if args.json:
        known = {**machine(version), "window": "1280x900"}
        write_json(args.json, {"machine": known, "wanted": WANTED, "views": found})


if __name__ == "__main__":
    main()
