"""The file in a real browser, opened from a folder: no server, no request, no complaint."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.data.labels.corrections import read_corrections
from conceptlens.runs.folder import RunFolder
from conceptlens.web.schemas.what_if import AskRequest, FlipRequest
from conceptlens.web.server.folders import RunFolders
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.views.what_if import ask, flip
from tests.training.tiny import tiny
from tests.web.browser import CHROMIUM, Open, Watch, flip_verdict, flippable, push_slider, saved, serve, until
from tests.web.share.conftest import SCRIPT, taken_apart
from tests.web.test_page import SAID, TOO_SMALL

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

VIEWS = ("image", "what-if", "training", "concepts")
# What the page's own advice says, of several states and edits.
ADVICE = """async (questions) => {
    const { nextQuestions, smallestFlip } = await import("/static/js/share/advice.js");
    const { api } = await import("/static/js/api.js");
    const [head, run] = await Promise.all([api.head("cells"), api.run("cells")]);
    return questions.map((body) => [
        nextQuestions(head, run.groups, body), smallestFlip(head, run.groups, body),
    ]);
}"""


@pytest.fixture
def visit(chromium: Any) -> Iterator[Open]:
    """Opens a file at an address; at the end it may have complained of nothing and asked for nothing but itself."""
    contexts: list[Any] = []
    watches: list[Watch] = []

    def go(file: Path, address: str = "", *, width: int = 1280, scheme: str = "light") -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        watches.append(Watch(file.as_uri()))
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("dialog", lambda dialog: watches[-1].errors.append(f"dialog: {dialog.message}"))
        watches[-1].attach(page)
        page.goto(file.as_uri() + address)
        page.wait_for_selector("main h1")
        return page

    yield go
    for context in contexts:
        context.close()
    assert [error for watch in watches for error in watch.errors] == []
    assert [url for watch in watches for url in watch.outside] == []


def test_every_view_opens_from_a_file(visit: Open, shared: Path) -> None:
    page = visit(shared)
    page.wait_for_selector(".sums .total")
    assert [each.inner_text() for each in page.locator(".tabs a").all()] == ["Image", "What if", "Training", "Concepts"]
    assert page.locator(".thumb").count() == 8
    assert page.evaluate("[...document.querySelectorAll('.thumb img')].every((each) => each.naturalWidth > 0)")
    assert page.get_by_role("button", name="Open an image file").count() == 0
    for kind in ("Attention", "Grad-CAM", "Index"):
        page.get_by_role("button", name=kind, exact=True).click()
    page.keyboard.press("3")
    page.wait_for_selector(".view-training .charts svg.chart")
    page.keyboard.press("4")
    page.wait_for_selector(".view-concepts .things .thing")
    page.locator(".thing").first.click()
    until(page, "document.querySelectorAll('canvas.crop').length > 0")
    page.get_by_role("button", name="Codebook").click()
    until(page, "document.querySelector('.view-concepts h1').textContent === 'Codebook'")
    page.locator(".share-note summary").click()
    assert "8 of " in page.locator(".share-note").inner_text()


def test_a_slider_gives_what_the_library_gives(visit: Open, run: RunFolder, shared: Path) -> None:
    page = visit(shared, "#/what-if?sliders=1")
    before = push_slider(page)
    until(page, "([old]) => document.querySelector('#shares').innerText !== old", [before])
    assert page.locator("#confirmed").inner_text() == "computed on this page"
    told = json.loads(saved(page, "Before and after"))
    (edit,) = told["edits"]
    expected = api.what_if(run.path, told["image"]["id"], set=[edit])
    found = {each["name"]: each["probability"] for each in told["after"]["classes"]}
    assert found == pytest.approx(expected.after.probabilities, abs=1e-5)
    assert found != pytest.approx(expected.before.probabilities, abs=1e-5)
    assert page.locator("#verdict strong").inner_text() == expected.after.said


@pytest.mark.slow
def test_truth_flip_ask_undo_and_a_link(visit: Open, run: RunFolder, shared: Path) -> None:
    kept = " ".join(taken_apart(shared).answers)
    shown = [row for row in flippable(run.path) if f"/images/test/{row}/prediction" in kept]
    page = visit(shared, f"#/what-if?image=test/{shown[0]}")
    first, target = flip_verdict(page)
    told = json.loads(saved(page, "Before and after"))
    assert target == api.what_if(run.path, told["image"]["id"], set=told["edits"]).after.said != first
    until(page, "location.hash.includes('edits')")
    again = visit(shared, page.evaluate("location.hash"))
    until(again, SAID, ["#verdict strong", target])
    assert again.locator(".whatif .chip").count() == len(told["edits"])
    page.keyboard.press("u")
    until(page, SAID, ["#verdict strong", first])
    page.get_by_role("button", name="Suggest a concept to check").click()
    page.locator(".advice button").first.click()
    until(page, "document.querySelectorAll('.whatif .chips .chip').length === 1")
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Use the labels").click()
    until(page, "document.querySelectorAll('.whatif .chips .chip').length > 1")
    told = json.loads(saved(page, "Before and after"))
    expected = api.what_if(run.path, told["image"]["id"], set=told["edits"])
    found = {each["name"]: each["probability"] for each in told["after"]["classes"]}
    assert found == pytest.approx(expected.after.probabilities, abs=1e-5)


def test_filters_of_images_work_without_a_server(visit: Open, shared: Path) -> None:
    opened = taken_apart(shared)
    images = opened.answers["runs/cells/images"]["body"]
    page = visit(shared, "#/image?show=wrong")
    page.wait_for_selector(".gallery")
    drawn = "[...document.querySelectorAll('.thumb')].map((each) => Number(each.dataset.image.split('/')[1]))"
    until(page, f"({drawn}).length > 0 || document.querySelector('.gallery').innerText.includes('No image matches')")
    assert page.evaluate(drawn) == images["orders"]["wrong"]
    page.locator("#filter-show").select_option("uncertain")
    until(page, f"JSON.stringify({drawn}) === '{json.dumps(images['orders']['uncertain'], separators=(',', ':'))}'")
    name = images["items"][0]["truth"][0]
    page.get_by_label("True class").select_option(name)
    wanted = [item["row"] for item in images["items"] if item["truth"] == [name]]
    until(page, f"({drawn}).length === {len(wanted)}")
    assert sorted(page.evaluate(drawn)) == sorted(wanted)


@pytest.mark.slow
def test_the_page_advises_as_the_server_does(chromium: Any, run: RunFolder) -> None:
    """Questions and flips, of several images, before and after edits, against the library's."""
    (entry,) = RunFolders([run.path]).all()
    loaded = LoadedRun(entry)
    groups = loaded.concepts.groups
    first, other = groups[0], next(group for group in groups if group.kind == "independent")
    lists = [
        [],
        [f"{first.name}={first.values[1]}"],
        [f"{other.name}: {other.values[0]}=yes", f"{first.name}: {first.values[0]}=0.2"],
    ]
    stored = loaded.readout
    states = [
        {
            "bottleneck": stored.bottleneck[row].tolist(),
            "concept_logits": stored.concept_logits[row].tolist(),
            "rest": stored.rest[row].tolist(),
        }
        for row in range(4)
    ]
    questions = [{"state": state, "edits": edits, "most": 50} for state in states for edits in lists]
    with serve(run.path) as base:
        page = chromium.new_page()
        page.goto(base)
        found = page.evaluate(ADVICE, questions)
        page.close()
    flipped = 0
    for question, (asked, turned) in zip(questions, found, strict=True):
        theirs = ask(loaded, AskRequest(**question)).model_dump()
        assert asked["said"] == theirs["said"]
        assert asked["entropy"] == pytest.approx(theirs["entropy"], abs=1e-5)
        assert [each["answers"] for each in asked["ask"]] == [each["answers"] for each in theirs["ask"]]
        for mine, yours in zip(asked["ask"], theirs["ask"], strict=True):
            assert mine["expected_gain"] == pytest.approx(yours["expected_gain"], abs=1e-5)
            assert mine["uncertainty"] == pytest.approx(yours["uncertainty"], abs=1e-5)
        answer = flip(loaded, FlipRequest(state=question["state"], edits=question["edits"])).model_dump()
        assert turned == {name: answer[name] for name in turned}
        flipped += bool(turned["edits"])
    assert flipped > 0


@pytest.mark.slow
def test_corrections_are_taken_home_as_training_reads_them(
    visit: Open, run: RunFolder, shared: Path, tmp_path: Path
) -> None:
    page = visit(shared, "#/what-if")
    group = page.locator(".dial-group select").first
    group.wait_for()
    predicted = group.locator("option").first.inner_text()
    values = [each.get_attribute("value") for each in group.locator("option:not([value='']):not([disabled])").all()]
    value = next(
        each for each in values if each and not predicted.startswith(f"{each} (model")
    )  # else nothing is corrected
    group.select_option(value)
    page.get_by_label("Your name").fill("Dr Who")
    page.get_by_role("button", name="Save 1 correction").click()
    link = page.get_by_role("link", name="corrections.csv")
    link.wait_for()
    with page.expect_download() as waiting:
        link.click()
    file = tmp_path / "corrections.csv"
    file.write_bytes(Path(waiting.value.path()).read_bytes())
    with file.open(newline="", encoding="utf-8") as lines:
        (row,) = csv.DictReader(lines)
    assert (row["rater"], row["after"]) == ("Dr Who", value)
    (read,) = read_corrections(file)
    assert read.concept == page.locator(".dial-group").first.get_attribute("data-group")
    recipe = tiny(tmp_path / "again", training__epochs=1, data__corrections=str(file))
    assert cl.train(recipe, quiet=True).info["status"] == "done"


@pytest.mark.slow
def test_hostile_names_stay_text(visit: Open, hostile: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "a file & its name.html"
    cl.api.share(hostile.path, file, n=4, quiet=True)
    page = visit(file, f"#/what-if?run={quote(hostile.path.name)}")
    page.wait_for_selector("#shares")
    assert SCRIPT in page.locator("#shares").inner_text()
    for view in VIEWS:
        page.evaluate("(view) => { location.hash = `#/${view}`; }", view)
        page.wait_for_selector(f".view-{view} h1")
        page.wait_for_timeout(200)
        assert page.locator("main script, main b b, main u").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(visit: Open, shared: Path, scheme: str) -> None:
    page = visit(shared, width=390, scheme=scheme)
    for view in VIEWS:
        page.evaluate("(view) => { location.hash = `#/${view}`; }", view)
        page.wait_for_selector(f".view-{view} .card")
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{view} is {wide} pixels wide"
        assert page.evaluate(TOO_SMALL) == [], view


def test_a_link_to_a_view_that_is_not_there_leads_nowhere(visit: Open, run: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "image.html"
    cl.api.share(run.path, file, views=["image"], n=2, quiet=True)
    page = visit(file)
    page.wait_for_selector(".sums .total")
    link = page.get_by_role("link", name="Ask “what if”")
    link.click()
    assert "not in this file" in link.get_attribute("title")
    assert page.evaluate("location.hash").startswith("#/image")


def test_an_image_that_is_not_there_is_said_to_be_missing(visit: Open, shared: Path) -> None:
    page = visit(shared, "#/image?image=test/99999")
    page.wait_for_selector(".story [role=alert]")
    assert "not in this file" in page.locator(".story").inner_text()
