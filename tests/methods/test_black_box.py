"""The black box: what has no concepts says none, from the loss to the report."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

import conceptlens as cl
from conceptlens.api import explain, export
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.black_box import BlackBox
from conceptlens.methods.build import Blueprint, build_pipeline
from conceptlens.nn.setup import Setup
from conceptlens.recipes import LossConfig
from conceptlens.recipes.parse import load_recipe
from conceptlens.stats.questions import exists
from conceptlens.training.optimization.losses import SupervisedLoss, Targets
from conceptlens.workflows.compare.measures import Answers, questions
from tests.own_data import OwnData
from tests.training.tiny import tiny


def tokens() -> Tokens:
    patches = torch.randn(3, 9, 8, generator=torch.Generator().manual_seed(5))
    return Tokens(patches, (3, 3), cls=patches[:, 0])


def test_it_is_a_linear_map_of_one_vector(setup: Setup) -> None:
    model, seen = BlackBox(setup), tokens()
    _, linear = model.classify
    torch.testing.assert_close(model(seen).logits, seen.cls @ linear.weight.T + linear.bias)
    mean = BlackBox(setup, pool="mean")
    torch.testing.assert_close(mean(seen).logits, mean.classify(seen.patches.mean(1)))
    with pytest.raises(UserError, match="dropout"):
        BlackBox(setup, dropout=1.0)


def test_its_loss_has_no_concept_term(setup: Setup) -> None:
    loss = SupervisedLoss(LossConfig(), setup.concepts, "single", torch.ones(2))
    targets = Targets(torch.tensor([0, 1, 0]), torch.ones(3, 5, dtype=torch.long), torch.ones(3, 5))
    assert list(loss(BlackBox(setup)(tokens()), targets, loss.count(targets))) == ["class"]


def test_a_comparison_asks_it_about_classes_only(concepts: ConceptSet) -> None:
    answers = Answers(
        task="single",
        logits=np.eye(2, dtype=np.float32),
        concept_logits=np.zeros((2, 0), np.float32),
        labels=np.array([0, 1]),
        concept_labels=np.ones((2, 5), np.int8),
        concepts=concepts,
        thresholds=np.full((2, 2), 0.5),
        fold=np.zeros(2, np.int64),
    )
    asked = [name for name, question in questions(answers).items() if exists(question)]
    assert asked == ["class.accuracy", "class.balanced_accuracy", "class.macro_auc"]


def test_any_backbone_of_timm(concepts: ConceptSet) -> None:
    encoder = {"name": "timm/resnet18", "pretrained": False, "image_size": 32}
    recipe = load_recipe({"data": "shapes", "encoder": encoder, "method": "black-box"})
    pipeline = build_pipeline(Blueprint(recipe, concepts, ("left", "right"))).eval()
    images = torch.rand(2, 3, 32, 32)
    pooled = pipeline.encoder(images).patches.mean(1)
    torch.testing.assert_close(pipeline(images).logits, pipeline.model.classify(pooled), rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("black box") / "run"
    return cl.train(tiny(out, method={"name": "black-box"}, training__epochs=1), quiet=True).path


def test_a_run_has_no_concept_measures(run: Path) -> None:
    metrics = read_json(run / "metrics.json")["splits"]["test"]
    assert "concept" not in metrics
    assert metrics["class"]["accuracy"] is not None
    assert [path for path in metrics["intervals"] if path.startswith("concept")] == []
    page = (run / "report.html").read_text("utf-8")
    assert "This method has no concepts" in page
    assert read_json(run / "run.json")["bypass"] == "the whole image vector"
    assert all(story["concepts"] == [] for story in read_json(run / "stories.json")["stories"])


def test_prediction_and_explanation_without_concepts(run: Path, own: OwnData, tmp_path: Path) -> None:
    images = sorted(own.images.rglob("*.png"))[:2]
    found = cl.predict(run, images, out=tmp_path / "said.csv")
    assert all(item.concepts == {} for item in found.items)
    rows = list(csv.reader((tmp_path / "said.csv").open()))
    assert len(rows[0]) == 2 + 4 + 2 + 1  # image, class, four shares, two cautions, error
    assert len(rows) == 3
    with pytest.raises(UserError, match="reads no concepts"):
        explain(run, images)


@pytest.mark.slow
def test_export_has_classes_only(run: Path) -> None:
    made = export(run)
    assert [output.name for output in made.card.outputs] == ["class_probabilities"]
    assert made.card.concepts == []
