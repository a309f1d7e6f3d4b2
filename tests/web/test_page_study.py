"""The study in a real browser: raters answer on the server's page, whoever runs it follows them and closes it."""

import json
from pathlib import Path
from typing import Any

import pytest

from conceptlens.web.server.safety import Policy
from conceptlens.workflows.study.responses import read_responses
from tests.web.browser import CHROMIUM, Open, serve_inside, until, visits
from tests.workflows.study.world import make_key, make_pack

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

KEY = make_key(images=4, catch=2, attention=1)
DRAWN = "document.getElementById('trial').dataset.drawn === document.getElementById('trial').dataset.trial"
SAVED = "document.getElementById('kept').dataset.state === 'saved'"
COMMENT = """text => {
  const comment = document.getElementById("comment");
  comment.value = text;
  comment.dispatchEvent(new Event("input"));
  return document.getElementById("state").textContent;
}"""  # and what the page says in that moment
# Every look at the clock is a second later than it was: who answers within a moment is left out of a result.
PATIENCE = "const now = performance.now.bind(performance); let n = 0; performance.now = () => now() + 1000 * n++;"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies")
    for name in ("pack", "second"):
        make_pack(folder / name, KEY)
    return folder


@pytest.fixture
def look() -> dict[str, str]:
    return {"script": PATIENCE}


def enter(page: Any, rater: str, word: str | None = None) -> None:
    page.fill("#rater", rater)
    if word:
        page.fill("#word", word)
    page.click("#begin")


def answer(page: Any) -> None:
    """Rightly, by keys."""
    until(page, DRAWN)
    trial = next(
        each for each in KEY.trials if each.id == page.evaluate("document.getElementById('trial').dataset.trial")
    )
    if trial.kind == "choice":
        shown = page.eval_on_selector_all("#answers button", "all => all.map(each => each.dataset.answer)")
        page.keyboard.press(str(shown.index(trial.answer) + 1))
    else:
        page.keyboard.press(trial.answer if trial.answer else "1" if trial.catch else "5")


@pytest.mark.slow
def test_two_raters_answer_and_the_result_is_shown(visit: Open, runs: Path) -> None:
    desk = visit("#/study?run=pack")
    assert "Nobody has started yet" in desk.locator("main").inner_text()
    strip = desk.locator(".trust-strip")
    assert strip.inner_text().startswith("? not measured")
    desk.get_by_role("link", name="Open the raters' page").click()
    desk.wait_for_selector("#who")
    assert desk.url.endswith("/study/pack")

    page = visit("study/pack")
    enter(page, "R-one")
    page.wait_for_selector("#trial:not([hidden])")
    for _ in range(3):
        answer(page)
    until(page, SAVED)
    waiting = page.evaluate("document.getElementById('trial').dataset.trial")
    word = page.inner_text("#mine").split("word ")[1].rstrip(".")

    # The same browser goes on by the code alone; another one needs the word.
    again = visit("study/pack", context=page.context)
    enter(again, "r-one")
    again.wait_for_selector("#trial:not([hidden])")
    assert again.evaluate("document.getElementById('trial').dataset.trial") == waiting
    page.close()
    again.close()
    page = visit("study/pack")
    enter(page, "r-one")
    page.wait_for_selector("#again:not([hidden])")
    assert "is taken" in page.inner_text("#warning")
    assert page.locator("#trial").is_hidden()
    enter(page, "r-one", word)
    page.wait_for_selector("#trial:not([hidden])")
    assert page.evaluate("document.getElementById('trial').dataset.trial") == waiting
    while page.locator("#end").is_hidden():
        answer(page)
    until(page, "document.getElementById('state').textContent.startsWith('All answers')")
    assert page.evaluate(COMMENT, "clear enough") == "Saving …"  # the page may be closed only when it says so
    until(page, "document.getElementById('state').textContent.startsWith('All answers')")
    file = runs / "pack" / "responses" / f"responses-{KEY.study}-r-one.json"
    (told,) = read_responses([file], KEY)
    assert (told.complete, told.comment) == (True, "clear enough")

    other = visit("study/pack")
    enter(other, "r2")
    other.wait_for_selector("#trial:not([hidden])")
    answer(other)
    until(other, SAVED)

    desk = visit("#/study?run=pack")
    rows = desk.locator(".raters tbody tr").all_inner_texts()
    assert "complete" in rows[0]
    assert f"1 of {len(KEY.trials)}" in rows[1]
    text = desk.locator("main").inner_text()
    assert "clear enough" not in text
    assert desk.locator(".study-result").count() == 0
    desk.get_by_role("button", name="Close the study and analyze").click()
    assert "1 of 2 raters" in desk.get_by_role("dialog").inner_text()
    desk.get_by_role("button", name="Close and analyze").click()
    desk.wait_for_selector(".study-result")
    desk.locator(".trust-strip", has_text="measured").get_by_text("whether people rate").wait_for()
    desk.locator(".trust-strip", has_text="not measured").wait_for(state="detached")
    assert "gave the maps 5.00 of 5, and shuffled ones 1.00" in desk.locator(".study-result .sentence").inner_text()
    assert desk.locator("[data-plot] svg.chart").count() == 2
    assert "5.00" in desk.locator(".study-table").first.inner_text()
    assert "clear enough" in desk.locator(".study-result").inner_text()

    # Who still had the page open is told, and their answer stays with them.
    answer(other)
    until(other, "document.getElementById('kept').dataset.state === 'trouble'")
    assert "closed" in other.inner_text("#state")

    def saved(entry: str) -> bytes:
        desk.locator(".view-head summary").click()
        with desk.expect_download() as loading:
            desk.get_by_role("button", name=entry).click()
        return Path(loading.value.path()).read_bytes()

    assert json.loads(saved("Analysis (JSON)"))["study"] == KEY.study
    assert saved("Table (Markdown)") == (runs / "pack" / "table.md").read_bytes()
    assert saved("Result as a page") == (runs / "pack" / "analysis.html").read_bytes()
    assert saved("Ratings (SVG)").startswith(b"<svg")
    again = visit(desk.url.split("/", 3)[3])
    assert again.locator(".study-result").count() == 1


@pytest.mark.slow
def test_a_server_that_goes_away_loses_nothing(base: str, runs: Path, chromium: Any) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{base}/study/second")
    enter(page, "r1")
    page.wait_for_selector("#trial:not([hidden])")
    answer(page)
    until(page, SAVED)
    context.set_offline(True)
    answer(page)
    answer(page)
    until(page, "document.getElementById('kept').dataset.state === 'trouble'")
    assert "kept in this browser" in page.inner_text("#state")
    context.set_offline(False)
    until(page, SAVED)
    file = runs / "second" / "responses" / f"responses-{KEY.study}-r1.json"
    assert len(read_responses([file], KEY)[0].answers) == 3
    context.close()


def test_raters_have_a_token_of_their_own(tmp_path: Path, chromium: Any) -> None:
    make_pack(tmp_path / "pack", KEY)
    policy = Policy("the-token-of-the-owner")
    with serve_inside(tmp_path, policy=policy) as base, visits(base, chromium, shows="h1", script=PATIENCE) as go:
        page = go("study/pack")
        assert "token for raters" in page.inner_text("main")
        page.fill("input[name=token]", policy.rater_token("pack"))
        page.click("button")
        page.wait_for_selector("#who")
        enter(page, "r1")
        page.wait_for_selector("#trial:not([hidden])")
        answer(page)
        until(page, SAVED)
        page.goto(f"{base}/")
        assert "Only the owner" in page.inner_text("main")
        page.fill("input[name=token]", "the-token-of-the-owner")
        page.click("button")
        page.wait_for_selector("main h1")
        page.goto(f"{base}/#/study?run=pack")
        page.wait_for_selector(".raters")
        assert policy.rater_token("pack") in page.inner_text("main")
