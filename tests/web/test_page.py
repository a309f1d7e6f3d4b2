"""The page in a real browser, on a run that was just trained."""

import base64
import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conceptlens import api
from conceptlens.core import manifest
from conceptlens.runs.opened import OpenedRun
from tests.web.browser import CHROMIUM, SAID, Open, flip_verdict, flippable, push_slider, saved, serve, until
from tests.web.conftest import World

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

VIEWS = ("runs", "image", "what-if", "training", "concepts")


# Every kind of edit of two values and of a yes/no concept: how far the page's logits are from the server's.
BOTH_WAYS = """async () => {
    const { api } = await import("/static/js/api.js");
    const { apply, logits } = await import("/static/js/head.js");
    const [head, run] = await Promise.all([api.head("first"), api.run("first")]);
    const { state } = await api.prediction("first", "test", "2");
    const yesNo = run.groups.find((each) => each.kind === "independent");
    const few = (group) => group.values.slice(0, 2).map((value) => [group.name, value]);
    const pairs = [run.groups[0], yesNo].flatMap(few);
    const gaps = [];
    for (const [group, value] of pairs) {
        const words = ["yes", "no", "0.3", "score 0.7", `mean of ${head.classes[0]}`];
        for (const edit of [`${group}=${value}`, ...words.map((word) => `${group}: ${value}=${word}`)]) {
            const mine = logits(head, apply(head, run.groups, state, [edit]), state.rest);
            const theirs = (await api.intervene("first", { state, edits: [edit] })).after.classes;
            gaps.push([edit, Math.max(...theirs.map((each, place) => Math.abs(each.logit - mine[place])))]);
        }
    }
    return gaps;
}"""
DROP = """([data, name]) => {
    const transfer = new DataTransfer();
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    transfer.items.add(new File([bytes], name, { type: "image/jpeg" }));
    const drop = new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: transfer });
    document.querySelector(".view-image").dispatchEvent(drop);
}"""
PRESSED = """[...document.querySelectorAll("main [aria-pressed=true], main [aria-selected=true]")]
    .map((each) => each.textContent)"""
TOO_SMALL = """[...document.querySelectorAll("main button, .tabs a")]
    .filter((each) => each.offsetParent && each.getBoundingClientRect().height < 24)
    .map((each) => each.textContent)"""
CONTROLS = "button, a, input, select, summary, canvas[tabindex], [role=img], [role=application]"
UNNAMED = """(controls) => [...document.querySelectorAll(controls)]
    .filter((each) => each.getAttribute("aria-hidden") !== "true")
    .filter((each) => !each.getAttribute("aria-label") && !each.textContent.trim() && !each.labels?.length)
    .filter((each) => !each.querySelector("img[alt]:not([alt=''])"))
    .map((each) => each.outerHTML.slice(0, 120))"""
CHANGED = "([place, old]) => document.querySelector(place).getAttribute('aria-label') !== old"


@pytest.fixture(scope="module")
def runs(world: World, blind: Path, evidence_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, its copy, one without slots or codes, one without concepts, one with evidence, a broken one."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("first", "second"):
        shutil.copytree(world.slots, folder / name)
    shutil.copytree(world.whole, folder / "plain")
    shutil.copytree(blind, folder / "blind")
    shutil.copytree(evidence_run, folder / "evidence")
    (folder / "broken").mkdir()
    (folder / "broken" / "run.json").write_text("{", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def base(runs: Path) -> Iterator[str]:
    with serve(runs) as address:
        yield address


def turn_to(page: Any, address: str) -> None:
    """Another view on the same page, once all of it is there."""
    page.evaluate(
        "(address) => { document.querySelector('main').replaceChildren(); location.hash = address; }", address
    )
    page.wait_for_selector("main .card")
    page.wait_for_load_state("networkidle")


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", "").replace("%", "").strip())


def test_labels_show_what_a_term_means(visit: Open) -> None:
    page = visit("#/concepts?run=first")
    page.wait_for_selector("dt.term:has-text('Slot')")
    page.wait_for_load_state("networkidle")  # a view that is filled later is marked anew
    titles = page.locator("main .term").evaluate_all(
        "nodes => Object.fromEntries(nodes.map((node) => [node.innerText, node.title]))"
    )
    assert titles["Slot"].startswith("slot: A vector")
    assert titles["Concepts"].endswith("(Kim et al., ICML 2018)")
    page.keyboard.press("?")
    page.get_by_text("Glossary").click()
    meaning = "The set of vectors to which patches or tokens are assigned."
    assert meaning in page.locator("dialog .glossary").inner_text()


def test_the_longest_term_of_a_label_wins(visit: Open) -> None:
    page = visit("#/runs")
    meanings = page.evaluate("""async () => {
        const { meaningOf, read } = await import("/static/js/glossary.js");
        const terms = { code: { meaning: "One." }, codebook: { meaning: "All." },
            "insertion, deletion": { meaning: "Curves.", reference: "A paper" } };
        return ["Codes in use", "The codebook", "Deletion", "Decoder"].map((text) => meaningOf(text, read(terms)));
    }""")
    assert meanings == ["code: One.", "codebook: All.", "deletion: Curves. (A paper)", None]


def test_runs_are_cards_and_can_be_compared(visit: Open) -> None:
    page = visit("#/runs")
    assert sorted(page.locator(".run-card h2").all_inner_texts()) == [
        "blind",
        "broken",
        "evidence",
        "first",
        "plain",
        "second",
    ]
    broken = page.get_by_role("article", name="Run broken")
    assert "cannot be read" in broken.inner_text()
    assert "run.json" in broken.inner_text()
    assert page.get_by_role("article", name="Run first").locator(".spark path").count() == 1
    for name in ("first", "plain"):
        page.get_by_role("checkbox", name=f"Compare {name}").check()
    heads = page.locator(".compare thead th.num").all_inner_texts()
    assert heads == ["first", "plain"]
    assert page.locator(".compare svg.chart circle").count() == 2
    card = page.get_by_role("article", name="Run first").locator(".scores dd").first.inner_text()
    assert card in page.locator(".compare tbody tr", has_text="Class balanced accuracy").inner_text()
    cards = json.loads(saved(page, "Cards of all runs"))
    assert [card["key"] for card in cards if card["status"] == "broken"] == ["broken"]
    until(page, "location.hash.includes('plain')")
    again = visit(page.url.split("/", 3)[3])
    again.wait_for_selector(".compare svg.chart")
    assert again.locator(".compare thead th.num").all_inner_texts() == heads
    page.get_by_role("searchbox").fill("plain")
    until(page, "document.querySelectorAll('.run-card').length === 1")


@pytest.mark.slow
def test_contributions_add_up_to_the_logit(visit: Open, runs: Path) -> None:
    page = visit("#/image?run=first&image=test/0")
    page.wait_for_selector(".sums .total")
    values = [number(text) for text in page.locator(".sums .sum:not(.total) .value").all_inner_texts()]
    total = number(page.locator(".sums .total .value").inner_text())
    assert sum(values) == pytest.approx(total, abs=0.005 * (len(values) + 1))
    told = json.loads(saved(page, "Everything"))
    logits = {each["name"]: each["logit"] for each in told["classes"]}
    account = told["account"]
    margin = logits[account["of"]] - logits[account["minus"]]
    assert total == pytest.approx(margin, abs=0.01)
    shown = float(page.locator("[data-sum]").get_attribute("data-sum"))
    assert shown == pytest.approx(margin, abs=1e-3)
    # The sentence's reasons are the chart's rows, in their order, with their baseline.
    rows = page.locator(".sums button.sum").all()
    questions = [row.locator(".label").evaluate("node => node.firstChild.textContent") for row in rows]
    assert questions == [each["question"] for each in account["reasons"]][: len(rows)]
    for row, each in zip(rows, account["reasons"], strict=False):
        assert number(row.locator(".value").inner_text()) == pytest.approx(each["weight"], abs=0.006)
    assert values[0] == pytest.approx(account["base"], abs=0.006)
    said = [each["words"] for each in account["reasons"] if each["words"] in told["sentence"]]
    assert [told["sentence"].index(words) for words in said] == sorted(told["sentence"].index(words) for words in said)
    # Another class, against another: the page's own arithmetic, against the server's logits.
    names = list(logits)
    page.get_by_label("Class that is explained").select_option(names[0])
    page.get_by_label("Compared with").select_option(names[1])
    shown = float(page.locator("[data-sum]").get_attribute("data-sum"))
    assert shown == pytest.approx(logits[names[0]] - logits[names[1]], abs=1e-3)
    (said,) = api.predict(runs / "first", [_file_of(page, runs)]).items
    assert said.predicted == told["predicted"][0]


def _file_of(page: Any, runs: Path) -> Path:
    """The first image that the page shows, as a file."""
    row = page.locator(".thumb").first.get_attribute("data-image").split("/")[1]
    picture = page.request.get(f"{page.url.split('#')[0]}api/v1/runs/first/images/test/{row}/picture").body()
    file = runs.parent / "picture.jpg"
    file.write_bytes(picture)
    return file


@pytest.mark.slow
def test_maps_follow_concepts_and_patches(visit: Open) -> None:
    page = visit("#/image?run=first&image=test/1")
    panel = page.locator(".map-panel")
    pixels = "document.querySelector('.picture canvas').toDataURL()"
    page.wait_for_selector(".picture")
    page.get_by_role("button", name="Image", exact=True).click()
    bare = page.evaluate(pixels)
    drawn = {bare}
    for kind in ("Attention", "Grad-CAM", "Index"):
        page.get_by_role("button", name=kind, exact=True).click()
        drawn.add(page.evaluate(pixels))
    assert len(drawn) == 4
    assert panel.locator(".codes .code").count() > 0
    strong = page.evaluate(pixels)
    page.get_by_label("Opacity of the map").fill("0.2")
    assert page.evaluate(pixels) != strong
    page.locator(".picture").click(position={"x": 30, "y": 30})
    facts = page.locator(".patch").inner_text()
    assert "Code" in facts
    assert "Slots" in facts
    until(page, "location.hash.includes('patch=0')")
    page.locator(".patch .facts a").click()
    page.wait_for_selector(".view-concepts .things")
    assert page.locator(".thing[aria-selected=true]").count() == 1
    assert saved(page, "Map (PNG)").startswith(b"\x89PNG")
    evidence_is_signed(visit("#/image?run=evidence&image=test/1&concept=4"))


@pytest.mark.slow
def test_a_map_that_failed_is_gray_and_says_why_and_one_that_never_moves_says_so(base: str, chromium: Any) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 860})
    said: dict[str, Any] = {}

    def tested(route: Any) -> None:
        answer = route.fetch().json()
        answer["maps"] |= said
        route.fulfill(json=answer)

    page.route("**/prediction?gradcam=*", tested)
    pixels = "document.querySelector('.picture canvas').toDataURL()"
    drawn = []
    for found in ({"failed": {}, "captions": {}}, {"failed": {"attention": "no better than the image's middle"}}):
        said = found
        page.goto(f"{base}/#/runs")
        page.wait_for_selector("article.run-card")
        page.goto(f"{base}/#/image?run=first&image=test/1&map=attention")
        page.reload()
        page.wait_for_selector(".map-panel .caption")
        until(page, "document.querySelector('.picture img')?.complete ?? true")
        page.wait_for_timeout(200)
        drawn.append(page.evaluate(pixels))
        panel = page.locator(".map-panel")
        failed = bool(found["failed"])
        assert panel.locator(".doubt").is_visible() == failed
        assert panel.locator(".heat.failed").count() == failed
        assert ("where a score comes from" in panel.inner_text()) != failed
        if failed:
            assert "This map failed its test and is drawn in gray." in panel.locator(".doubt").inner_text()
            assert "no better than the image's middle" in panel.locator(".doubt").inner_text()
    assert drawn[0] != drawn[1]
    said = {"unmoving": [page.locator("[aria-label='Concept whose map is shown'] option:checked").inner_text()]}
    page.reload()
    page.locator(".doubt", has_text="nearly the same in every image").wait_for()
    box = page.locator(".picture").bounding_box()
    assert box["y"] + box["height"] / 2 < 860, "the map is above the fold"
    page.close()


def evidence_is_signed(page: Any) -> None:
    """Evidence is the first map, adds up, says what a patch adds and takes, and absence has none."""
    page.wait_for_selector(".picture")
    assert page.locator(".stack .card .segment button").first.inner_text() == "Evidence"
    assert "logits" in page.locator(".heat.signed").inner_text()
    said = page.locator(".map-panel .caption").inner_text()
    numbers = re.search(r"Sum of the map (−?[\d.]+) ([+−]) ([\d.]+) \(not placed, \d+%\) = logit (−?\d+\.\d+)", said)
    assert numbers is not None, said
    placed, rest, logit = (float(numbers[at].replace("−", "-")) for at in (1, 3, 4))
    assert placed + (rest if numbers[2] == "+" else -rest) == pytest.approx(logit, abs=0.011)
    page.locator(".picture").click(position={"x": 30, "y": 30})
    assert "logits" in page.locator(".picture .tip").inner_text()
    assert "adds most to" in page.locator(".picture .tip").inner_text()
    assert "Concepts from which it subtracts most" in page.locator(".patch").inner_text()
    page.get_by_label("Concept whose map is shown").select_option(label="body pattern: plain")
    assert "an absence has no position" in page.locator(".map-panel .caption").inner_text()
    assert page.locator(".heat").is_hidden()


def test_a_slider_gives_what_the_library_gives(visit: Open, runs: Path) -> None:
    page = visit("#/what-if?run=first&image=test/2&sliders=1")
    before = push_slider(page)
    until(page, "document.querySelector('#confirmed').textContent.includes('confirmed by the server')")
    told = json.loads(saved(page, "Before and after"))
    assert page.locator("#shares").inner_text() != before
    (edit,) = told["edits"]
    assert re.fullmatch(r".+: .+=score -?[\d.]+", edit)
    expected = api.what_if(runs / "first", told["image"]["id"], set=[edit])
    found = {each["name"]: each["probability"] for each in told["after"]["classes"]}
    assert found == pytest.approx(expected.after.probabilities, abs=1e-5)
    assert told["after"]["said"] == [expected.after.said]
    assert page.locator("#verdict strong").inner_text() == expected.after.said


def test_the_page_itself_computes_what_the_server_says(visit: Open) -> None:
    """With the server's answer held back, every kind of edit gives the same logits."""
    page = visit("#/what-if?run=first&image=test/2")
    page.wait_for_selector(".dial-group")
    gaps = page.evaluate(BOTH_WAYS)
    assert len(gaps) == 18  # two values and a yes/no concept, in six ways each
    assert max(gap for _, gap in gaps) < 1e-3


@pytest.mark.slow
def test_truth_flip_ask_and_undo(visit: Open, runs: Path) -> None:
    page = visit(f"#/what-if?run=first&image=test/{flippable(runs / 'first')[0]}")
    first, target = flip_verdict(page)
    assert target != first
    page.keyboard.press("u")
    until(page, SAID, ["#verdict strong", first])
    until(page, "!location.hash.includes('edits')")
    page.get_by_role("button", name="Suggest a concept to check").click()
    page.locator(".advice button").first.click()
    until(page, "document.querySelectorAll('.whatif .chips .chip').length === 1")
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Use the labels").click()
    until(page, "document.querySelectorAll('.whatif .chips .chip').length > 1")
    until(page, "document.querySelector('#confirmed').textContent.includes('confirmed')")


def test_corrections_are_saved(visit: Open, runs: Path) -> None:
    page = visit("#/what-if?run=second&image=test/0")
    group = page.locator(".dial-group select").first
    group.wait_for()
    run = OpenedRun.open(runs / "second")
    first = run.concepts.groups[0]
    said = int(run.readout("test").read_labels[0, first.concepts].argmax())
    group.select_option(first.values[said - 1])  # what the model says already is no correction
    page.get_by_label("Your name").fill("Dr Who")
    page.get_by_role("button", name="Save 1 correction").click()
    page.wait_for_selector("text=--data.corrections")
    with (runs / "second" / "corrections.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["rater"] == "Dr Who"
    assert row["after"] in group.inner_text()


def test_a_file_can_be_dropped(visit: Open, runs: Path) -> None:
    page = visit("#/image?run=first&image=test/0")
    page.wait_for_selector(".sums .total")
    file = _file_of(page, runs)
    page.evaluate(DROP, [base64.b64encode(file.read_bytes()).decode(), "mine.jpg"])
    until(page, "location.hash.includes('image=upload')")
    until(page, "document.querySelector('.picture')?.getAttribute('aria-label').includes('upload')")
    (expected,) = api.predict(runs / "first", [file]).items
    assert expected.predicted in page.locator(".story .shares .said").inner_text()
    page.get_by_role("link", name="Ask “what if”").click()
    page.wait_for_selector(".dial-group")
    assert "cannot be used in training" in page.locator(".whatif").inner_text()


@pytest.mark.slow
def test_a_file_that_is_no_image_is_refused_in_words(visit: Open, runs: Path) -> None:
    page = visit("#/image?run=first&image=test/0")
    page.wait_for_selector(".sums .total")
    page.locator("input[type=file]").set_input_files({"name": "x.png", "mimeType": "image/png", "buffer": b"nothing"})
    page.wait_for_selector(".story [role=alert]")
    assert "Traceback" not in page.locator(".story").inner_text()


@pytest.mark.parametrize(
    ("address", "state"),
    [
        pytest.param(
            "#/image?run=first&image=test/4&concept=2&map=gradcam&opacity=0.3&patch=5&by=groups",
            ".map-panel",
            marks=pytest.mark.slow,
        ),
        ("#/what-if?run=first&image=test/4&sliders=1&edits=EDITS", ".whatif"),
        pytest.param("#/training?run=first", ".charts", marks=pytest.mark.slow),
        pytest.param("#/concepts?run=first&concept=3&map=3d&sort=auc", ".browse", marks=pytest.mark.slow),
        pytest.param("#/concepts?run=first&what=codebook&code=2", ".browse", marks=pytest.mark.slow),
    ],
)
def test_a_link_brings_back_the_same_state(visit: Open, base: str, address: str, state: str) -> None:
    if "EDITS" in address:
        groups = visit("#/runs").request.get(f"{base}/api/v1/runs/first").json()["groups"]
        name, value = groups[0]["name"], groups[0]["values"]
        address = address.replace("EDITS", quote(f"{name}={value[1]}\n{name}: {value[0]}=score 0.25"))
    seen = []
    for _ in range(2):
        page = visit(address)
        page.wait_for_selector(f"{state} h2, {state} .picture")
        page.wait_for_timeout(600)
        controls = "[...document.querySelectorAll('main select, main input')].map((each) => each.value)"
        shown = page.locator(state).inner_text()
        seen.append((shown.replace("computed on this page", ""), page.evaluate(controls), page.evaluate(PRESSED)))
        address = page.url.split("/", 3)[3]
    assert seen[0] == seen[1]


def test_by_keyboard_alone(visit: Open) -> None:
    """From the cards to a changed class without a mouse."""
    page = visit("#/runs?run=first")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("2")
    page.wait_for_selector(".view-image .sums .total")
    page.evaluate("document.querySelector('.sums .total').dataset.first = 1")
    page.keyboard.press("j")
    until(page, "document.querySelectorAll('.thumb')[1].getAttribute('aria-pressed') === 'true'")
    until(page, "document.querySelector('.sums .total')?.dataset.first === undefined")  # the next image is told of
    page.wait_for_selector(".view-image .sums .total")

    def tab_to(selector: str) -> None:
        for _ in range(80):
            if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"{selector} cannot be reached with Tab")

    tab_to(".picture")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator(".patch .facts").count() == 1
    page.keyboard.press("3")
    page.wait_for_selector(".view-what-if .dial-group")
    tab_to(".fine summary")
    page.keyboard.press("Enter")
    tab_to("input[type=range][data-concept]")
    page.keyboard.press("End")
    until(page, "document.querySelectorAll('.whatif .chips .chip').length === 1")
    page.keyboard.press("u")
    until(page, "document.querySelectorAll('.whatif .chips .chip').length === 0")
    page.keyboard.press("?")
    assert "undo" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_every_view_fits_a_phone(visit: Open, scheme: str) -> None:
    page = visit("#/runs", width=390, scheme=scheme)
    for view in VIEWS:
        turn_to(page, f"#/{view}?run=first")
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{view} is {wide} pixels wide"
        small = page.evaluate(TOO_SMALL)
        assert small == [], f"{view}: too small for a finger"


@pytest.mark.slow
def test_every_control_has_a_name(visit: Open) -> None:
    page = visit("#/runs")
    for view in (*VIEWS, "concepts?what=codebook"):
        turn_to(page, f"#/{view}{'&' if '?' in view else '?'}run=first")
        unnamed = page.evaluate(UNNAMED, CONTROLS)
        assert unnamed == [], view
        assert page.locator(".view-head .about").inner_text()
        assert page.locator(".view-head summary").count() == 1


@pytest.mark.slow
def test_what_a_run_lacks_is_said_with_its_command(visit: Open, runs: Path) -> None:
    page = visit("#/concepts?run=plain&what=codebook")
    page.wait_for_selector(".empty h2")
    assert "No codebook" in page.locator(".empty").inner_text()
    page = visit("#/image?run=plain")
    page.wait_for_selector(".sums .total")
    assert page.get_by_role("button", name="Attention", exact=True).count() == 0
    for view in ("image", "concepts", "what-if"):
        page = visit(f"#/{view}?run=blind")
        page.wait_for_selector(".empty h2")
        assert "no concepts" in page.locator("main").inner_text().lower()
    page = visit("#/image?run=nowhere")
    page.wait_for_selector("[role=alert], .empty h2")


@pytest.mark.slow
def test_training_is_followed_while_it_goes_on(visit: Open, runs: Path) -> None:
    live = runs / "live"
    shutil.copytree(runs / "first", live)
    lines = (live / "history.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (live / manifest.NAME).unlink()
    (live / "history.jsonl").write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    info = json.loads((live / "run.json").read_text(encoding="utf-8"))
    (live / "run.json").write_text(json.dumps({**info, "status": "running"}), encoding="utf-8")
    page = visit("#/training?run=live")
    page.wait_for_selector(".charts svg.chart")
    before = page.locator("[data-chart='0'] svg.chart").first.get_attribute("aria-label")
    with (live / "history.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(lines[len(lines) // 2 :])
    until(page, CHANGED, ["[data-chart='0'] svg.chart", before])
    assert "Class AUC" in page.locator("[data-chart='1'] .legend").inner_text()  # by the names that cards use
    svg = saved(page, "Loss (SVG)").decode()
    assert svg.startswith("<svg")
    assert "var(--" not in svg
    assert saved(page, "Loss (PNG)").startswith(b"\x89PNG")
    shutil.rmtree(live)
