"""`conceptlens refine`: what is trained, what is compared, and what is refused before anything is trained."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.cli import main
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.predictions import load_predictions
from conceptlens.stats.estimates import Estimate
from conceptlens.workflows.refine.document import Contrast, Refinement, Row
from tests.conftest import Refuse
from tests.own_data import OwnData


@pytest.fixture
def run(own_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(own_run, tmp_path / "run"))


def test_before_after_and_control(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["refine", str(run), "--replace", "border: regular=evenly drawn", "--quiet"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "after − before" in said
    assert "One seed a side" in said
    (folder,) = (run / "refine").iterdir()
    found = Refinement.read(folder / "refine.json")
    assert found.runs["before"] == [str(run)]
    after, control = Path(found.runs["after"][0]), Path(found.runs["control"][0])
    assert ConceptSet.load(after / "concepts.yaml").texts[0] == "a lesion with a evenly drawn border"
    (other,) = found.control["0"]
    changed = ConceptSet.load(control / "concepts.yaml")
    assert "evenly drawn" in changed.texts[changed.names.index(other)]
    assert changed.texts[0] == "a lesion with a regular border"
    recipes = [load_recipe(each / "recipe.yaml") for each in (run, after)]
    assert recipes[0].seed == recipes[1].seed
    assert recipes[0].training == recipes[1].training
    row = next(each for each in found.rows if each.measure == "class.accuracy")
    for side, place in (("before", run), ("after", after), ("control", control)):
        kept = load_predictions(place)
        assert row.values[side].value == pytest.approx((kept.logits.argmax(1) == kept.labels).mean())
    gains = {each.name: each.estimate.value for each in row.contrasts}
    assert gains["after − before"] == pytest.approx(
        (row.values["after"].value or 0) - (row.values["before"].value or 0)
    )
    assert (folder / "refine.png").read_bytes()[:4] == b"\x89PNG"
    # Asked again, nothing is trained again.
    times = (after / "run.json").stat().st_mtime_ns
    assert main(words) == 0
    assert (after / "run.json").stat().st_mtime_ns == times


@pytest.mark.slow
def test_fewer_concepts_and_several_seeds(run: Path) -> None:
    found = api.refine(run, drop=["signs: hair"], seeds=2, control=False, out=run / "here")
    assert found.seeds == [0, 1]
    assert list(found.runs) == ["before", "after"]
    assert "signs: hair" not in ConceptSet.load(Path(found.runs["after"][1]) / "concepts.yaml").names
    assert all(row.measure.startswith("class.") for row in found.rows)
    assert read_json(run / "here" / "before-1" / "run.json")["seed"] == 1
    row = found.rows[0]
    rights = [
        np.mean(kept.logits.argmax(1) == kept.labels) for kept in map(load_predictions, map(Path, found.runs["after"]))
    ]
    assert row.values["after"].value == pytest.approx(np.mean(rights))


@pytest.mark.slow
def test_another_name_is_found_in_the_table(mine: OwnData, tmp_path: Path) -> None:
    made = cl.train(mine.recipe, {"out": str(tmp_path / "run")}, quiet=True)
    found = api.refine(made.path, replace=["irregular=ragged"], rename=True, control=False)
    after = Path(found.runs["after"][0])
    assert ConceptSet.load(after / "concepts.yaml").names[1] == "border: ragged"
    np.testing.assert_array_equal(load_predictions(after).concepts, load_predictions(made.path).concepts)


def test_what_is_refused(run: Path, refuse: Refuse) -> None:
    refuse("refine", run, says="Nothing to change")
    refuse("refine", run, "--replace", "regular=x", "--drop", "hair", says="one at a time")
    refuse("refine", run, "--replace", "reglar=x", says="Did you mean")
    refuse("refine", run, "--drop", "hair", "--drop", "signs: hair", says="named twice")
    refuse("refine", run, "--replace", "regular=x", "--seeds", "0", says="expected 1 or more")
    assert not (run / "refine").exists()


def row(gain: float, p: float, control: float | None, p_control: float = 1.0) -> Refinement:
    contrasts = [Contrast(name="after − before", estimate=Estimate(value=gain), p=p)]
    if control is not None:
        contrasts.append(Contrast(name="after − control", estimate=Estimate(value=control), p=p_control))
    measured = Row(measure="class.balanced_accuracy", name="class balanced accuracy", values={}, contrasts=contrasts)
    return Refinement(
        run="r",
        method="m",
        data="d",
        split="test",
        images=1,
        seeds=[0],
        replaced=["a=b"],
        dropped=[],
        control={},
        rows=[measured],
        runs={},
        notes=[],
    )


def test_verdicts() -> None:
    assert row(0.1, 0.5, 0.1).verdict().startswith("No significant change")
    assert "differs significantly from the control" in row(0.1, 0.01, 0.1, 0.01).verdict()
    assert "does not differ significantly" in row(0.1, 0.01, 0.01, 0.5).verdict()
    assert "falls" in row(-0.1, 0.01, None).verdict()
