"""The trust view in a real browser: what the documents say, what is missing, what a good value is."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conceptlens.core.files import read_json
from conceptlens.runs.results import register_result, unregister_result
from tests.web.browser import CHROMIUM, Open, saved, until
from tests.web.test_page import CONTROLS, TOO_SMALL, UNNAMED

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

SECTIONS = ("corrections", "leakage", "calibration", "subgroups", "uncertainty", "maps", "audit")
DOCUMENTS = ("interventions", "leakage", "failures", "faithfulness")
FIGURES = {
    "corrections": {"Class accuracy with right corrections", "Class accuracy with wrong corrections"},
    "leakage": {"Accuracies of leakage tests", "Information about the class beyond the own label"},
    "calibration": {"Calibration: class", "Calibration: all concepts"},
    "subgroups": {"class accuracy by subgroup"},
    "uncertainty": {"Coverage of prediction sets", "Error against share answered"},
    "maps": {"Share of the map on the region by map", "Insertion and deletion"},
    "audit": set(),
}
DRAWN = "[...document.querySelectorAll('main svg[data-figure]')].map((each) => each.dataset.figure)"
JUDGE = """async ([name, found]) => {
    const verdicts = await import("/static/js/parts/trust/verdicts.js");
    return verdicts[name](found);
}"""


@pytest.fixture(scope="module")
def runs(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With two more: one whose documents are damaged or of an older version, one that a test measures."""
    root = Path(shutil.copytree(measured, tmp_path_factory.mktemp("trusted") / "runs"))
    old = Path(shutil.copytree(root / "measured", root / "old"))
    failures = read_json(old / "trust" / "failures.json")
    del failures["calibration"]["points"]
    (old / "trust" / "failures.json").write_text(json.dumps(failures), "utf-8")
    (old / "trust" / "leakage.json").write_text('{"schema": 1, "findings": 3}', "utf-8")
    (old / "trust" / "interventions.json").write_text('{"schema":', "utf-8")
    (old / "manifest.jsonl").unlink()  # else the edits would be what is said
    shutil.copytree(root / "bare", root / "later")
    return root


@pytest.fixture
def look() -> dict[str, str]:
    return {"shows": ".view-trust .trust .card"}


def document(runs: Path, name: str) -> Any:
    return read_json(runs / "measured" / name)


def percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def choose(page: Any, section: str) -> None:
    page.locator(".sections").get_by_role("button", name=section, exact=True).click()


@pytest.mark.slow
def test_the_summary_says_what_each_document_says(visit: Open, runs: Path) -> None:
    page = visit("#/trust?run=measured")
    text = page.locator(".trust").inner_text()
    assert document(runs, "trust/leakage.json")["summary"] in text
    assert percent(document(runs, "trust/interventions.json")["start"]["value"]) in text
    assert document(runs, "localization.json")["verdict"]["reason"] in text
    assert page.locator(".trust-cards .card").count() == 8
    assert ["conceptlens trust" in words for words in page.locator(".trust .command").all_inner_texts()] == [True]
    assert page.locator(".trust-strip").get_by_role("link", name="leakage").get_attribute("title")
    page.get_by_role("button", name="Open Leakage").click()
    until(page, "location.hash.includes('section=leakage')")
    assert page.locator("h1").inner_text() == "Trust: leakage"
    assert json.loads(saved(page, "leakage (JSON)")) == document(runs, "trust/leakage.json")


@pytest.mark.slow
def test_every_section_opens_by_its_address(visit: Open, runs: Path) -> None:
    page = visit("#/trust?run=measured")
    for section in SECTIONS:
        page.evaluate("(section) => { location.hash = `#/trust?run=measured&section=${section}`; }", section)
        until(page, "(title) => document.querySelector('h1')?.textContent === title", f"Trust: {section}")
        drawn = page.evaluate(DRAWN)
        assert FIGURES[section] <= set(drawn), section
        assert page.locator(".empty").count() == 0, section
        assert page.locator(".view-head .about").inner_text()
        for figure in page.locator("svg[data-figure]").all():
            card = figure.locator("xpath=ancestor::section[1]")
            assert "Good:" in card.inner_text(), figure.get_attribute("data-figure")
    told = page.locator(".trust").inner_text()
    for sentence in document(runs, "audit/audit.json")["failures"]["findings"]:
        assert sentence in told


@pytest.mark.slow
def test_an_image_that_is_named_is_a_link_to_it(visit: Open, runs: Path) -> None:
    page = visit("#/trust?run=measured&section=corrections")
    name = next(each["image"] for each in document(runs, "trust/interventions.json")["ask"] if each["ask"])
    page.locator(".trust").get_by_role("link", name=name, exact=True).first.click()
    until(page, "() => location.hash.includes('image=test%2F') && !location.hash.includes('name=')")
    page.wait_for_selector(".story .sentence")
    row = int(page.evaluate("decodeURIComponent(location.hash).match(/image=test.(\\d+)/)[1]"))
    shown = page.locator(f".thumb[data-image='test/{row}']")
    assert shown.get_attribute("aria-label").startswith(f"Image {name}")
    page.evaluate("location.hash = '#/image?run=measured&name=nobody.png'")
    page.get_by_text("No image of test is named nobody.png").wait_for()


@pytest.mark.slow
def test_intervention_curves_have_their_ceiling(visit: Open, runs: Path) -> None:
    found = document(runs, "trust/interventions.json")
    page = visit("#/trust?run=measured&section=corrections")
    for label, key in (("right", "points"), ("wrong", "wrong")):
        figure = page.locator(f"svg[data-figure='Class accuracy with {label} corrections']")
        told = figure.get_attribute("aria-label")
        for curve in found["curves"]:
            first, last = (percent(curve[key][place]["value"]) for place in (0, -1))
            assert f"{curve['policy']}: from {first} to {last}" in told
        assert f"label → class ceiling: {percent(found['ceiling']['value'])}" in told
        assert figure.locator("line.bound:not(.faint)").count() == 1
        assert figure.locator("path.line").count() == len(found["curves"])
        assert figure.locator("path.band").count() == len(found["curves"])
    page.get_by_label("Order of correction").focus()
    page.get_by_label("Order of correction").select_option("influence")
    until(page, "document.querySelectorAll('main svg[data-figure*=right] path.line').length === 1")
    assert page.evaluate("document.activeElement.tagName") == "SELECT"
    again = visit(page.url.split("/", 3)[3])
    assert again.get_by_label("Order of correction").input_value() == "influence"
    assert again.locator("svg[data-figure*=wrong] path.line").count() == 1
    svg = saved(page, "Class accuracy with right corrections (SVG)").decode()
    assert svg.startswith("<svg")
    assert "var(--" not in svg


@pytest.mark.slow
def test_every_measure_of_leakage_says_what_is_good(visit: Open, runs: Path) -> None:
    found = document(runs, "trust/leakage.json")
    page = visit("#/trust?run=measured&section=leakage")
    rows = page.locator(".findings li").all_inner_texts()
    assert len(rows) == len(found["findings"])
    for row, finding in zip(rows, found["findings"], strict=True):
        assert finding["name"].strip() in row
        assert finding["good"][1:] in row
        low, high = finding["estimate"]["interval"] or (None, None)
        assert (
            low is None
            or finding["estimate"]["value"] is None
            or f"({low:z.3f} to {high:z.3f})".replace("-", "−") in row
        )


@pytest.mark.slow
def test_reliability_of_class_and_concepts(visit: Open, runs: Path) -> None:
    found = document(runs, "trust/failures.json")
    page = visit("#/trust?run=measured&section=calibration")
    drawn = page.locator("svg[data-figure='Calibration: class'] path.marker")
    assert drawn.count() == len(found["calibration"]["points"])
    assert page.locator("svg[data-figure='Calibration: class'] rect.allowed").count() == drawn.count()
    question = found["concept_calibration"][2]
    page.locator("label", has_text="Concept").locator("select").select_option(question["question"])
    figure = page.locator(f"svg[data-figure='Calibration: {question['question']}']")
    figure.wait_for()
    point = question["points"][0]
    assert f"said {percent(point['confidence'])}, right {percent(point['right'])}" in figure.get_attribute("aria-label")
    assert "question=" in page.evaluate("location.hash")


@pytest.mark.slow
def test_subgroups_by_another_measure_and_column(visit: Open, runs: Path) -> None:
    found = document(runs, "trust/failures.json")
    column = found["columns"][0]
    page = visit(f"#/trust?run=measured&section=subgroups&measure=concept+accuracy&by={column}")
    figure = page.locator("svg[data-figure='concept accuracy by subgroup']")
    told = figure.get_attribute("aria-label")
    for group in found["groups"]:
        value = next(each for each in group["measures"] if each["measure"] == "concept accuracy")["value"]["value"]
        line = f"{group['column']}: {group['group']}: the subgroup {percent(value)}"
        assert (line in told) is (group["column"] == column)


def test_what_is_missing_is_named_with_its_command(visit: Open, base: str) -> None:
    page = visit("#/trust?run=bare")
    commands = page.request.get(f"{base}/api/v1/runs/bare").json()["missing"]
    shown = page.locator(".trust-cards code").all_inner_texts()
    assert set(shown) == {commands[name] for name in (*DOCUMENTS, "localization")}
    whole, apart = page.locator(".trust > .card code").all_inner_texts()
    assert whole == commands["trust"]
    assert apart.split(" && ") == [commands[name] for name in (*DOCUMENTS[:3], "localization", "faithfulness")]
    for section, name in zip(SECTIONS[:4], (*DOCUMENTS[:3], DOCUMENTS[2]), strict=True):
        choose(page, section.capitalize())
        assert page.locator(".empty code").inner_text() == commands[name], section
    choose(page, "Maps")
    assert page.locator(".empty code").all_inner_texts() == [commands["localization"], commands["faithfulness"]]
    points, shows = page.locator(".empty").all_inner_texts()
    assert "masks, boxes or points" in points
    assert "masks, boxes or points" not in shows  # what maps show is measured without them


@pytest.mark.slow
def test_patches_that_a_map_chose_say_how_far_it_can_be_believed(visit: Open) -> None:
    page = visit("#/trust?run=measured")
    for run, words in (("measured", "did not pass their test"), ("bare", "were not tested")):
        page.evaluate("(run) => { location.hash = `#/concepts?run=${run}`; }", run)
        page.get_by_text(f"The maps of this model {words}").wait_for()


def test_a_registered_result_is_shown_as_a_table(visit: Open, runs: Path) -> None:
    register_result("sparsity", "sparsity.json", "How many concepts decide.")
    numbers = {"schema": 1, "by_class": {"<b>cat</b>": 3.14159, "dog": None}}
    (runs / "later" / "sparsity.json").write_text(json.dumps(numbers), "utf-8")
    try:
        part = visit("#/trust?run=later").locator(".other-result")
        assert part.locator("p").inner_text() == "How many concepts decide."
        assert part.locator("tbody th").all_inner_texts() == ["by_class.<b>cat</b>", "by_class.dog"]
        assert part.locator("tbody td").all_inner_texts() == ["3.142", "-"]
    finally:
        unregister_result("sparsity")
        (runs / "later" / "sparsity.json").unlink()


@pytest.mark.slow
def test_a_method_without_concepts_has_no_concept_measures(visit: Open) -> None:
    page = visit("#/trust?run=blind&section=leakage")
    assert "reads no concepts" in page.locator(".empty").inner_text()
    assert page.locator(".empty code").count() == 0
    choose(page, "Calibration")
    assert "conceptlens audit" in page.locator(".empty code").inner_text()


@pytest.mark.slow
def test_what_cannot_be_read_is_said_and_the_rest_is_shown(visit: Open) -> None:
    page = visit("#/trust?run=old&section=calibration")
    assert "older version" in page.locator(".empty").inner_text()
    assert "conceptlens audit" in page.locator(".empty code").inner_text()
    choose(page, "Leakage")
    assert "cannot be shown" in page.locator("[role=alert]").inner_text()
    assert "conceptlens leakage" in page.locator("[role=alert] code").inner_text()
    choose(page, "Corrections")
    assert "expected JSON" in page.locator("[role=alert]").inner_text()
    choose(page, "Uncertainty")
    assert page.locator("svg[data-figure='Coverage of prediction sets']").count() == 1
    choose(page, "Summary")
    assert page.locator(".trust-cards .card").count() == 8


@pytest.mark.slow
def test_a_new_document_appears(visit: Open, runs: Path) -> None:
    page = visit("#/trust?run=later&section=leakage")
    assert page.locator(".empty").count() == 1
    (runs / "later" / "trust").mkdir(exist_ok=True)
    shutil.copy(runs / "measured" / "trust" / "leakage.json", runs / "later" / "trust" / "leakage.json")
    page.get_by_role("button", name="Reload").click()
    page.wait_for_selector(".findings li")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_and_every_control_has_a_name(visit: Open, width: int, scheme: str) -> None:
    page = visit("#/trust?run=measured", width=width, scheme=scheme)
    for _ in (None, *SECTIONS):
        title = page.locator("h1").inner_text()
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide <= seen, f"{title} is {wide} pixels wide"
        assert page.evaluate(UNNAMED, CONTROLS) == [], title
        assert page.evaluate(TOO_SMALL) == [], title
        page.keyboard.press("j")
        until(page, "(title) => document.querySelector('h1').textContent !== title", title)
    assert page.locator("h1").inner_text() == "Trust"
    page.keyboard.press("k")
    until(page, "document.querySelector('h1').textContent === 'Trust: audit'")


def _interventions(outcome: str) -> dict[str, Any]:
    return {"verdict": {"outcome": outcome, "reason": "So it was measured."}}


def _maps(low: float, high: float) -> dict[str, Any]:
    energy = {"energy": {"value": 0.4}}
    maps = {"own": energy, "center_prior": energy, "uniform": energy}
    against = {"own - center_prior": {"energy": {"value": (low + high) / 2, "interval": [low, high]}}}
    return {"targets": {"object": {"maps": maps, "against": against}}}


def _judged(side: str, outcome: str) -> dict[str, Any]:
    return {"verdicts": {side: {"outcome": outcome, "reason": "So it was judged."}}, "groups": [{}]}


@pytest.mark.slow
def test_verdicts_need_significance(visit: Open) -> None:
    page = visit("#/trust?run=bare")
    cases = [
        ("ofInterventions", _interventions("pass"), "good"),
        ("ofInterventions", _interventions("finding"), "bad"),
        ("ofInterventions", _interventions("unmeasured"), "none"),
        ("ofInterventions", {}, "plain"),  # of an older version
        ("ofLeakage", {"leaks": True, "summary": "It leaks."}, "bad"),
        ("ofLeakage", {"leaks": False, "summary": "No."}, "good"),
        ("ofLeakage", {"leaks": None, "summary": "Not testable."}, "none"),
        ("ofLeakage", {"leaks": True, "summary": "No.", "verdict": {"outcome": "pass", "reason": "No."}}, "good"),
        ("ofLeakage", {"leaks": False, "summary": "Yes.", "verdict": {"outcome": "finding", "reason": "Yes."}}, "bad"),
        ("ofLeakage", {"leaks": True, "summary": "?.", "verdict": {"outcome": "unmeasured", "reason": "?"}}, "none"),
        ("ofMaps", _maps(0.1, 0.2), "good"),
        ("ofMaps", _maps(-0.2, -0.1), "bad"),
        ("ofMaps", _maps(-0.1, 0.2), "look"),
        ("ofCalibration", _judged("calibration", "pass"), "good"),
        ("ofCalibration", _judged("calibration", "finding"), "bad"),
        ("ofCalibration", {}, "plain"),  # of an older version
        ("ofGroups", _judged("subgroups", "finding"), "bad"),
        ("ofGroups", _judged("subgroups", "unmeasured"), "none"),
        ("ofGroups", {"groups": []}, "none"),  # no groups is not measured
        ("ofSets", _judged("uncertainty", "finding"), "bad"),
    ]
    for name, found, expected in cases:
        said = page.evaluate(JUDGE, [name, found])
        assert said["verdict"] == expected, (name, said)
        assert said["says"].endswith("."), said
