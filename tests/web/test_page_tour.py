"""The tour on the demo's two models, driven by a browser from its first step to its last; and the plain words."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

import conceptlens as cl
from tests.training.tiny import tiny
from tests.web.browser import CHROMIUM, Open, serve, until, visits

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

RUN = 'axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations.map((each) => each.id))'
TITLE = "(title) => document.querySelector('.tour h2')?.textContent !== title"
STEPS = 7
VIEWS = ["runs", "image", "what-if", "training", "concepts", "trust", "dataset", "graph", "table", "jobs", "methods"]
STICKS_OUT = """[...document.querySelectorAll("main .card")].flatMap((card) =>
    [...card.querySelectorAll("input, select, button, p, h2, h3, label, a, code")]
        .filter((each) => each.offsetWidth && !each.closest(".scroll, .strip, .sections, .hidden, [hidden], svg"))
        .filter((each) => !each.closest("details:not([open])"))
        .filter((each) => each.getBoundingClientRect().right > card.getBoundingClientRect().right + 1)
        .map((each) => each.outerHTML.slice(0, 90)))"""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("tour") / "runs"
    first = cl.train(tiny(folder / "demo", training__epochs=1), quiet=True).path
    shutil.copytree(first, folder / "demo-evidence")
    with serve(folder) as address:
        yield address


@pytest.fixture
def visit(base: str, chromium: Any) -> Iterator[Open]:
    with visits(base, chromium) as go:
        yield go


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_the_tour_is_completed(visit: Open, width: int, scheme: str) -> None:
    page = visit("#/runs", width=width, scheme=scheme)
    page.get_by_role("button", name="Tour").click()
    seen, title = [], ""
    for _ in range(STEPS):
        until(page, TITLE, title)
        until(page, "document.querySelectorAll('.tour-target').length === 1")
        title = page.locator(".tour h2").inner_text()
        seen.append(title)
        page.evaluate(axe.AXE_SCRIPT)
        assert page.evaluate(RUN) == [], title
        page.keyboard.press("Enter")  # the focus stands on what goes on
    assert len(set(seen)) == STEPS
    assert page.locator(".tour").count() == 0
    assert page.locator(".tour-target").count() == 0


def test_plain_words_count_points(visit: Open) -> None:
    page = visit("#/image?run=demo&image=test/1")
    page.wait_for_selector(".sums")
    assert "logit of" in page.locator(".sums").inner_text()
    page.get_by_role("button", name="Plain words").click()
    until(page, "document.querySelector('.sums')?.textContent.includes('points for')")
    assert "logit" not in page.locator("main").inner_text()
    page.reload()
    until(page, "document.querySelector('.sums')?.textContent.includes('points for')")


def test_every_view_is_in_the_navigation_and_says_what_would_fill_it(visit: Open) -> None:
    page = visit("#/runs")
    names = page.locator(".tabs a").all_inner_texts()
    assert {"Runs", "Image", "Trust", "Study", "Graph", "Studio", "Compare", "Methods"} <= set(names)
    for name in ("Study", "Graph", "Studio", "Compare"):
        page.locator(".tabs a", has_text=name).first.click()
        until(page, "document.querySelector('main .empty code')?.textContent.startsWith('conceptlens ')")


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_wider_than_320_pixels(visit: Open, view: str) -> None:
    page = visit(f"#/{view}", width=320)
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert page.evaluate(STICKS_OUT) == []
