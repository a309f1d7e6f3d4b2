"""Concept probabilities in torch are those that predictions report."""

import torch

from conceptlens.concepts import ConceptSet, Group
from conceptlens.nn.heads.probabilities import concept_probabilities, concept_probabilities_of


def test_as_predictions_report_them(concepts: ConceptSet) -> None:
    logits = 5 * torch.randn(7, len(concepts), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = concept_probabilities(logits, concepts.groups)
    torch.testing.assert_close(found, torch.from_numpy(concept_probabilities_of(logits.numpy(), concepts)))


def test_an_axis_adds_up_and_a_yes_no_stands_alone(concepts: ConceptSet) -> None:
    found = concept_probabilities(torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]]), concepts.groups)
    torch.testing.assert_close(found, torch.full((1, 5), 0.5))
    assert concept_probabilities(torch.zeros(0, 5), concepts.groups).shape == (0, 5)


def test_groups_of_both_kinds_in_any_order() -> None:
    """Independent groups side by side are worked on together; an exclusive one always alone."""
    kinds = ("independent", "independent", "exclusive", "exclusive", "independent")
    groups = [
        Group(str(at), kind, slice(2 * at, 2 * at + 2), ("a", "b"), str(at), (), None, None)
        for at, kind in enumerate(kinds)
    ]
    logits = torch.randn(4, 10, generator=torch.Generator().manual_seed(1))
    found = concept_probabilities(logits, groups)
    for at, kind in enumerate(kinds):
        own = logits[:, 2 * at : 2 * at + 2]
        expected = own.softmax(-1) if kind == "exclusive" else own.sigmoid()
        torch.testing.assert_close(found[:, 2 * at : 2 * at + 2], expected)
