"""The data set, the table of runs and jobs, driven in a real browser."""

import csv
import json
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conceptlens import api
from conceptlens.core.files import read_json, write_json
from tests import ROOT
from tests.web.browser import CHROMIUM, Open, serve_inside, until, visits
from tests.web.conftest import World
from tests.web.decomposition import draw_graph, write_decomposition

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
NODE = shutil.which("node")
browser = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
COUNT = "(words) => document.querySelector('.dataset [role=status].note').textContent.startsWith(words)"


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_pure_modules_of_the_page() -> None:
    words = [str(NODE), "--test", *map(str, sorted((ROOT / "tests" / "web" / "client").glob("*.test.mjs")))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture(scope="module")
def runs(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that may be changed, and a drawn graph."""
    folder = tmp_path_factory.mktemp("views") / "runs"
    for name in ("first", "second"):
        shutil.copytree(world.slots, folder / name)
    write_decomposition(folder / "graph", {"graph.json": draw_graph()})
    return folder


@pytest.fixture(scope="module")
def base(runs: Path) -> Iterator[str]:
    jobs = {"interventions": api.interventions, "train": api.train}
    with serve_inside(runs, jobs=jobs, allow_jobs=True) as address:
        yield address


def images_of(page: Any) -> int:
    """How many images are shown, once they are."""
    until(page, "() => /^\\d+ image/.test(document.querySelector('.dataset [role=status].note').textContent)")
    return int(page.locator(".dataset [role=status].note").first.inner_text().split()[0])


def choose(page: Any, label: str, value: str) -> None:
    page.locator("label.field", has_text=label).locator("select").first.select_option(value)


@browser
def test_a_filter_and_a_cell_of_the_confusion_matrix_show_their_images(visit: Open) -> None:
    page = visit("#/dataset?run=first")
    total = images_of(page)
    choose(page, "Show", "wrong")
    until(
        page, f"() => document.querySelector('.dataset [role=status].note').textContent.includes('of {total} images')"
    )
    choose(page, "Show", "")
    until(page, "() => !location.hash.includes('error=')")
    until(page, "() => document.querySelectorAll('.confusion button').length > 0")
    cell = page.locator(".confusion button").first
    number = cell.inner_text()
    cell.click()
    until(page, COUNT, f"{number} image")
    until(page, "() => location.hash.includes('truth=') && location.hash.includes('guess=')")


@browser
@pytest.mark.slow
def test_a_map_a_lasso_neighbors_and_a_correction(visit: Open, runs: Path) -> None:
    page = visit("#/dataset?run=first&layout=map&color=right+or+wrong")
    total = images_of(page)
    page.get_by_role("button", name="Lasso").click()
    box = page.locator(".dataset-canvas").bounding_box()
    corners = [(2, 2), (box["width"] - 2, 2), (box["width"] - 2, box["height"] - 2), (2, box["height"] - 2), (2, 3)]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    for x, y in corners:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=4)
    page.mouse.up()
    page.get_by_role("button", name=f"{total} images chosen").click()
    page.locator(".dataset-canvas").focus()
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    page.wait_for_selector(".image-sheet .thumbs .thumb")
    assert page.locator(".image-sheet h2 a").get_attribute("href").startswith("#/image?run=first&image=test%2F")
    page.locator(".correct summary").click()
    select = page.locator(".correct-fields select").first
    before = select.input_value()
    other = next(value for value in select.locator("option").all_inner_texts() if value.split(" (")[0] != before)
    select.select_option(other.split(" (")[0])
    page.locator(".correct input").fill("Ann")
    page.get_by_role("button", name="Save corrections").click()
    page.wait_for_selector(".correct [role=status]:has-text('Saved in')")
    with (runs / "first" / "corrections.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["concept"], row["before"], row["after"]) == ("class", before, other.split(" (")[0])


@browser
@pytest.mark.slow
def test_the_model_reads_the_images_and_a_tag_is_kept(visit: Open, runs: Path) -> None:
    page = visit("#/dataset?run=second")
    total = images_of(page)
    page.get_by_role("button", name=f"Read {total} images").click()
    page.wait_for_selector(".reading", state="detached")
    page.goto(page.url.split("#")[0] + "#/dataset?run=second&layout=map&map=tokens-pca&image=test/3")
    page.get_by_role("button", name="by tokens").click()
    page.wait_for_selector(".image-sheet .thumbs .thumb")
    page.get_by_text("Tag the images shown").click()
    page.locator("input[aria-label=Tag]").fill("odd ones")
    page.locator("details:has(input[aria-label=Tag]) input[aria-label='Your name']").fill("Ann")
    page.get_by_role("button", name="Tag them").click()
    page.get_by_text(f"{total} images tagged").wait_for()
    line = json.loads((runs / "second" / "annotations.jsonl").read_text("utf-8"))
    assert (line["kind"], line["group"], len(line["of"])) == ("image", "odd ones", total)


@browser
@pytest.mark.slow
def test_of_two_near_duplicates_either_label_is_corrected(visit: Open, runs: Path, base: str) -> None:
    """The drawn shapes have none, so the list is given; what the buttons do is the server's."""
    run = "near-duplicates"
    shutil.copytree(runs / "first", runs / run)
    (runs / run / "corrections.csv").unlink(missing_ok=True)
    classes = {row["truth"][0]: row["row"] for row in listed(base, run, "all")}
    (one, first), (other, second) = list(classes.items())[:2]
    suspect = {"row": first, "of": "class", "label": one, "instead": other, "score": 0.99, "why": "duplicate"}
    answer = {"schema": 1, "split": "test", "total": 1, "suspects": [suspect | {"other": second}]}
    page = visit("#/runs")
    page.route("**/suspects", lambda route: route.fulfill(json=answer))
    page.goto(page.url.split("#")[0] + f"#/dataset?run={run}")
    entry = page.locator(".suspects li")
    entry.wait_for()
    assert entry.locator(".thumb").count() == 2
    entry.get_by_role("button", name=f"Correct the other to {one}").click()
    entry.get_by_text("Enter your name above first.").wait_for()
    page.get_by_role("region", name="Likely label errors").locator("input").fill("Ann")
    for button in (f"Correct the other to {one}", f"Correct this one to {other}"):
        entry.get_by_role("button", name=button).click()
        entry.get_by_role("button", name=button, disabled=True).wait_for()
        entry.locator("[role=status]", has_text="Saved in").wait_for()
    page.locator("[role=status]", has_text="2 in all").first.wait_for()
    with (runs / run / "corrections.csv").open(newline="") as file:
        assert [(row["before"], row["after"]) for row in csv.DictReader(file)] == [(other, one), (one, other)]
    shutil.rmtree(runs / run)


def listed(base: str, run: str, show: str) -> list[dict[str, Any]]:
    """The images of a filter, as the server lists them."""
    with urllib.request.urlopen(f"{base}/api/v1/runs/{run}/images?split=test&show={show}&page=0&size=48") as answer:
        items: list[dict[str, Any]] = json.load(answer)["items"]
    return items


@browser
@pytest.mark.slow
def test_a_map_that_takes_long_says_so_and_is_made_once(visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """UMAP is an extra that may be missing: its place is taken by one that waits until it is told."""
    go_on, made = threading.Event(), []

    class Slow:
        def __init__(self, **options: Any) -> None:
            made.append(options)

        def fit_transform(self, vectors: Any) -> Any:
            assert go_on.wait(60)
            return vectors[:, :2]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Slow))
    for turn in (1, 2):
        page = visit("#/dataset?run=first&layout=map&map=concepts-umap&color=class")
        line = page.locator(".dataset p.note[role=status]").first
        if turn == 1:
            line.get_by_text("Computing the map").wait_for()
            page.locator("button", has_text="Grid").click()  # what was chosen since is not drawn over
            assert images_of(page) > 0
            go_on.set()
            page.locator("button", has_text="Map").first.click()
        assert images_of(page) > 0
    assert len(made) == 1


@browser
@pytest.mark.slow
def test_thumbnails_are_those_of_the_filter_even_where_an_earlier_answer_is_late(visit: Open, base: str) -> None:
    page = visit("#/image?run=first&image=test/1")
    page.wait_for_selector(".thumb")
    held: list[Any] = []
    page.route("**/images?*show=wrong*", lambda route: held.append(route))
    choose(page, "Show", "wrong")
    while not held:
        page.wait_for_timeout(20)
    choose(page, "Show", "right")
    right = [f"test/{item['row']}" for item in listed(base, "first", "right")]
    shown = "() => [...document.querySelectorAll('.thumb')].map((each) => each.dataset.image)"
    until(page, f"(expected) => JSON.stringify(({shown})()) === JSON.stringify(expected)", right)
    held[0].continue_()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(300)
    assert page.evaluate(shown) == right
    page.reload()
    page.wait_for_selector(".thumb")
    assert page.evaluate(shown) == right, "the address keeps the filter"


@browser
@pytest.mark.slow
def test_a_copied_run_keeps_its_date_and_one_without_a_manifest_has_none(visit: Open, runs: Path) -> None:
    for name in ("copied", "undated"):
        shutil.copytree(runs / "first", runs / name)
        for path in (runs / name).rglob("*"):
            os.utime(path, (1e9, 1e9))  # 2001
    (runs / "undated" / "manifest.jsonl").unlink()
    try:
        page = visit("#/table")
        page.locator(".runs-table th", has_text="undated").wait_for()
        dates = {
            row.locator("th").inner_text(): row.locator("td").nth(6).inner_text()
            for row in page.locator(".runs-table tbody tr").all()
        }
        assert dates["copied"] == dates["first"] != "–"
        assert dates["undated"] == "–"
    finally:
        for name in ("copied", "undated"):
            shutil.rmtree(runs / name)


@browser
@pytest.mark.slow
def test_the_table_sorts_groups_compares_and_outlives_a_failed_request(visit: Open) -> None:
    page = visit("#/table?pick=first,second")
    page.wait_for_selector(".runs-table tbody tr:nth-child(2)")
    page.get_by_role("button", name="Name", exact=True).click()
    assert page.locator(".runs-table tbody th").all_inner_texts() == ["second", "first"]
    page.get_by_role("button", name="Test which is best").click()
    page.get_by_text("does not differ significantly").wait_for()
    assert page.locator("svg[role=img] path.line").count() == 2
    choose(page, "Group by", "method")
    assert page.locator("tr.group").count() == 1
    page.get_by_label("Filter runs").fill("seed>5")
    page.get_by_text("No run matches").wait_for()
    page.route("**/api/v1/table", lambda route: route.abort())
    page.locator(".notice", has_text="Trying again").wait_for()
    page.unroute("**/api/v1/table")
    page.locator(".notice").wait_for(state="hidden")  # it went on asking
    page.get_by_label("Filter runs").fill("")
    page.get_by_role("button", name="Tag and note of first").click()
    page.locator("dialog input[aria-label=Tag]").fill("keep")
    page.locator("dialog input[aria-label='Your name']").fill("Ann")
    page.locator("dialog").get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Tag and note of first").get_by_text("keep").wait_for()


@browser
@pytest.mark.slow
def test_training_and_runs_go_on_after_a_failed_request(visit: Open, runs: Path) -> None:
    """A run is being trained: each view tells that the server is away, and then what is new."""
    going = runs / "going"
    shutil.copytree(runs / "first", going)
    write_json(going / "run.json", read_json(going / "run.json") | {"status": "running"})
    try:
        page = visit("#/training?run=going")
        page.locator(".tag.live", has_text="training now").wait_for()
        page.route("**/history*", lambda route: route.abort())
        page.locator(".tag", has_text="Trying again").wait_for()
        page.unroute("**/history*")
        until(page, "!document.querySelector('.tag.away')")
        cards = visit("#/runs")
        cards.locator("article", has_text="going").locator(".tag.live").wait_for()
        cards.route("**/api/v1/runs", lambda route: route.abort())
        cards.wait_for_timeout(4000)  # two looks fail
        cards.unroute("**/api/v1/runs")
        write_json(going / "run.json", read_json(going / "run.json") | {"status": "done"})
        page.locator("[role=status] .tag", has_text="done").wait_for()
        cards.locator("article", has_text="going").locator(".tag.live").wait_for(state="detached")
    finally:
        shutil.rmtree(going)


@browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("address", "first"),
    [
        ("image?run=first", ["/runs/first", "/head", "/images?", "/test/0/prediction?gradcam=auto"]),
        ("what-if?run=first&image=val/1", ["/runs/first", "/head", "/images?", "/val/1/prediction?gradcam=none"]),
        ("table", ["/api/v1/table"]),
        ("jobs", ["/api/v1/jobs"]),
    ],
)
def test_a_view_asks_for_what_it_shows_first_at_once_and_once(
    base: str, chromium: Any, address: str, first: list[str]
) -> None:
    """Nothing waits for the list of folders, which is held back here; a busy machine shows what is asked in turn."""
    page = chromium.new_page()
    asked: list[str] = []
    held: list[Any] = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/api/v1/runs", lambda route: held.append(route))
    page.goto(f"{base}/#/{address}")

    def times() -> list[int]:
        return [sum(url.endswith(part) or (part.endswith("?") and part in url) for url in asked) for part in first]

    for _ in range(200):
        if held and all(times()):
            break
        page.wait_for_timeout(50)
    assert times() == [1] * len(first)
    held[0].continue_()
    page.wait_for_selector("main h1")
    page.wait_for_selector("main p.empty[role=status]", state="detached")
    assert times() == [1] * len(first), "an answer that was there is used"
    page.close()


@browser
@pytest.mark.slow
def test_a_browser_that_was_there_asks_for_no_file_of_the_page_again(base: str, chromium: Any) -> None:
    context = chromium.new_context()
    moved = """performance.getEntriesByType("resource")
        .filter((each) => each.name.includes("/static/") && each.transferSize > 0).length"""
    counts = []
    for _ in range(2):
        page = context.new_page()
        page.goto(f"{base}/#/table")
        page.wait_for_selector(".runs-table tbody tr")
        counts.append(page.evaluate(moved))
        page.close()
    context.close()
    assert counts[0] > 30
    assert counts[1] == 0


@browser
@pytest.mark.slow
def test_a_job_is_started_and_its_log_is_read(visit: Open, runs: Path) -> None:
    page = visit("#/trust?run=second")
    page.locator("main .trust-cards a[href*='command=interventions']", has_text="Start it here").click()
    page.get_by_text("Options of interventions").click()
    page.get_by_label("resamples").fill("10")
    page.locator(".card code", has_text="--resamples=10").wait_for()
    page.get_by_role("button", name="Add to the queue").click()
    page.locator(".job .tag", has_text="done").wait_for(timeout=120_000)
    page.locator(".job summary").click()
    page.locator(".job .log", has_text="accuracy").wait_for()
    assert (runs / "second" / "trust" / "interventions.json").exists()
    choose(page, "Command", "train")
    page.get_by_label("Name of the new run").fill("third")
    page.get_by_text("Settings of the recipe").click()
    page.get_by_label("training.epochs").fill("3")
    page.get_by_label("training.schedule", exact=True).select_option("cosine")
    page.get_by_label("others, one per line").fill("regularizer.weight = 0.5")
    line = page.locator(".card code", has_text="--training.schedule=cosine")
    line.wait_for()
    assert line.inner_text().endswith(f"--out={runs / 'third'}")
    assert "--training.epochs=3 --training.schedule=cosine --regularizer.weight=0.5" in line.inner_text()


@browser
@pytest.mark.slow
def test_a_node_is_named(visit: Open) -> None:
    page = visit("#/graph?run=graph&node=layer1/0")
    page.locator(".annotate summary").click()
    page.get_by_role("button", name="Propose names from its pictures").click()
    proposal = page.locator(".annotate .chips .chip").first
    proposal.click()
    name = page.locator(".annotate input[aria-label=Name]")
    assert name.input_value() == proposal.inner_text() != ""
    name.fill("wing")
    page.locator(".annotate input[aria-label='Your name']").fill("Ann")
    page.locator(".annotate").get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Reload to show it everywhere").click()
    page.locator("h2", has_text="layer1 · wing").wait_for()


@browser
@pytest.mark.slow
def test_no_view_is_wider_than_a_small_phone(base: str, chromium: Any) -> None:
    with visits(base, chromium) as go:
        for address in (
            "runs?compare=first,second", "image?run=first&image=test/1", "what-if?run=first&image=test/1",
            "training?run=first", "concepts?run=first", "trust?run=first", "dataset?run=first&image=test/1",
            "graph?run=graph", "table?pick=first", "jobs?command=train", "methods",
        ):  # fmt: skip
            page = go(f"#/{address}", width=320)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(800)
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, address
