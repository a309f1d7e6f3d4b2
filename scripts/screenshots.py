"""Pictures of the page for the documentation: every view, light and dark, a desktop's and a phone's width.

    make screenshots                                   # makes what is shown, then the pictures
    python scripts/screenshots.py runs/demo runs/gallery/*      # of folders that are there: docs/pictures/*.webp
    python scripts/screenshots.py runs/demo --only what-if
    python scripts/screenshots.py --check              # whether the pictures are of this version of the page

The first folder is the model that is shown, the one named after it with `-evidence` the model beside it; of each other
kind (comparison, decomposition, codebook, study) the first one that is named. Views without a folder get no picture. A
study is copied first, to a folder beside it that is removed at the end: the answers that the pictures need are given
there, most by simulated raters. Needs the extra `dev` (playwright) and Chromium. Nothing is downloaded.
"""

import argparse
import hashlib
import io
import json
import shutil
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import sync_playwright

from conceptlens.api import analyze_study
from conceptlens.core.version import __version__
from conceptlens.web.server.app import STATIC
from conceptlens.web.share.page import packed_sources
from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.simulate import Simulated, simulate

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.web.browser import CHROMIUM, FLAGS, serve  # noqa: E402

MADE = "made.json"  # beside the pictures: what they show
LIMIT = 80_000  # bytes of a picture
DESKTOP, PHONE = (1280, 860), (390, 844)
COMPARED = ("cbm", "cem", "explicd")  # of a comparison's trainings, beside the first model
RATERS = (Simulated("simulated-1", knows=0.8), Simulated("simulated-2", knows=0.6, true=3.8, noise=0.9))


@dataclass(frozen=True)
class Shot:
    """A picture: where the page stands, how large it is, and what is done before it is taken."""

    name: str
    address: str
    scheme: str = "light"
    size: tuple[int, int] = DESKTOP
    screens: float = 1.6  # at most so many of them, one below the other
    act: Callable[[Any], None] | None = None
    shows: str = "main .card"


def of_model(run: str, beside: str, others: list[str], wrong: str, edit: str) -> Iterator[Shot]:
    """The views of a trained model; one image as the model beside it reads it."""
    image = f"run={run}&image={wrong}&show=wrong"
    yield Shot("runs", f"#/runs?compare={','.join([run, *others])}" if others else "#/runs")
    yield Shot("image", f"#/image?run={beside}&image={wrong}")
    yield Shot("tour", "#/runs", act=third_step)
    yield Shot("index", f"#/image?{image}&map=index&patch=90", "dark")
    yield Shot("what-if", f"#/what-if?{image}&edits={quote(edit)}")
    yield Shot("training", f"#/training?run={run}")
    yield Shot("concepts", f"#/concepts?run={run}&sort=influence")
    yield Shot("codebook", f"#/concepts?run={run}&what=codebook&map=3d&sort=confidence", "dark")
    yield Shot("trust", f"#/trust?run={run}", screens=1.2)
    yield Shot("trust-corrections", f"#/trust?run={run}&section=corrections", screens=1.3)
    yield Shot("trust-leakage", f"#/trust?run={run}&section=leakage", "dark", screens=1.3)
    yield Shot("trust-maps", f"#/trust?run={run}&section=maps", screens=1.3)
    yield Shot("dataset", f"#/dataset?run={beside}&layout=map&color=right+or+wrong&image={wrong}", screens=1.4)
    yield Shot("table", f"#/table?find=seed%3D0&pick={','.join([run, *others])}&curve=val%2Fclass.accuracy", act=best)
    yield Shot("jobs", f"#/jobs?command=trust&run={run}", "dark", act=options, screens=1.2)
    yield Shot("methods", "#/methods?method=cem")
    yield Shot("phone", f"#/what-if?{image}&edits={quote(edit)}", "dark", PHONE, screens=2)


def of_network(run: str, ask: Callable[[str], Any]) -> Iterator[Shot]:
    """A graph, whole and with its most weighty concept open."""
    graph = ask(f"runs/{run}/graphs/classes")
    last = max(node["row"] for node in graph["nodes"] if node["kind"] == "concept")
    concepts = [node for node in graph["nodes"] if node["kind"] == "concept" and node["row"] == last]
    node = max(concepts, key=lambda node: max(map(abs, node["contributions"]), default=0))
    yield Shot("graph", f"#/graph?run={run}", shows="main canvas", screens=1.2)
    opened = f"#/graph?run={run}&node={quote(node['id'], safe='')}"
    yield Shot("graph-node", opened, "dark", shows="main canvas", screens=1.2)


def of_codebook(run: str, ask: Callable[[str], Any]) -> Iterator[Shot]:
    """Tokens of an image, and which of them make a concept."""
    studio = ask(f"runs/{run}/studio")
    shown = studio["images"]
    if not shown:
        raise SystemExit(f"{run}: `conceptlens codebook tokens` has not written images yet.")
    best = max(shown, key=lambda image: image["probability"])
    concept = quote(studio["concepts"][best["concept"]])
    rows, columns = studio["grid"]
    middle = rows // 2 * columns + columns // 2
    yield Shot("studio", f"#/studio?run={run}&image={best['row']}&concept={concept}&pin={middle}")


def of_comparison(run: str, _: Callable[[str], Any]) -> Iterator[Shot]:
    """Its table and plots."""
    yield Shot("compare", f"#/compare?run={run}&controls=0")


def of_study(run: str, _: Callable[[str], Any]) -> Iterator[Shot]:
    """What raters see, how far they are, and the result of a closed copy."""
    yield Shot("study-choice", f"study/{run}", act=begin, shows="#who", screens=1)
    yield Shot("study-rating", f"study/{run}", "dark", act=to_rating, shows="#who", screens=1)
    yield Shot("study", f"#/study?run={run}")
    yield Shot("study-result", f"#/study?run={run}-closed")


OTHERS = {"decomposition": of_network, "codebook": of_codebook, "comparison": of_comparison, "study": of_study}
DRAWN = "document.getElementById('trial').dataset.drawn === document.getElementById('trial').dataset.trial"


def third_step(page: Any) -> None:
    """The tour, where it says why a model decides."""
    page.get_by_role("button", name="Tour").click()
    for title in ("Two models", "What the model reads"):
        page.locator(".tour h2", has_text=title).wait_for(timeout=120_000)
        page.wait_for_selector(".tour-target")
        page.locator(".tour button.main").click()
    page.wait_for_selector(".tour-target")
    page.wait_for_timeout(1500)


def best(page: Any) -> None:
    """The table, after a test of which selected run is best."""
    page.get_by_role("button", name="Test which is best").click()
    page.locator(".view-table [role=status]", has_text="permutation test").wait_for(timeout=120_000)


def options(page: Any) -> None:
    """The form of a command, with its options."""
    page.get_by_text("Options of").click()
    page.wait_for_selector(".job-options .job-option")


def begin(page: Any) -> None:
    """Some questions into part one of a study."""
    page.fill("#rater", "r1")
    page.click("#begin")
    page.wait_for_selector("#answers button")
    for _ in range(5):
        answer(page, "2")


def to_rating(page: Any) -> None:
    """Some questions into part two."""
    page.fill("#rater", "r2")
    page.click("#begin")
    page.wait_for_selector("#answers button")
    while page.locator("#answers.scale5").count() == 0:
        answer(page, "1")
    for _ in range(3):
        answer(page, "4")


def answer(page: Any, key: str) -> None:
    """One question, once its pictures are there."""
    while not page.evaluate(DRAWN):
        page.wait_for_timeout(30)
    page.keyboard.press(key)
    page.wait_for_timeout(30)


def copies(pack: Path, to: Path) -> list[Path]:
    """A study as it is, and one that simulated raters answered and that is closed."""
    key = Key.read(pack / "key.json")
    shutil.rmtree(to, ignore_errors=True)
    made = [Path(shutil.copytree(pack, to / name)) for name in ("study", "study-closed")]
    for folder in made:
        for rater in RATERS:
            told = simulate(key, rater, image_noise=0.4)
            told.write(folder / "responses" / f"responses-{key.study}-{rater.name}.json")
    analyze_study(made[1])
    return made


def one_correction(ask: Callable[..., Any], run: str) -> tuple[str, str]:
    """An image that the run gets wrong and the one true answer that puts it right; else a change that flips a class."""
    fallback = ("test/0", "")
    for show in ("wrong", "uncertain"):
        for item in ask(f"runs/{run}/images?show={show}&size=12")["items"]:
            image = f"{item['split']}/{item['row']}"
            seen = ask(f"runs/{run}/images/{image}/prediction?gradcam=none")
            for edit in seen["truth_edits"] if show == "wrong" else []:
                told = ask(f"runs/{run}/intervene", {"state": seen["state"], "edits": [edit]})
                if told["after"]["said"] == item["truth"]:
                    return image, edit
            flip = ask(f"runs/{run}/flip", {"state": seen["state"], "edits": []})
            if not fallback[1] and len(flip.get("edits") or []) == 1:
                fallback = (image, flip["edits"][0])
    return fallback


def shots(base: str, first: str) -> list[Shot]:
    """Every picture that the served folders allow."""

    def ask(address: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{base}/api/v1/{address}", data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=120) as told:
            return json.load(told)

    cards = ask("runs")["runs"]
    models = {card["key"]: card for card in cards if card["kind"] == "bottleneck"}
    if first not in models:
        raise SystemExit(f"{first} is no trained model; its pictures were not made.")
    plain = {card["method"]: key for key, card in models.items() if card["seed"] == 0 and card["scores"]}
    beside = f"{first}-evidence" if f"{first}-evidence" in models else first
    others = [beside] if beside != first else []
    others += [plain[method] for method in COMPARED if method in plain and plain[method] not in (first, beside)]
    made = list(of_model(first, beside, others, *one_correction(ask, first)))
    if beside == first:
        made = [shot for shot in made if shot.name != "tour"]
    for kind, views in OTHERS.items():
        found = sorted(card["key"] for card in cards if card["kind"] == kind)
        if found:
            made += views(found[0], ask)
        else:
            print(f"no {kind} among the folders: its pictures stay as they are")
    return made


def settle(page: Any, asked: set[Any]) -> None:
    """Until nothing that the page asked for has been on its way for a while: pictures of a graph come one by one."""
    quiet = 0
    for _ in range(600):
        quiet = 0 if asked else quiet + 1
        if quiet == 15:
            return
        page.wait_for_timeout(100)
    raise SystemExit(f"{page.url} still waits for {len(asked)} answers after a minute; its picture was not made.")


def take(browser: Any, base: str, shot: Shot) -> Image.Image:
    """One view, whole, as far as its screens go."""
    width, height = shot.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=shot.scheme,
        device_scale_factor=0.875 if width > 600 else 1,
        reduced_motion="reduce",
        locale="en-GB",
    )
    page = context.new_page()
    asked: set[Any] = set()
    page.on("request", lambda request: asked.add(request))
    page.on("requestfinished", lambda request: asked.discard(request))
    page.on("requestfailed", lambda request: asked.discard(request))
    page.goto(f"{base}/{shot.address}")
    page.wait_for_selector(shot.shows, timeout=120_000)
    if shot.act:
        shot.act(page)
    settle(page, asked)
    tall = min(page.evaluate("document.documentElement.scrollHeight"), int(shot.screens * height))
    page.set_viewport_size({"width": width, "height": tall})  # a picture beyond the window would draw canvases anew
    settle(page, asked)
    picture = page.screenshot()
    context.close()
    return Image.open(io.BytesIO(picture)).convert("RGB")


def write(picture: Image.Image, file: Path) -> None:
    """As WebP, as good as fits."""
    for quality in (50, 35, 25):
        picture.save(file, "WEBP", quality=quality, method=6)
        if file.stat().st_size <= LIMIT:
            print(f"{file.name}: {file.stat().st_size:,} bytes, quality {quality}", flush=True)
            return
    raise SystemExit(f"{file} is larger than {LIMIT} bytes")


def now() -> dict[str, str]:
    """What pictures are made of: the version, and the page's scripts and styles."""
    styles = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((STATIC / "css").glob("*.css"))))
    return {"version": __version__, "scripts": packed_sources(), "styles": styles.hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*", help="the model that is shown, then folders of other kinds")
    parser.add_argument("--check", action="store_true", help="only say whether the page has changed since")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--only", help="names of pictures by commas; all if not given")
    options = parser.parse_args()
    if options.check:
        made = json.loads((options.out / MADE).read_text("utf-8"))
        if made != now():
            raise SystemExit("The page has changed since its pictures were made: run `make screenshots tour`.")
        return
    if not options.folders:
        parser.error("name the model that is shown")
    if CHROMIUM is None:
        raise SystemExit("Chromium is not installed; the pictures were not made.")
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = options.only.split(",") if options.only else None
    packs = [folder for folder in options.folders if (folder / "study.html").exists()]
    served = [folder for folder in options.folders if folder not in packs]
    copied = packs[0].with_name(f"{packs[0].name}-shown") if packs else None
    try:
        served += copies(packs[0], copied) if copied else []
        with serve(*served) as base, sync_playwright() as library:
            browser = library.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for shot in shots(base, options.folders[0].name):
                if wanted is None or shot.name in wanted:
                    write(take(browser, base, shot), options.out / f"page-{shot.name}.webp")
            browser.close()
        if wanted is None:
            (options.out / MADE).write_text(json.dumps(now(), indent=1) + "\n", "utf-8")
    finally:
        if copied:
            shutil.rmtree(copied, ignore_errors=True)


if __name__ == "__main__":
    main()
