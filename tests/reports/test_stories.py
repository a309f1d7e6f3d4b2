"""Contributions are exact, and the file keeps what the model said."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits
from conceptlens.methods.contract import ConceptModel, ConceptOutput, Pipeline
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.methods.linear_head import head_weight
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe
from conceptlens.reports.stories import Stories, tell
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.predict import predict
from conceptlens.runs.saved import load_pipeline


@pytest.fixture(scope="module")
def parts(hostile: RunFolder) -> tuple[Pipeline, PixelReader, np.ndarray]:
    pipeline, card, concepts = load_pipeline(hostile.path)
    source, _ = open_source(load_recipe(hostile.path / "recipe.yaml").data, concepts)
    splits = Splits.from_json(read_json(hostile.path / "splits.json"), source.examples.ids)
    return pipeline, PixelReader(source, card.image_size, card.fit), splits.test


def test_contributions_add_up_to_what_sets_an_image_apart(
    hostile: RunFolder, parts: tuple[Pipeline, PixelReader, np.ndarray]
) -> None:
    pipeline, reader, test = parts
    predicted = predict(pipeline, reader, test)
    concepts = ConceptSet.load(hostile.path / "concepts.yaml")
    found = tell(predicted, pipeline, reader, concepts, split="test", thresholds=[])
    assert found.average_of == len(test)
    logits = predicted.logits.astype(np.float64)
    ids, classes = [reader.source.examples.ids[index] for index in test], list(reader.source.classes)
    assert found.stories
    for story in found.stories:
        row, c = ids.index(story.image), classes.index(story.explained)
        added = [
            each.contribution for group in story.concepts for each in group.values if each.contribution is not None
        ]
        assert len(added) == len(concepts)
        assert story.account is not None
        assert story.account.minus is not None
        margins = logits[:, c] - logits[:, classes.index(story.account.minus)]  # against the second choice
        assert sum(added) == pytest.approx(margins[row] - margins.mean(), abs=1e-4)
        assert story.account.total == pytest.approx(margins[row], abs=1e-4)
        assert story.account.base == pytest.approx(margins.mean(), abs=1e-4)
        weights = [each.weight or 0 for each in (*story.account.reasons, *story.account.aside)]
        assert sum(weights) == pytest.approx(sum(added), abs=1e-4)
        assert story.sentence.startswith("predicted")


def test_a_head_that_is_not_linear_has_no_weights(setup: Setup) -> None:
    scores = torch.randn(4, len(setup.concepts))
    model = IVQCBM(setup)
    np.testing.assert_allclose(head_weight(model, scores), model.head.weight.detach().numpy())

    class Squared(IVQCBM):
        def decide(self, bottleneck: torch.Tensor) -> torch.Tensor:
            return self.head(bottleneck**2)

    class Headless(ConceptModel):
        def forward(self, tokens: object) -> ConceptOutput:
            raise AssertionError

        def decide(self, bottleneck: torch.Tensor) -> torch.Tensor:
            return bottleneck

    assert head_weight(Squared(setup), scores) is None
    assert head_weight(Headless(), scores) is None
    wide = IVQCBM(setup)
    wide.head = nn.Linear(len(setup.concepts) + 1, 2)
    assert head_weight(wide, scores) is None


def test_the_file_says_what_the_model_said(hostile: RunFolder, parts: tuple[Pipeline, PixelReader, np.ndarray]) -> None:
    pipeline, reader, test = parts
    predictions = predict(pipeline, reader, test)
    shares = torch.from_numpy(predictions.logits).softmax(-1).numpy()
    examples, classes = reader.source.examples, reader.source.classes
    stories = Stories.read(hostile.path)
    assert stories.split == "test"
    assert 0 < len(stories.stories) <= 9
    for story in stories.stories:
        row = [examples.ids[index] for index in test].index(story.image)
        assert list(story.probabilities.values()) == pytest.approx(shares[row].tolist(), abs=1e-4)
        assert story.predicted == [classes[shares[row].argmax()]]
        assert story.truth == [classes[examples.labels[test[row]]]]
        assert story.right == (story.predicted == story.truth)
        color, marks = story.concepts
        assert color.exclusive
        assert not marks.exclusive
        assert sum(each.probability for each in color.values) == pytest.approx(1, abs=1e-4)
        assert [each.label for each in color.values] == [bool(each) for each in examples.concepts[test[row], :2]]


def test_the_file_survives_a_round_trip(hostile: RunFolder, tmp_path: Path) -> None:
    stories = Stories.read(hostile.path)
    stories.write(tmp_path)
    assert (tmp_path / "stories.json").read_bytes() == (hostile.path / "stories.json").read_bytes()


def test_stories_show_the_evidence_of_their_weightiest_concept(evidence_run: Path) -> None:
    stories = Stories.read(evidence_run).stories
    shown = [story.map for story in stories if story.map]
    assert shown
    for each in shown:
        assert each.concept != "body pattern: plain"
        total = np.sum(each.evidence.values) + each.evidence.unplaced
        assert total == pytest.approx(each.evidence.logit, abs=1e-5)
    page = (evidence_run / "report.html").read_text("utf-8")
    assert page.count('alt="Evidence of ') == len(shown)
    assert shown[0].evidence.words in page
    assert "Map not checked." in page
