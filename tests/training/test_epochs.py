"""`epochs: auto`: the rule, what the run keeps of it, early stopping, resuming; and what a training warns of."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json
from conceptlens.recipes import Recipe, StageConfig
from conceptlens.recipes.parse import load_recipe
from conceptlens.training import epochs
from conceptlens.training.epochs import auto_epochs, with_epochs
from conceptlens.training.loop import stages_of
from conceptlens.training.records.warnings import mirror_warnings, training_warnings
from tests.training.tiny import tiny, train_interrupted

KEYS = ("epochs", "patience", "validate_every", "warmup")


def recipe(**training: Any) -> Recipe:
    return load_recipe({"data": "shapes", "method": "cbm", "training": training})


@pytest.mark.parametrize(
    ("images", "batch", "expected"),
    [(90, 32, 750), (90, 64, 1500), (7, 32, 1500), (1200, 64, 84), (1600, 32, 30), (1_000_000, 32, 30)],
)
def test_the_rule(images: int, batch: int, expected: int) -> None:
    assert auto_epochs(images, batch) == expected


def test_auto_settles_what_depends_on_it() -> None:
    assert [getattr(recipe().training, key) for key in KEYS] == ["auto", None, None, 5]
    few = with_epochs(recipe(batch_size=32), 90).training
    assert [getattr(few, key) for key in KEYS] == [750, 17, 15, 5]  # 750 / 15 = 50 validations; a third of them
    many = with_epochs(recipe(batch_size=32), 100_000).training
    assert [getattr(many, key) for key in KEYS] == [30, 10, 1, 3]


def test_what_the_user_gave_stays() -> None:
    given = {"epochs": 7, "warmup": 6, "batch_size": 32}
    assert with_epochs(recipe(**given), 90) == recipe(**given)
    own = with_epochs(recipe(patience=0, validate_every=2, warmup=1, batch_size=32), 90).training
    assert [getattr(own, key) for key in KEYS] == [750, 0, 2, 1]


def test_stages_are_as_long_as_the_training_or_as_they_say() -> None:
    made = recipe(batch_size=32, epochs=4)
    made.training.stages = [StageConfig("a"), StageConfig("b", "auto"), StageConfig("c", 2)]
    assert [stage.epochs for stage in stages_of(with_epochs(made, 90))] == [4, 750, 2]
    assert with_epochs(made, 90).training.patience is None
    made.training.epochs = "auto"
    assert [stage.epochs for stage in stages_of(with_epochs(made, 90))] == [750, 750, 2]
    made.training.stages = [StageConfig("fit", kind="fit"), StageConfig("c", 2)]  # none is of the auto length
    assert [getattr(with_epochs(made, 90).training, key) for key in KEYS[1:]] == [None, None, 5]


def test_presets_leave_the_epochs_open_unless_they_were_published() -> None:
    open_presets = ("ivq-cbm", "ivq-cbm-as-printed", "cbm", "cbm-sequential", "cbm-independent", "cem", "explicd")
    for name in open_presets:
        assert load_recipe({"data": "shapes", "method": name}).training.epochs == "auto"
    released = {"ivq-cbm-released": 150, "explicd-released": 150, "mvp-cbm-released": 100, "coop-cbm-released": 30}
    for name, number in released.items():
        assert load_recipe({"data": "shapes", "method": name}).training.epochs == number


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "STEPS", 12)
    monkeypatch.setattr(epochs, "LEAST", 2)


@pytest.mark.slow
def test_the_run_keeps_numbers_and_resumes_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: None
) -> None:
    settings = {"training__epochs": "auto", "training__validate_every": 2}
    whole = cl.train(tiny(tmp_path / "whole", **settings), quiet=True)
    assert whole.recipe.training.epochs == 4  # 62 training images, three steps an epoch
    assert whole.recipe.training.warmup == pytest.approx(0.4)
    assert [line["epoch"] for line in whole.read_history() if line["split"] == "val"] == [0, 2, 4]
    train_interrupted(tiny(tmp_path / "cut", **settings), 8, monkeypatch)
    monkeypatch.setattr(epochs, "STEPS", 999)  # another version's rule: the run's own number counts
    cut = cl.resume(tmp_path / "cut", quiet=True)
    assert cut.recipe.training.epochs == 4
    assert read_json(cut.path / "metrics.json") == read_json(whole.path / "metrics.json")


def test_a_training_without_gain_stops_early_and_says_so(tmp_path: Path, short: None) -> None:
    settings = {"training__epochs": "auto", "training__learning_rate": 1e-9, "training__batch_size": 62}
    settings |= {"method": {"name": "ivq-cbm", "calibrate": False}}  # temperatures would gain something
    run = cl.train(tiny(tmp_path / "run", **settings), quiet=True)
    assert (run.recipe.training.epochs, run.recipe.training.patience) == (12, 4)
    assert run.read_history()[-1]["epoch"] == 5  # the first of equals is the best, four more without a gain


def test_the_estimate_knows_the_number(tmp_path: Path, short: None) -> None:
    assert api.estimate(tiny(tmp_path / "run", training__epochs="auto")).epochs == 4


def lines(values: list[float], *, step: int, key: str = "class.balanced_accuracy") -> list[dict[str, Any]]:
    return [{"split": "val", "epoch": place, "step": step * place, key: value} for place, value in enumerate(values)]


NONE_AT_CHANCE = {"concept": {"groups_at_chance": {"count": 0, "of": 3, "names": []}}}


def test_a_short_training_is_told() -> None:
    made = recipe(epochs=30, batch_size=32)
    [told] = training_warnings(lines([0.2, 0.5, 0.5], step=30), NONE_AT_CHANCE, made, images=90)
    assert told == "The training was short: 60 optimizer steps. Set `training.epochs: auto` (here 750)."
    assert not training_warnings(lines([0.2, 0.5, 0.5], step=150), NONE_AT_CHANCE, made, images=90)


@pytest.mark.parametrize(
    ("curve", "warns"),
    [
        ([0.1, 0.5, 0.6, 0.7, 0.75], True),
        ([0.1, 0.5, 0.6, 0.7, 0.705], False),  # hardly better
        ([0.1, 0.5, 0.6, 0.8, 0.75], False),  # the best is not the last
        ([0.1, 0.9], False),  # nothing to compare with
    ],
)
def test_a_training_that_was_still_improving_is_told(curve: list[float], warns: bool) -> None:
    made = with_epochs(recipe(batch_size=32), 90)
    told = training_warnings(lines(curve, step=1000), NONE_AT_CHANCE, made, images=90)
    assert bool(told) == warns
    if warns:
        assert "still improving: train longer. Set more `training.epochs`" in told[0]
    smaller = recipe(batch_size=32, select="-class.ece")
    falling = lines([-value for value in curve], step=1000, key="class.ece")
    assert bool(training_warnings(falling, NONE_AT_CHANCE, smaller, images=90)) == warns


def test_groups_at_chance_are_told_where_concepts_were_trained() -> None:
    found = {"concept": {"groups_at_chance": {"count": 2, "of": 3, "names": ["color", "size"]}}}
    [told] = training_warnings(lines([0.2, 0.5], step=500), found, recipe(epochs=9, learning_rate=1e-4), images=5000)
    assert told.startswith("2 of 3 concept groups are read no better than by chance on validation images: color, size.")
    assert "`training.epochs: auto` (here 30)" in told
    assert "(now 0.0001)" in told
    assert not training_warnings(lines([0.2, 0.5], step=500), found, recipe(loss={"concept_weight": 0}), images=5000)
    assert not training_warnings(lines([0.2, 0.5], step=0), found, recipe(), images=5000)  # nothing was trained


def test_warnings_are_kept_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = cl.train(tiny(tmp_path / "run"))
    [first, *_] = run.info["warnings"]
    assert first == "The training was short: 9 optimizer steps. Set `training.epochs: auto` (here 500)."
    assert f"warning: {first}" in capsys.readouterr().err
    assert f"warning: {first}" in run.text()
    assert "The training was short: 9 optimizer steps." in (run.path / "report.html").read_text("utf-8")


def test_what_is_told_of_groups_at_chance_where_training_longer_would_not_help() -> None:
    found = {"concept": {"groups_at_chance": {"count": 1, "of": 3, "names": ["color"]}}}
    falling = lines([0.2, 0.7, 0.6, 0.6, 0.5, 0.5], step=500)
    [told] = training_warnings(falling, found, recipe(epochs=9), images=5000, where="cross-validated")
    assert "by chance on cross-validated images: color. Training longer would not help" in told
    assert "training.epochs" not in told
    made = recipe(epochs=9)
    fold = replace(made, data=replace(made.data, split=replace(made.data.split, folds=5)))
    assert not training_warnings(falling, found, fold, images=5000)  # its validation images are too few to say so


def test_values_that_do_not_hold_in_a_mirrored_image_are_told() -> None:
    concepts = ConceptSet.from_yaml("classes: [a]\ngroups: {side: {values: [left lung, right lung, both]}}")
    augment = recipe().training.augment
    [told] = mirror_warnings(concepts, augment)
    assert told == (
        "Mirrored images would be wrong of side: left lung, side: right lung. "
        "Set training.augment.flip_horizontal: false."
    )
    assert not mirror_warnings(concepts, replace(augment, flip_horizontal=False))
