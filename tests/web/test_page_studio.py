"""The codebook studio in a real browser: look, hide, edit, undo, bias; by mouse and by keys."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.web.browser import CHROMIUM, Open, saved, until
from tests.web.studio_world import make_studies, without_model

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

PIXELS = "document.querySelector('.token-grid canvas').toDataURL()"
UNNAMED = """() => [...document.querySelectorAll("main :is(button, a, input, select, [role=application])")]
    .filter((each) => each.getAttribute("aria-hidden") !== "true")
    .filter((each) => !each.getAttribute("aria-label") && !each.textContent.trim() && !each.labels?.length)
    .map((each) => each.outerHTML.slice(0, 120))"""

TWICE = """async (tokens) => {
    const { studio } = await import("/static/js/studio.js");
    const body = { tokens, cells: tokens.flat().map((_, cell) => cell), target: "round", steps: 500 };
    const stop = new AbortController();
    let began;
    const first = new Promise((resolve) => { began = resolve; });
    const running = studio.edit("shapes", body, () => began(), stop.signal).catch((error) => error.name);
    await first;
    const refused = (error) => [error.status, error.message];
    const second = await studio.edit("shapes", body, () => {}, stop.signal).catch(refused);
    stop.abort();
    return [second, await running];
}"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("studio")
    folder = make_studies(root)
    without_model(folder, folder)
    return folder


def ready(page: Any) -> None:
    page.wait_for_selector(".token-grid")
    until(page, "document.querySelector('.studio .caption').textContent.startsWith('The brighter')")
    page.wait_for_timeout(100)


def cell(page: Any, row: int, column: int) -> tuple[float, float]:
    box = page.locator(".token-grid").bounding_box()
    return box["x"] + (column + 0.5) * box["width"] / 8, box["y"] + (row + 0.5) * box["height"] / 8


@pytest.mark.slow
def test_a_token_and_what_is_known_of_it(visit: Open, runs: Path) -> None:
    page = visit("#/studio?run=shapes")
    ready(page)
    page.mouse.move(*cell(page, 2, 3))
    grids = json.loads((runs / "shapes/codebook/grids.json").read_text("utf-8"))
    first = grids["images"][0]
    token = first["tokens"][2][3]
    facts = page.locator(".token-facts").inner_text()
    assert f"Token {token}" in facts
    assert "row 3, column 4" in facts
    level = next(each for each in first["heat"] if each["concept"] == first["concept"])["levels"][2 * 8 + 3]
    assert f"{abs(level) / 255:.0%} of the largest" in facts
    near, _ = grids["near"][str(token)][0]
    assert page.locator(".token-facts .chip").first.inner_text() == str(near)
    sets = json.loads((runs / "shapes/codebook/tokens.json").read_text("utf-8"))["sets"]
    holding = [each for each in sets if token in each["tokens"]]
    assert page.locator(".token-facts .shares li").count() == len(holding)
    page.mouse.click(*cell(page, 2, 3))
    until(page, "location.hash.includes('pin=19')")
    before = page.evaluate(PIXELS)
    page.get_by_label("Opacity of the importance").fill("0.1")
    assert page.evaluate(PIXELS) != before
    assert "<b>long</b>" in page.get_by_label("Concept whose importance is shown").inner_text()
    assert page.evaluate(UNNAMED) == []


@pytest.mark.slow
def test_hidden_tokens_change_picture_and_probability(visit: Open) -> None:
    page = visit("#/studio?run=shapes&mode=mask")
    ready(page)
    page.mouse.move(*cell(page, 1, 1))
    page.mouse.down()
    page.mouse.move(*cell(page, 1, 2))
    page.mouse.move(*cell(page, 1, 3))
    page.mouse.up()
    page.wait_for_selector("#masked-words")
    assert page.locator("#masked-words").inner_text().startswith("3 places hidden")
    until(page, "location.hash.includes('cells=9%2C10%2C11')")
    page.get_by_role("button", name="All with these ids").click()
    until(page, "!document.querySelector('#masked-words').textContent.startsWith('3 places')")
    again = visit(page.url.split("/", 3)[3])
    again.wait_for_selector("#masked-words")
    assert again.locator("#masked-words").inner_text() == page.locator("#masked-words").inner_text()
    page.get_by_role("button", name="The 5 most important").click()
    until(page, "document.querySelector('.mask-panel [role=status]').textContent.startsWith('5 tokens')")
    page.get_by_role("button", name="Clear").click()
    assert page.locator("#masked-words").count() == 0


@pytest.mark.slow
def test_a_region_is_drawn_edited_and_undone_by_keys_alone(visit: Open) -> None:
    page = visit("#/studio?run=shapes&target=square&steps=20")
    ready(page)
    page.keyboard.press("m")
    page.keyboard.press("m")
    page.wait_for_selector(".edit-panel")
    before = page.evaluate(PIXELS)
    page.locator(".token-grid").focus()
    page.keyboard.press("ArrowRight")
    for key in ("ArrowLeft", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowDown"):
        page.keyboard.press(key)
    until(page, "location.hash.includes('region=4%3A6%2C3%3A6')")
    assert "rows 5 to 6, columns 4 to 6 (6 tokens)" in page.locator(".edit-panel").inner_text()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent === 'Edit the region'"):
            break
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#edit-line').textContent.includes('by the extractor')")
    words = page.locator("#edit-line").inner_text()
    assert "of 6 tokens of the region changed" in words
    assert page.locator(".edit-strip li").count() == 8  # before, six on the way, after
    assert page.locator("#edit-path figure").count() == 1
    until(page, f"{PIXELS} !== `{before}`")
    told = json.loads(saved(page, "Everything shown"))
    assert told["edits"] == 1
    assert len(told["edit"]["path"]) == 20
    assert saved(page, "Path of the edit").startswith(b"<svg")
    page.locator("h1").focus()
    page.keyboard.press("u")
    until(page, f"{PIXELS} === `{before}`")
    assert page.get_by_role("button", name="Undo").is_disabled()


@pytest.mark.slow
def test_an_edit_can_be_cancelled_and_another_begun(visit: Open) -> None:
    page = visit("#/studio?run=shapes&mode=region&region=0:8,0:8&steps=500&target=round")
    ready(page)
    page.get_by_role("button", name="Edit the region").click()
    until(page, "document.querySelector('#edit-line').textContent.startsWith('Step')")
    page.get_by_role("button", name="Cancel").click()
    until(page, "document.querySelector('#edit-line').textContent.startsWith('Cancelled')")
    page.get_by_label("Budget of steps").fill("10")
    page.wait_for_timeout(500)
    page.get_by_role("button", name="Edit the region").click()
    until(page, "document.querySelector('#edit-line').textContent.includes('by the extractor')")


@pytest.mark.slow
def test_a_finger_draws_a_region(visit: Open) -> None:
    page = visit("#/studio?run=shapes&mode=region", width=390, touch=True)
    ready(page)
    page.locator(".token-grid").scroll_into_view_if_needed()
    drag = """([from, to]) => {
        const grid = document.querySelector(".token-grid");
        const send = (type, [x, y]) => grid.dispatchEvent(new PointerEvent(type, {
            clientX: x, clientY: y, pointerId: 1, pointerType: "touch", bubbles: true, cancelable: true }));
        grid.setPointerCapture = () => {};
        send("pointerdown", from); send("pointermove", to); send("pointerup", to);
    }"""
    page.evaluate(drag, [cell(page, 1, 1), cell(page, 3, 4)])
    until(page, "location.hash.includes('region=1%3A4%2C1%3A5')")
    assert page.evaluate("getComputedStyle(document.querySelector('.token-grid')).touchAction") == "none"


@pytest.mark.slow
def test_an_image_is_generated_and_a_file_opened(visit: Open, runs: Path) -> None:
    page = visit("#/studio?run=shapes")
    ready(page)
    before = page.evaluate(PIXELS)
    page.get_by_label("Seed").first.fill("7")
    page.get_by_role("button", name="Generate").click()
    until(page, "location.hash.includes('image=made%3A7%3Around')")
    until(page, f"{PIXELS} !== `{before}`")
    ready(page)
    again = visit(page.url.split("/", 3)[3])
    ready(again)
    assert again.evaluate(PIXELS) == page.evaluate(PIXELS)
    file = next((runs / "shapes/codebook/grids").glob("*.png"))
    page.locator("#studio-file").set_input_files(file)
    until(page, "document.querySelector('.token-grid').getAttribute('aria-label').startsWith('a file')")


@pytest.mark.slow
def test_bias_stands_beside_its_null(visit: Open, runs: Path) -> None:
    page = visit("#/studio?run=sizes")
    page.wait_for_selector(".bias-panel svg")
    bias = json.loads((runs / "sizes/codebook/bias.json").read_text("utf-8"))
    pair = bias["tables"][0]["pairs"][0]
    row = page.locator(".bias-table tbody tr").first.inner_text()
    shown = [float(cell.split(" ")[0].replace("−", "-")) for cell in row.split("\t") if cell[:1] in "+−"]
    assert shown == pytest.approx([pair["delta"]["value"], pair["null"]["value"]], abs=0.00051)  # halves: either way
    assert pair["delta"]["words"] in row
    assert ("no bias found" in row) == (not pair["found"])
    assert page.locator(".deltas .shuffled").count() >= 1
    page.get_by_role("button", name="top 6").click()
    until(page, "location.hash.includes('n=6')")
    assert "No images were written yet" in page.locator(".view-studio").inner_text()
    assert saved(page, "Bias (SVG)").startswith(b"<svg")


@pytest.mark.slow
def test_without_its_model_what_was_written_is_shown(visit: Open) -> None:
    page = visit("#/studio?run=alone&mode=region")
    ready(page)
    assert "not there any more" in page.locator("#no-model").inner_text()
    assert page.locator(".edit-panel").count() == 0
    assert page.get_by_role("button", name="Generate").count() == 0
    assert page.locator(".token-set li").count() > 0


@pytest.mark.slow
def test_a_second_edit_at_once_is_refused_in_words(visit: Open, runs: Path) -> None:
    page = visit("#/studio?run=shapes")
    ready(page)
    tokens = json.loads((runs / "shapes/codebook/grids.json").read_text("utf-8"))["images"][0]["tokens"]
    (status, words), first = page.evaluate(TWICE, tokens)
    assert status == 429
    assert "still running" in words
    assert first == "AbortError"


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(visit: Open, scheme: str) -> None:
    for address in ("#/studio?run=shapes&mode=region&region=1:4,1:4", "#/studio?run=sizes"):
        page = visit(address, width=390, scheme=scheme)
        page.wait_for_selector(".studio-more .card")
        page.wait_for_timeout(400)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        small = """[...document.querySelectorAll("main button")]
            .filter((each) => each.offsetParent && each.getBoundingClientRect().height < 24)
            .map((each) => each.textContent)"""
        assert page.evaluate(small) == []


@pytest.mark.slow
def test_a_token_that_was_named_is_called_so(visit: Open, runs: Path) -> None:
    sets = json.loads((runs / "shapes/codebook/tokens.json").read_text("utf-8"))["sets"]
    first = json.loads((runs / "shapes/codebook/grids.json").read_text("utf-8"))["images"][0]
    tokens = [token for line in first["tokens"] for token in line]
    place, holder = next((at, each) for each in sets for at, token in enumerate(tokens) if token in each["tokens"][:40])
    row, column = divmod(place, 8)
    page = visit(f"#/studio?run=shapes&set={quote(holder['concept'])}")
    ready(page)
    page.mouse.click(*cell(page, row, column))
    page.locator(".token-facts summary", has_text="Name it").click()
    page.get_by_label("Name", exact=True).fill("corner")
    page.get_by_label("Your name").first.fill("Ann")
    page.locator(".token-facts").get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Reload to show it everywhere").click()
    try:
        called = f"{tokens[place]} “corner”"
        page.locator(".set-token .id", has_text=called).wait_for()
        ready(page)
        page.mouse.move(*cell(page, row, column))
        page.locator(".token-facts .token-name", has_text=f"Token {called}").wait_for()
    finally:
        (runs / "shapes" / "annotations.jsonl").unlink()
