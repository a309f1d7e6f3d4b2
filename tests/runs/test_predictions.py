"""Predictions that a run keeps: what was measured can be measured again from them; damage is noticed."""

from pathlib import Path

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.evaluation.classification.classification import class_metrics
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.predictions import load_predictions


def test_they_give_what_the_run_measured(own_run: Path) -> None:
    stored = load_predictions(own_run)
    measured = read_json(own_run / "metrics.json")["splits"]["test"]
    again = class_metrics(class_probabilities(stored.logits, stored.task), stored.labels, stored.task)
    assert again["confusion"] == measured["class"]["confusion"]
    assert again["macro_auc"] == pytest.approx(measured["class"]["macro_auc"])
    concepts = ConceptSet.load(own_run / "concepts.yaml")
    assert concept_metrics(stored.concept_logits, stored.concepts, concepts)["auc"] == pytest.approx(
        measured["concept"]["auc"]
    )
    assert list(stored.ids) == read_json(own_run / "splits.json")["splits"]["test"]
    assert list(stored.thresholds) == read_json(own_run / "model" / "model.json")["thresholds"]
    assert len(stored.units) == len(stored.ids)


def test_missing_and_damaged_files_are_said_so(own_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Train it again"):
        load_predictions(tmp_path)
    file = tmp_path / "predictions" / "test.safetensors"
    file.parent.mkdir()
    data = (own_run / "predictions" / "test.safetensors").read_bytes()
    file.write_bytes(data[:50])
    with pytest.raises(UserError, match="expected what training writes"):
        load_predictions(tmp_path)
    from tests.workflows.compare.fakes import write_predictions

    tensors = {"logits": np.zeros((2, 2), np.float32), "concept_logits": np.zeros((2, 3), np.float32)}
    tensors |= {"labels": np.zeros(2, np.int64), "concepts": np.zeros((2, 3), np.int8)}
    write_predictions(file, tensors, ["a"], ["a"])
    with pytest.raises(UserError, match="different numbers of images"):
        load_predictions(tmp_path)
