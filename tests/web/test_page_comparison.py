"""Comparisons, methods and folders of other kinds in a real browser: the page shows what the files say."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conceptlens.core.files import read_json, write_json
from conceptlens.web.views.method_cards import method_cards
from tests.web.browser import CHROMIUM, Open, saved, until
from tests.web.comparisons import make_comparison

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

TABS = "[...document.querySelectorAll('#tabs a')].map((each) => each.textContent)"
WIDE = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
UNNAMED = """() => [...document.querySelectorAll("main :is(button, a, input, select, summary, [role=img])")]
    .filter((each) => !each.getAttribute("aria-label") && !each.textContent.trim() && !each.labels?.length)
    .map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with its trainings, a decomposition, a study's pack, and a folder of a kind that nobody knows."""
    root = tmp_path_factory.mktemp("kinds")
    make_comparison(root)
    early = read_json(root / "compared" / "run.json") | {"status": "running"}
    write_json(root / "early" / "run.json", early)
    common = {"status": "done", "data": {"name": "photos"}}
    write_json(root / "apart" / "run.json", common | {"kind": "decompose", "model": {"name": "resnet18"}})
    write_json(root / "odd" / "run.json", common | {"kind": "dream"})
    return root


@pytest.fixture
def look() -> dict[str, str]:
    """A page that waits a tenth of the time before it asks again."""
    return {
        "script": "const later = setTimeout; setTimeout = (call, wait, ...more) => later(call, wait / 10, ...more);"
    }


@pytest.fixture(scope="module")
def found(runs: Path) -> dict[str, Any]:
    results: dict[str, Any] = read_json(runs / "compared" / "results.json")
    return results


def test_a_comparison_is_shown_anew_while_it_trains(visit: Open, runs: Path) -> None:
    """First nothing is there, then a part of the table, then all of it; who chose a plot keeps it."""
    growing, whole = runs / "growing", read_json(runs / "compared" / "results.json")
    shutil.copytree(runs / "compared", growing)
    (growing / "results.json").unlink()
    write_json(growing / "run.json", read_json(growing / "run.json") | {"status": "running"})
    try:
        page = visit("#/compare?run=growing")
        page.locator("main h2", has_text="No table yet").wait_for()
        write_json(growing / "results.json", whole | {"data": whole["data"][:1]})
        page.wait_for_selector("main .block table")
        assert page.locator("main section.card[aria-label]").filter(has=page.locator(".block")).count() == 1
        chosen = page.locator("main .filters select").last
        key = chosen.locator("option").nth(1).get_attribute("value")
        chosen.select_option(key)
        chosen.focus()
        write_json(growing / "results.json", whole)
        until(page, "document.querySelectorAll('main section.card:has(.block)').length === 2")
        assert page.locator("main .filters select").last.input_value() == key
        assert page.evaluate("document.activeElement.tagName") == "SELECT"
    finally:
        shutil.rmtree(growing)


def test_the_table_is_what_the_file_says(visit: Open, found: dict[str, Any]) -> None:
    page = visit("#/compare?run=compared")
    sets = page.locator("main section.card")
    assert sets.count() == 2
    assert "62.5%" in sets.first.locator(".zero-shot").inner_text()
    assert sets.nth(1).locator(".zero-shot").count() == 0
    for place, data in enumerate(found["data"]):
        blocks = sets.nth(place).locator(".block")
        assert blocks.count() == len(data["blocks"])
        for number, block in enumerate(data["blocks"]):
            rows = blocks.nth(number).locator("table").first.locator("tbody tr")
            assert rows.count() == len(block["rows"])
            heads = blocks.nth(number).locator("table").first.locator("thead th").all_inner_texts()
            column = heads.index("Balanced acc.") - 1  # the name is no td
            for line, row in enumerate(block["rows"]):
                text = rows.nth(line).inner_text()
                cell = rows.nth(line).locator("td").nth(column)
                measured = row["measures"]["class.balanced_accuracy"]
                mean, low, high = (f"{100 * value:.1f}" for value in (measured["mean"], *measured["interval"]))
                shown = cell.inner_text().replace("(best of its block)", "").split()
                assert shown == [mean, low, "to", high]
                best = block["best"]["class.balanced_accuracy"] == row["name"]
                assert ("best" in cell.get_attribute("class")) == best
                assert block["verdicts"].get(row["name"], "–") in text
                assert ("↳" in text) == bool(row["control_of"])
                assert ("bypass: a residual" in text) == (row["name"] == "poor")
                assert rows.nth(line).locator(".trainings a").count() == 2
    ticks = page.locator("[data-plot='text-intervals'] .tick text").first.locator("xpath=../..").all_text_contents()
    assert ticks[0].endswith("100%")  # shares end there, though the interval does nearly as well
    assert page.evaluate(UNNAMED) == []


@pytest.mark.slow
def test_filters_cut_table_plots_and_downloads(visit: Open, base: str, found: dict[str, Any]) -> None:
    page = visit("#/compare?run=compared")
    page.get_by_label("Data set").select_option("fewer shapes")
    page.get_by_label("Supervision").select_option("image-labels")
    page.get_by_label("Plot and tests").select_option("concept.auc")
    page.get_by_label("Rows with random text").uncheck()
    until(page, "location.hash.includes('controls=0')")
    cut = page.locator("main section.card").inner_text()
    assert page.locator("[data-block]").count() == 1
    assert "random text)" not in cut
    assert page.locator("[data-plot='image-labels-intervals'] circle").count() == 2
    asked = "data=fewer+shapes&supervision=image-labels"
    table = saved(page, "Table (Markdown)").decode()
    assert table == page.request.get(f"{base}/api/v1/runs/compared/comparison/table.md?{asked}").text()
    assert "fewer shapes" in table
    assert "Text only" not in table
    assert b"\\begin{tabular}" in saved(page, "Table (LaTeX)")
    whole = json.loads(saved(page, "Everything (JSON)"))
    assert [data["name"] for data in whole["data"]] == [data["name"] for data in found["data"]]
    again = visit(page.url.split("/", 3)[3])
    again.wait_for_selector("[data-block]")
    assert again.locator("main section.card").inner_text() == cut
    again.get_by_text("The tests:").click()
    (pair,) = [each for each in found["data"][1]["blocks"][1]["comparisons"] if each["measure"] == "concept.auc"]
    assert f"{100 * pair['difference']:.1f}".replace("-", "−") in again.locator(".pairs").inner_text()


@pytest.mark.slow
def test_plots_are_drawn_from_the_numbers(visit: Open, found: dict[str, Any]) -> None:
    page = visit("#/compare?run=compared&data=shapes&by=concept.auc")
    rows = [row for block in found["data"][0]["blocks"] for row in block["rows"]]
    plane = page.locator("[data-plot='effective-concepts'] svg.plane")
    assert plane.locator(".marker, .hollow").count() == len(rows)
    told = plane.get_attribute("aria-label")
    for row in rows:
        assert f"{row['name']}: {100 * row['measures']['concept.auc']['mean']:.1f}% with 1.50" in told
    ranks = page.locator("[data-plot='rank-effective'] svg.chart").first
    assert ranks.locator("path.line").count() == len(rows)
    intervals = page.locator("[data-plot='text-intervals'] svg")
    assert "before any training: 62.5%" in intervals.get_attribute("aria-label")
    menu = "main section.card summary"
    svg = saved(page, "Effective rank by epoch (SVG)", menu).decode()
    assert svg.startswith("<svg")
    assert "var(--" not in svg
    assert saved(page, "against effective concepts (PNG)", menu).startswith(b"\x89PNG")


def test_folders_of_every_kind_are_cards_with_their_views(visit: Open) -> None:
    page = visit("#/runs")
    names = page.locator(".run-card h2").all_inner_texts()
    assert sorted(names) == ["apart", "compared", "early", "odd"]  # trainings of a comparison wait until asked for
    odd = page.locator(".run-card", has_text="odd").last
    assert "'dream'" in odd.inner_text()
    page.get_by_role("button", name="Decompositions").click()
    until(page, "document.querySelectorAll('.run-card').length === 1")
    assert "resnet18, decomposed" in page.locator(".run-card").inner_text()
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_role("button", name="Its 16 trainings").click()
    until(page, "document.querySelectorAll('.run-card').length === 16 && location.hash.includes('of=compared')")
    page.get_by_role("button", name="Trainings of compared").click()
    page.get_by_role("link", name="compared", exact=True).click()
    page.wait_for_selector("[data-block]")
    assert {"Runs", "Compare", "Methods"} <= set(page.evaluate(TABS))
    assert sorted(page.locator("#run option").all_inner_texts()) == ["compared", "early"]
    page.locator("#run").select_option("early")
    page.wait_for_selector(".empty h2")
    assert "conceptlens compare FILE --out" in page.locator(".empty").inner_text()
    page.get_by_role("link", name="Methods", exact=True).click()
    page.wait_for_selector(".view-methods .scheme")
    page.keyboard.press("1")
    page.wait_for_selector(".view-runs .run-card")


@pytest.mark.slow
def test_a_view_says_when_a_folder_is_of_another_kind(visit: Open) -> None:
    page = visit("#/image?run=compared")
    assert "compared is a comparison of methods" in page.locator(".empty").inner_text()
    page.get_by_role("link", name="Open compared").click()
    page.wait_for_selector(".view-compare [data-block]")


def test_a_method_is_a_picture_three_sentences_and_evidence(visit: Open, found: dict[str, Any]) -> None:
    page = visit("#/methods?method=pcbm-h")
    cards = method_cards()
    assert page.locator(".thing").all_inner_texts() == [
        f"{card.name}\n{card.supervision_title}" for card in cards.values()
    ]
    told = page.locator(".browse > .stack").inner_text()
    assert " ".join(cards["pcbm-h"].sentences) in told
    picture = page.locator("svg.scheme")
    assert "past the concepts: linear map of the image" in picture.get_attribute("aria-label")
    assert picture.locator(".bypass.own").count() == 1
    page.wait_for_selector("#evidence .card")
    assert "No served folder has results" in page.locator("#evidence").inner_text()
    page.locator(".thing[data-method=ivq-cbm]").click()
    until(page, "location.hash.includes('method=ivq-cbm')")
    assert picture.locator(".bypass").count() == 0
    rows = page.locator("#evidence tbody tr")
    rows.first.wait_for()
    assert rows.count() == 8
    page.keyboard.press("j")
    until(page, "location.hash.includes('method=ivq-cbm-released')")
    page.keyboard.press("k")
    rows.first.wait_for()
    assert saved(page, "Picture (SVG)", ".browse summary").startswith(b"<svg")
    rows.first.get_by_role("link").click()
    page.wait_for_selector("[data-block]")
    assert page.locator("[data-block]").count() == 1
    assert page.evaluate(UNNAMED) == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_they_fit_a_phone(visit: Open, scheme: str) -> None:
    page = visit("#/compare?run=compared", width=390, scheme=scheme)
    page.wait_for_selector("[data-block]")
    wide, seen = page.evaluate(WIDE)
    assert wide <= seen
    page.evaluate("location.hash = '#/methods?method=mvp-cbm'")
    page.wait_for_selector("svg.scheme")
    wide, seen = page.evaluate(WIDE)
    assert wide <= seen
    # Every word of the picture stays inside it.
    inside = """() => { const box = document.querySelector('svg.scheme').getBoundingClientRect();
        return [...document.querySelectorAll('svg.scheme text')].filter((each) => {
            const b = each.getBoundingClientRect(); return b.left < box.left - 1 || b.right > box.right + 1;
        }).map((each) => each.textContent); }"""
    for name in method_cards():
        page.locator(f".thing[data-method={name}]").click()
        assert page.evaluate(inside) == [], name


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_the_words_of_a_picture_do_not_cover_each_other(visit: Open, width: int) -> None:
    page = visit("#/methods", width=width)
    covered = """() => { const all = [...document.querySelectorAll('svg.scheme text')].map((each) =>
            [each.textContent, each.getBoundingClientRect()]);
        return all.flatMap(([one, a], place) => all.slice(place + 1).filter(([, b]) =>
            Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4).map(([other]) => `${one} / ${other}`)); }"""
    for name in method_cards():
        page.locator(f".thing[data-method={name}]").click()
        assert page.evaluate(covered) == [], name
