"""Every view under axe-core's rules for people who see, hear or point differently: no violation, in any look.

A view that is added to the page is found by itself.
"""

import json
import re
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.workflows.study.analyze import analyze_study
from conceptlens.workflows.study.simulate import Simulated, simulate
from tests.training.tiny import tiny
from tests.web.browser import CHROMIUM, serve
from tests.web.comparisons import make_comparison
from tests.web.decomposition import draw_graph, write_decomposition
from tests.web.studio_world import make_studies
from tests.workflows.study.world import make_key, make_pack

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]

MAIN = (Path(str(files("conceptlens"))) / "web" / "client" / "js" / "views.js").read_text("utf-8")
ENTRIES = re.findall(r'\{\s*name: "([\w-]+)",([^}]*)\}', MAIN.split("const VIEWS")[1].split("\n]")[0])
VIEWS = {name: re.findall(r'"(\w+)"', "".join(re.findall(r"kinds: \[(.*?)\]", rest))) for name, rest in ENTRIES}
STATES = (  # what else a view can look like
    "runs?compare=first,second",
    "image?run=first&image=test/1&map=gradcam&patch=5&by=groups",
    "what-if?run=first&sliders=1",
    "concepts?run=first&what=codebook&map=3d",
    "concepts?run=blind",
    "image?run=nowhere",
    "study?run=open",
    "graph?run=graph&node=layer2/1&table=edges",
    "studio?run=codes--shapes&mode=mask&pin=5",
    "studio?run=codes--sizes&mode=region&region=0:2,0:2",
    "methods?method=cem",
)
LOOKS = {
    "desk light": (1280, "light"),
    "phone dark": (390, "dark"),
    "desk dark": (1280, "dark"),
    "phone light": (390, "light"),
    "narrow": (320, "dark"),
}
# One look is enough for every day.
EVERY_LOOK = [pytest.param(name, marks=[] if n < 1 else [pytest.mark.slow]) for n, name in enumerate(LOOKS)]
TURN = """(to) => {
    document.querySelector("main").replaceChildren();
    if (location.hash === to) dispatchEvent(new Event("hashchange"));
    else location.hash = to;
}"""
RUN = 'axe.run(document, { resultTypes: ["violations"] }).then((found) => found.violations)'
FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex='0']"
WATCH = """() => {
    window.reached = new Set();
    window.unseen = new Set();
    window.watch = ({ target }) => {
        window.reached.add(target);
        const { outlineStyle, boxShadow } = getComputedStyle(target);
        if (outlineStyle === "none" && boxShadow === "none") window.unseen.add(target.outerHTML.slice(0, 120));
    };
    document.addEventListener("focusin", window.watch);
    document.activeElement.blur();
    getSelection().removeAllRanges();
    scrollTo(0, 0);
}"""
MISSED = """(selector) => {
    document.removeEventListener("focusin", window.watch);
    return [...document.querySelectorAll(selector)]
        .filter((one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true }))
        .filter((one) => !window.reached.has(one))
        .map((one) => one.outerHTML.slice(0, 120));
}"""
Look = Callable[..., Any]


def test_the_views_are_found() -> None:
    assert {"runs", "image", "what-if", "training", "concepts", "study"} <= set(VIEWS)
    assert len(VIEWS) == len(re.findall(r"\bm\.\w+View\b", MAIN))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of every kind: a run and its copy, one without concepts, a broken one, a graph, a codebook, a table,
    a study that is open and one that is closed."""
    folder = tmp_path_factory.mktemp("axe") / "runs"
    first = cl.train(tiny(folder / "first", training__epochs=1), quiet=True).path
    api.interventions(first, resamples=10)
    shutil.copytree(first, folder / "second")
    blind = {"method": {"name": "black-box"}, "regularizer": {"name": "none"}}
    cl.train(tiny(folder / "blind", training__epochs=1, **blind), quiet=True)
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{", encoding="utf-8")
    write_decomposition(folder / "graph", {"graph.json": draw_graph()})
    make_comparison(folder)
    shutil.copytree(make_studies(tmp_path_factory.mktemp("codes")), folder / "codes")
    key = make_key(images=4, catch=2)
    for name in ("closed", "open"):
        pack = make_pack(folder / name, key)
        for rater in ("a", "b"):
            simulate(key, Simulated(rater)).write(pack / "responses" / f"responses-{key.study}-{rater}.json")
    analyze_study(folder / "closed")
    return folder


@pytest.fixture(scope="module")
def base(served: Path) -> Iterator[str]:
    with serve(served) as address:
        yield address


@pytest.fixture(scope="module")
def cards(base: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{base}/api/v1/runs") as answer:
        found: list[dict[str, Any]] = json.load(answer)["runs"]
    return found


@pytest.fixture(scope="module")
def look_at(base: str, chromium: Any) -> Iterator[Look]:
    """A page of some width and colors at an address; one for all views of a look."""
    pages: dict[tuple[str, bool], Any] = {}

    def go(look: str, address: str) -> Any:
        inside = address.startswith("#")
        if (look, inside) not in pages:
            width, scheme = LOOKS[look]
            page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.set_default_timeout(60_000)
            pages[look, inside] = page
            if inside:
                page.goto(f"{base}/#/runs")
        page = pages[look, inside]
        if inside:
            page.evaluate(TURN, address)
            page.wait_for_selector("main .card, main .empty h2")
        else:
            page.goto(address if "://" in address else f"{base}/{address}")
        page.wait_for_load_state("networkidle")
        return page

    yield go
    for page in pages.values():
        page.close()


def violations(page: Any) -> list[str]:
    """What axe finds, in a line each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.AXE_SCRIPT)
    return [
        f"{rule['id']} ({rule['help']}): {node['target']} {node.get('failureSummary', '')[:300]}"
        for rule in page.evaluate(RUN)
        for node in rule["nodes"][:3]
    ]


def test_axe_finds_what_is_wrong(look_at: Look) -> None:
    page = look_at("desk light", "#/runs")
    page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    assert any(found.startswith("button-name") for found in violations(page))
    page.evaluate("document.querySelector('main > button').remove()")


@pytest.mark.parametrize("look", EVERY_LOOK)
@pytest.mark.parametrize("view", VIEWS)
def test_no_violation_in_any_view(look_at: Look, view: str, look: str, cards: list[dict[str, Any]]) -> None:
    of_kind = sorted(card["key"] for card in cards if card["kind"] in VIEWS[view] and card["status"] == "done")
    run = "first" if "first" in of_kind else of_kind[0] if of_kind else None
    assert run or not VIEWS[view], f"no folder of a kind that {view} shows is served here"
    assert violations(look_at(look, f"#/{view}" + (f"?run={run}" if run else ""))) == []


@pytest.mark.parametrize("view", VIEWS)
def test_every_control_is_reached_by_the_tab_key_and_shows_it(
    look_at: Look, view: str, cards: list[dict[str, Any]]
) -> None:
    of_kind = sorted(card["key"] for card in cards if card["kind"] in VIEWS[view] and card["status"] == "done")
    run = "first" if "first" in of_kind else of_kind[0] if of_kind else None
    page = look_at("desk light", f"#/{view}" + (f"?run={run}" if run else ""))
    page.evaluate("document.getElementById('skip').focus()")
    page.evaluate(WATCH)
    page.evaluate("document.getElementById('skip').focus()")
    for _ in range(400):  # until it leaves the page at its end
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
    assert page.evaluate(MISSED, FOCUSABLE) == []
    assert page.evaluate("[...window.unseen]") == []


@pytest.mark.parametrize("look", EVERY_LOOK)
@pytest.mark.parametrize("state", [pytest.param(each, marks=pytest.mark.slow) for each in STATES])
def test_no_violation_in_other_states(look_at: Look, state: str, look: str) -> None:
    assert violations(look_at(look, f"#/{state}")) == []


@pytest.mark.slow
def test_no_violation_where_all_of_trust_was_measured(look_at: Look, measured: Path) -> None:
    with serve(measured) as address:
        for look in LOOKS:
            page = look_at(look, f"{address}/#/trust?run=measured")
            page.wait_for_selector(".view-trust .trust .card")
            for section in page.locator(".view-trust .sections button").all():
                section.click()
                assert violations(page) == [], (look, section.inner_text())


@pytest.mark.parametrize("look", EVERY_LOOK)
def test_no_violation_in_menus_and_dialogs(look_at: Look, look: str) -> None:
    page = look_at(look, "#/study?run=open")
    page.locator(".view-head summary").click()
    assert violations(page) == []
    page.get_by_role("button", name="Close the study and analyze").click()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert violations(page) == []
    page.keyboard.press("Escape")


@pytest.mark.parametrize("look", EVERY_LOOK)
def test_no_violation_for_raters(look_at: Look, look: str) -> None:
    page = look_at(look, "study/open")
    assert violations(page) == []
    page.fill("#rater", f"r-{look.replace(' ', '-')}")
    page.click("#begin")
    for kind in ("choice", "likert"):
        page.wait_for_selector("#answers.scale5" if kind == "likert" else "#answers button")
        assert violations(page) == []
        while kind == "choice" and page.locator("#answers.scale5").count() == 0:
            page.keyboard.press("1")
    while page.locator("#end").is_hidden():
        page.keyboard.press("3")
    assert violations(page) == []


@pytest.mark.parametrize("look", EVERY_LOOK)
def test_no_violation_in_the_page_of_a_result(look_at: Look, served: Path, look: str) -> None:
    assert violations(look_at(look, (served / "closed" / "analysis.html").as_uri())) == []
