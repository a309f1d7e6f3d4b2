"""Codes are named by counting, and stay unnamed where counting does not tell."""

import pytest
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.codes import FEW, CoAssignment

ONE_EACH = torch.arange(5)


def tally(rows: list[tuple[int, list[float], int]]) -> CoAssignment:
    """Patches as (code, assignment, how many)."""
    codes = torch.tensor([code for code, _, count in rows for _ in range(count)])[None]
    shares = torch.tensor([share for _, share, count in rows for _ in range(count)])[None]
    found = CoAssignment(4, shares.shape[-1])
    half = codes.shape[1] // 2
    found.update(codes[:, :half], shares[:, :half])
    found.update(codes[:, half:], shares[:, half:])
    return found


def test_by_hand(concepts: ConceptSet) -> None:
    found = tally(
        [
            (0, [0.8, 0.2, 0.0, 0.0, 0.0], 20),  # most of it is `size: big`
            (1, [0.0, 0.0, 0.4, 0.45, 0.15], 20),  # no concept has most, the group `color` has 0.85
            (2, [0.3, 0.2, 0.15, 0.15, 0.2], 20),  # neither
        ]
    ).names(concepts, ONE_EACH)
    big, color, mixed, unseen = found
    assert (big.name, big.level, big.sampled) == (concepts.names[0], "concept", 20)
    assert big.confidence == pytest.approx(0.8)
    assert big.chance == pytest.approx((0.8 + 0.3) / 3)
    assert (color.name, color.level) == ("color", "group")
    assert color.confidence == pytest.approx(0.85)
    for code in (mixed, unseen):
        assert (code.name, code.level, code.confidence) == ("unnamed", None, None)
    assert unseen.sampled == 0


def test_a_slot_that_takes_everything_names_nothing(concepts: ConceptSet) -> None:
    found = tally([(0, [0.9, 0.1, 0, 0, 0], 30), (1, [0.8, 0.2, 0, 0, 0], 30)]).names(concepts, ONE_EACH)
    assert {code.name for code in found} == {"unnamed"}


def test_a_few_patches_name_nothing(concepts: ConceptSet) -> None:
    rest = (1, [0.0, 0.0, 0.5, 0.5, 0.0], 50)
    found = tally([(0, [1.0, 0, 0, 0, 0], FEW - 1), rest]).names(concepts, ONE_EACH)
    assert found[0].name == "unnamed"
    assert tally([(0, [1.0, 0, 0, 0, 0], FEW), rest]).names(concepts, ONE_EACH)[0].name == concepts.names[0]


def test_a_slot_of_an_axis_speaks_for_its_group_only(concepts: ConceptSet) -> None:
    found = tally([(0, [0.9, 0.1, 0.0], 20), (1, [0.0, 0.1, 0.9], 20)])
    names = found.names(concepts, torch.tensor([0, 0, 1, 1, 2]))
    assert (names[0].name, names[0].level) == ("size", "group")
