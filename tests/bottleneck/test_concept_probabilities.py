"""Concept probabilities in torch are those that predictions report."""

import torch

from conceptlens.bottleneck.concept_probabilities import concept_probabilities
from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.predict import probabilities


def test_as_predictions_report_them(concepts: ConceptSet) -> None:
    logits = 5 * torch.randn(7, len(concepts), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = concept_probabilities(logits, concepts.groups)
    torch.testing.assert_close(found, torch.from_numpy(probabilities(logits.numpy(), concepts)))


def test_an_axis_adds_up_and_a_yes_no_stands_alone(concepts: ConceptSet) -> None:
    found = concept_probabilities(torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]]), concepts.groups)
    torch.testing.assert_close(found, torch.full((1, 5), 0.5))
    assert concept_probabilities(torch.zeros(0, 5), concepts.groups).shape == (0, 5)
