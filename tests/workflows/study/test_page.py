"""The raters' page in a real browser, from a file, without a network."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conceptlens.workflows.study.analyze import analyze
from conceptlens.workflows.study.make import Pack
from conceptlens.workflows.study.responses import read_responses
from tests.web.browser import CHROMIUM, until

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
DRAWN = "document.getElementById('trial').dataset.drawn === document.getElementById('trial').dataset.trial"


@pytest.fixture
def context(chromium: Any) -> Iterator[Any]:
    made = chromium.new_context(offline=True, accept_downloads=True)
    yield made
    made.close()


def opened(context: Any, pack: Pack, rater: str) -> tuple[Any, list[str]]:
    page = context.new_page()
    trouble: list[str] = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: trouble.append(request.url) if request.url.startswith("http") else None)
    page.goto((pack.folder / "study.html").as_uri())
    page.fill("#rater", rater)
    page.click("#begin")
    return page, trouble


def settle(context: Any, pack: Pack, page: Any) -> None:
    """Wait until other pages see what this one keeps: the browser passes it on a moment later, a kill comes at once."""
    kept = "JSON.stringify(Object.entries(localStorage).sort())"
    other = context.new_page()
    other.goto((pack.folder / "study.html").as_uri())
    until(other, f"{kept} === {json.dumps(page.evaluate(kept))}")
    other.close()


def current(page: Any) -> str:
    return str(page.evaluate("document.getElementById('trial').dataset.trial"))


def answer(page: Any, pack: Pack, likert: str = "4") -> str:
    """Answer the trial that is shown, rightly, by its number key."""
    until(page, DRAWN)
    name = current(page)
    known = next(trial for trial in pack.key.trials if trial.id == name)
    if known.kind == "choice":
        shown = page.eval_on_selector_all("#answers button", "all => all.map(each => each.dataset.answer)")
        page.keyboard.press(str(shown.index(known.answer) + 1))
    else:
        page.keyboard.press(known.answer if known.kind == "attention" else "1" if known.catch else likert)
    return name


@pytest.mark.slow
def test_a_study_from_beginning_to_end(context: Any, pack: Pack, tmp_path: Path) -> None:
    page, trouble = opened(context, pack, "R-one")
    order: list[str] = []
    for n in range(5):
        assert page.inner_text("#count") == f"{n + 1} of {len(pack.key.trials)}"
        order.append(answer(page, pack))
    assert current(page) not in order

    # Back, and another answer by a click.
    page.keyboard.press("ArrowLeft")
    assert current(page) == order[-1]
    assert page.locator("#answers button[aria-pressed=true]").count() == 1
    page.locator("#answers button").first.click()
    page.keyboard.press("ArrowLeft")
    answer(page, pack)

    # The map can be hidden: the mapped picture becomes the plain one.
    until(page, DRAWN)
    same = "document.getElementById('plain').toDataURL() === document.getElementById('mapped').toDataURL()"
    assert not page.evaluate(same)
    page.keyboard.press("m")
    until(page, same)
    page.keyboard.press("m")

    # Closed in the middle: the same code goes on where it stopped, with the same order.
    waiting = current(page)
    settle(context, pack, page)
    page.close()
    page, more = opened(context, pack, "r-one")
    assert current(page) == waiting
    assert page.inner_text("#count").startswith("6 of")
    while page.locator("#end").is_hidden():
        order.append(answer(page, pack))
    assert len(set(order)) == len(pack.key.trials)
    kinds = [next(trial.kind for trial in pack.key.trials if trial.id == name) for name in order]
    assert "choice" not in kinds[kinds.index("likert") :]  # names come after choices

    page.fill("#comment", "fine <b>")
    with page.expect_download() as download:
        page.click("#finish")
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    assert saved.name == f"responses-{pack.key.study}-r-one.json"
    (told,) = read_responses([saved], pack.key)
    assert told.complete
    assert told.order == order
    assert told.comment == "fine <b>"
    assert sum(each.changes for each in told.answers.values()) == 2
    assert all(each.ms >= 0 for each in told.answers.values())
    found = analyze(pack.key, [told])
    assert found.everyone.choice.right == found.everyone.choice.n == 9
    assert found.everyone.likert.true.value == 4
    assert found.everyone.likert.shuffled.value == 1
    assert trouble + more == []


@pytest.mark.slow
def test_raters_have_their_own_orders(context: Any, pack: Pack) -> None:
    firsts = []
    for rater in ("a", "b", "c", "d"):
        page, _ = opened(context, pack, rater)
        names = [current(page)]
        for _ in range(3):
            page.keyboard.press("1")
            names.append(current(page))
        firsts.append(tuple(names))
        page.close()
    assert len(set(firsts)) > 1


def test_a_code_that_is_none_and_a_part_that_is_saved(context: Any, pack: Pack, tmp_path: Path) -> None:
    page, _ = opened(context, pack, "not a code!")
    assert page.locator("#trial").is_hidden()
    page.fill("#rater", "x1")
    page.click("#begin")
    answer(page, pack)
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "part.json")
    told = json.loads((tmp_path / "part.json").read_text())
    assert told["complete"] is False
    assert len(told["answers"]) == 1


def test_it_fits_a_small_screen(context: Any, pack: Pack) -> None:
    page, _ = opened(context, pack, "small")
    page.set_viewport_size({"width": 360, "height": 740})
    until(page, DRAWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
