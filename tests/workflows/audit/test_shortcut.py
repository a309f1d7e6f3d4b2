"""A mark in the corner that gives the class away is found; one that seldom does, and is not leaned on, is not."""

from pathlib import Path

import pytest

import conceptlens as cl
from conceptlens import api


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.7, 0.25])  # of marks with the color of the class; with four classes 0.25 is chance
def test_a_planted_shortcut_shows(tmp_path: Path, share: float) -> None:
    recipe = {
        "data": {"source": "shapes", "shapes": {"n": 2000, "size": 64, "shortcut": share}},
        "encoder": {"name": "builtin/vit", "image_size": 64, "train": "none", "store": "run"},
        "method": {"name": "ivq-cbm", "aggregate": "mean"},
        "regularizer": "none",
        "training": {
            "epochs": 25, "batch_size": 64, "learning_rate": 4e-3, "rank_every": 0, "select": "class.accuracy",
            "loss": {"concept_weight": 0.1},
        },
        "metrics": {"bootstrap": 0},
        "out": str(tmp_path / "run"),
    }  # fmt: skip
    run = cl.train(recipe, quiet=True).path
    found = api.audit(run, split="val", by=["shortcut"])
    said = [line for line in found.findings if line.startswith("Class accuracy") and "shortcut" in line]
    group = next(each for each in found.failures.groups if each.group == "random")
    accuracy = next(each for each in group.measures if each.measure == "class accuracy")
    if share == 0.7:
        assert accuracy.difference.value < -0.2
        assert accuracy.p is not None
        assert accuracy.p < 0.05
        assert len(said) == 1
        assert "lower where shortcut is 'random'" in said[0]
        assert "Its classes do not explain it" in said[0]
    else:
        assert accuracy.difference.value > -0.2
        assert not any("lower where shortcut is 'random'" in line for line in said)
