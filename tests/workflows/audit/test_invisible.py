"""Concepts that leave no trace in the image are found among those that can be seen."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import conceptlens as cl
from conceptlens import api
from conceptlens.data.sources.shapes import HIDDEN


@pytest.mark.slow
def test_planted_invisible_concepts_are_separated_from_visible_ones(tmp_path: Path) -> None:
    recipe = {
        "data": {"source": "shapes", "shapes": {"n": 600, "size": 64, "invisible": 4}},
        "encoder": {"name": "builtin/vit", "image_size": 64, "train": "none", "store": "run"},
        "method": "pcbm",
        "metrics": {"bootstrap": 0},
        "out": str(tmp_path / "run"),
    }
    run = cl.train(recipe, quiet=True).path
    concepts = api.audit(run).concepts
    hidden = np.array([each.concept.startswith(HIDDEN) for each in concepts])
    assert hidden.sum() == 4
    read = np.array([each.auc for each in concepts], dtype=float)
    assert roc_auc_score(~hidden, read) > 0.9
    assert read[~hidden].mean() > 0.7
    unread = np.array(["at chance" in each.kinds for each in concepts])
    assert unread[hidden].mean() >= 0.75
    assert unread[~hidden].mean() < 0.25
