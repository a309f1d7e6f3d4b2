"""From finished runs to verdicts, tables and figures; runs are fakes of a known quality."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.workflows.compare.compare import Compared, compare, plan
from conceptlens.workflows.compare.figures import Band, Point, curves, plane
from conceptlens.workflows.compare.table import html, latex, markdown
from tests.workflows.compare.fakes import comparison_file, finish, jobs_of

THREE = {
    "good": {"random_text": True},
    "twin": {"set": {"training.clip": 2.0}, "random_text": False},
    "poor": {"set": {"regularizer": "l2"}, "random_text": False},
}
QUALITY = {"good": 2.5, "twin": 2.5, "poor": 0.3, "good (random text)": 0.3}


def compared(folder: Path, *, by_class: bool = False, bypass: str | None = None, **changes: Any) -> Compared:
    file = comparison_file(folder, **({"recipes": THREE, "seeds": [0, 1, 2]} | changes))
    jobs, places = jobs_of(file, folder / "out")
    for job in jobs:
        name = job.cell.entry.name
        folds = job.recipe.data.split.folds
        rows = slice(job.cell.fold, None, folds) if folds else None
        finish(
            job,
            places,
            quality=QUALITY.get(name, 1.0),
            n=160,
            by_class=by_class,
            rows=rows,
            bypass=bypass if name == "poor" else None,
        )
    return compare(file, out=folder / "out", quiet=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    return compared(tmp_path_factory.mktemp("three"), bypass="a residual")


def test_real_differences_are_found_and_others_are_not(found: Compared) -> None:
    (block,) = found.results["data"][0]["blocks"]
    assert block["supervision"] == "image-labels"
    by_pair = {
        (each["first"], each["second"]): each
        for each in block["comparisons"]
        if each["measure"] == "class.balanced_accuracy"
    }
    assert not by_pair["good", "twin"]["different"]
    assert by_pair["good", "poor"]["different"]
    assert by_pair["twin", "poor"]["difference"] > 0.15
    assert block["best"] == dict.fromkeys(block["best"])  # good and twin do not differ significantly: none is best
    assert "no significant difference from" in block["verdicts"]["twin"] + block["verdicts"]["good"]
    assert "smallest detectable" in block["verdicts"]["twin"] + block["verdicts"]["good"]
    assert "behind" in block["verdicts"]["poor"]


def test_controls_stand_behind_their_method_and_are_judged_against_it_alone(found: Compared) -> None:
    (block,) = found.results["data"][0]["blocks"]
    assert [row["name"] for row in block["rows"]] == ["good", "good (random text)", "twin", "poor"]
    assert {(each["first"], each["second"]) for each in block["controls"]} == {("good", "good (random text)")}
    assert not any("random" in each["first"] + each["second"] for each in block["comparisons"])
    assert "behind good" in block["verdicts"]["good (random text)"]


def test_numbers_of_the_runs_are_kept(found: Compared) -> None:
    row = found.results["data"][0]["blocks"][0]["rows"][0]
    assert row["numbers"]["rank.effective"] == {"mean": 8.0, "sd": 1.0, "by_run": [7.0, 8.0, 9.0]}
    assert row["numbers"]["effective_concepts"]["mean"] == 1.5
    assert row["numbers"]["seconds"]["mean"] == 4.0
    assert row["ranks"]["rank.effective"] == [[0, 5.0, 5.0, 5.0], [1, 6.0, 6.0, 6.0], [2, 7.0, 7.0, 7.0]]
    accuracy = row["measures"]["class.accuracy"]
    assert accuracy["mean"] == pytest.approx(np.mean(accuracy["by_training"]))
    assert accuracy["interval"][0] < accuracy["mean"] < accuracy["interval"][1]
    assert (found.results["data"][0]["images"], found.results["data"][0]["units"]) == (160, 80)


def test_files_are_written_and_readable(found: Compared) -> None:
    assert read_json(found.out / "results.json")["data"][0]["name"] == "shapes"
    assert read_json(found.out / "run.json")["kind"] == "compare"
    assert read_json(found.out / "run.json")["status"] == "done"
    figures = sorted(file.name for file in (found.out / "figures").iterdir())
    assert figures == ["shapes-effective-concepts.svg", "shapes-rank-effective.svg"]
    for file in (found.out / "figures").iterdir():
        ElementTree.fromstring(file.read_text("utf-8"))
    table = (found.out / "table.md").read_text("utf-8")
    assert table == found.markdown
    assert "| **Labels per image** |" in table
    assert "poor [bypass: a residual]" in table
    assert "| ↳ good (random text) |" in table
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len({row.count("|") for row in rows}) == 1
    tex = (found.out / "table.tex").read_text("utf-8")
    assert tex.count("\\begin{tabular}") == tex.count("\\end{tabular}") == 1
    assert "95 \\% intervals" in tex


def test_the_best_is_bold_where_it_stands_out(tmp_path: Path) -> None:
    result = compared(tmp_path, recipes={"good": THREE["good"] | {"random_text": False}, "poor": THREE["poor"]})
    (block,) = result.results["data"][0]["blocks"]
    assert block["best"]["class.balanced_accuracy"] == "good"
    assert block["verdicts"]["good"] == "best"
    line = next(line for line in result.markdown.splitlines() if line.startswith("| good"))
    assert line.count("**") >= 2
    assert "\\textbf{" in (result.out / "table.tex").read_text("utf-8")


def test_blocks_are_never_ranked_across(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IVQCBM, "supervision", "text", raising=False)
    recipes = {"good": {"random_text": False}, "poor": THREE["poor"] | {"supervision": "image-labels"}}
    result = compared(tmp_path, recipes=recipes)
    blocks = result.results["data"][0]["blocks"]
    assert [block["supervision"] for block in blocks] == ["text", "image-labels"]
    assert not any(block["comparisons"] or block["verdicts"] for block in blocks)
    assert not any(best for block in blocks for best in block["best"].values())
    assert "**Text only**" in result.markdown
    monkeypatch.setattr(IVQCBM, "supervision", "hearsay")
    with pytest.raises(UserError, match="hearsay"):
        compare(tmp_path / "comparison.yaml", out=tmp_path / "out", quiet=True)


def test_labels_that_follow_from_the_class_are_a_class_table(tmp_path: Path) -> None:
    result = compared(tmp_path, by_class=True, seeds=[0], recipes={"one": {"random_text": False}})
    (block,) = result.results["data"][0]["blocks"]
    assert block["supervision"] == "class-table"
    assert "concept.auc_within_class" not in block["rows"][0]["measures"]


def test_folds_are_pooled_and_repeats_count_as_trainings(tmp_path: Path) -> None:
    result = compared(tmp_path, folds={"k": 4, "repeats": 2}, seeds=[0], recipes={"one": {"random_text": False}})
    data = result.results["data"][0]
    assert data["images"] == 160
    assert data["blocks"][0]["rows"][0]["trainings"] == 2
    assert "4 folds, 2 repeats" in result.markdown


def test_runs_on_other_images_are_refused(tmp_path: Path) -> None:
    file = comparison_file(tmp_path)
    jobs, places = jobs_of(file, tmp_path / "out")
    for number, job in enumerate(jobs):
        finish(job, places, n=50 + 10 * (number == 3))
    with pytest.raises(UserError, match="different images"):
        compare(file, out=tmp_path / "out", quiet=True)


def test_tables_survive_any_name() -> None:
    row = {"name": "a|b_c%", "control_of": None, "bypass": None, "trainings": 1, "measures": {}, "numbers": {}}
    block = {"title": "T & U", "rows": [row], "verdicts": {}, "best": {}}
    data = {"name": "d_1", "images": 1, "units": 1, "classes": 2, "zero_shot": [], "blocks": [block]}
    found = {
        "name": "x*",
        "folds": None,
        "trials": 0,
        "jobs": {"done": 1, "of": 2},
        "failed": [{"job": "j", "reason": "r"}],
        "statistics": {"confidence": 0.95, "alpha": 0.05, "power": 0.8, "primary": "class.accuracy"},
        "data": [data],
    }
    table, tex = markdown(found), latex(found)
    assert "a\\|b_c%" in table
    assert "Unfinished: 1 of 2" in table
    assert "1 jobs failed: j" in table
    assert "a|b\\_c\\%" in tex
    assert "T \\& U" in tex
    shown = html(found)
    assert "<td>a|b_c%" in shown
    assert "T &amp; U" in shown
    assert "Unfinished: 1 of 2" in shown


def test_figures_by_hand() -> None:
    drawing = curves("Rank", "rank", [Band("a <b>", [[0, 1.0, 0.5, 1.5], [4, 3.0, 2.0, 5.0]])])
    root = ElementTree.fromstring(drawing)
    space = "{http://www.w3.org/2000/svg}"
    paths = [path.get("d") or "" for path in root.iter(f"{space}path")]
    assert any(path.startswith("M56.0 ") and "L430.0 " in path for path in paths)  # from the axis to the last epoch
    assert "a <b>" in [text.text for text in root.iter(f"{space}text")]
    assert curves("Rank", "rank", [Band("a", [])]) == ""
    same = [Point("a", 3.0, 90.0, (80.0, 95.0)), *(Point(str(n), 3.0, 90.0, None) for n in range(9))]
    point = ElementTree.fromstring(plane("t", "x", "y", same))
    marks = [path for path in point.iter(f"{space}path") if path.get("transform")]
    assert len(marks) == 2 * len(same)  # in the plane and in the legend
    assert len({(mark.get("d"), mark.get("fill")) for mark in marks}) == len(same)  # no two look alike
    across = [float(re.findall(r"[\d.]+", mark.get("transform") or "")[0]) for mark in marks[: len(same)]]
    assert sorted(across) == sorted(set(across))  # nor do they hide each other
    assert max(across) <= 430
    assert plane("t", "x", "y", []) == ""


def test_the_plan_learns_from_finished_jobs(tmp_path: Path) -> None:
    file = comparison_file(tmp_path)
    jobs, places = jobs_of(file, tmp_path / "out")
    finish(jobs[0], places)
    told = plan(file, out=tmp_path / "out")
    assert told.states[jobs[0].id] == "done"
    assert told.seconds["shapes", "one"] == 12.0
    assert told.correction is not None
    costs = read_json(tmp_path / "out" / "costs.json")["seconds"]
    assert len(costs) == 2
    estimated = sorted(costs.values())
    assert told.seconds["shapes", "two"] == pytest.approx(12.0 * estimated[0] / estimated[1], rel=1e-6) or told.seconds[
        "shapes", "two"
    ] == pytest.approx(12.0 * estimated[1] / estimated[0], rel=1e-6)
    text = told.text()
    assert "shapes / one" in text
    assert "nothing was started" in text
    assert plan(file, out=tmp_path / "out").seconds == told.seconds
