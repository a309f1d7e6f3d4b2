"""Masking with judges whose answers can be worked out by hand."""

import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.masking import (
    cover,
    equal_positions,
    mask_sets,
    masking_curve,
    probability_change,
    random_positions,
    set_positions,
    spread_ids,
)
from conceptlens.cortex.token_sets import TokenSet

GRID = (2, 2)


def brightness(images: Tensor) -> Tensor:
    """P(class 1) is the mean brightness."""
    bright = images.mean((1, 2, 3))
    return torch.stack([1 - bright, bright], 1)


def test_a_position_is_a_rectangle_of_pixels() -> None:
    images = torch.ones(1, 3, 4, 6)
    hidden = torch.tensor([[[True, False], [False, False]]])
    found = cover(images, hidden, "black")
    assert found[0, 0].tolist() == [[0, 0, 0, 1, 1, 1]] * 2 + [[1] * 6] * 2
    assert torch.equal(cover(images, hidden, "mean"), images)


def test_curves_by_hand() -> None:
    images = torch.tensor([[0.4, 0.8], [0.2, 0.6]]).repeat(1, 3, 1, 1)  # one pixel a token
    tokens = torch.tensor([[[3, 5], [3, 4]]])
    scores = torch.tensor([[[4.0, 3.0], [2.0, 1.0]]])
    labels = torch.tensor([1])
    (found,) = masking_curve({"eye": brightness}, images, tokens, scores, labels, counts=(1, 2, 4))
    assert found.counts == (0, 1, 2, 4)
    assert found.deletion == pytest.approx((0.5, 0.4, 0.2, 0.0))  # 2.0, then without 0.4, 0.8 and all, over 4
    assert found.insertion == pytest.approx((0.0, 0.1, 0.3, 0.5))
    assert found.hidden == (0, 1, 2, 4)
    (found,) = masking_curve({"eye": brightness}, images, tokens, scores, labels, counts=(1, 2), hide="ids")
    assert found.hidden == (0, 2, 3)  # the first token is there twice
    assert found.deletion == pytest.approx((0.5, 0.35, 0.15))


def test_spread_ids_stays_within_an_image() -> None:
    tokens = torch.tensor([[[1, 1], [2, 3]], [[1, 2], [2, 2]]])
    chosen = torch.tensor([[[True, False], [False, False]], [[False, True], [False, False]]])
    assert spread_ids(tokens, chosen).tolist() == [[[True, True], [False, False]], [[False, True], [True, True]]]


def sets() -> list[TokenSet]:
    return [TokenSet("dark", (1,), (1,), 1, 1), TokenSet("bright", (2, 3), (2, 1), 1, 1)]


def test_positions_of_sets() -> None:
    tokens = torch.tensor([[[1, 2], [3, 1]], [[1, 2], [3, 3]]])
    labels = torch.tensor([0, 1])
    found = set_positions(tokens, labels, sets(), 4)
    assert found.tolist() == [[[True, False], [False, True]], [[False, True], [True, True]]]
    counts = torch.tensor([3, 1])
    equal = equal_positions(tokens, labels, sets(), 4, counts, seed=0)
    assert equal.flatten(1).sum(1).tolist() == [3, 1]
    assert bool(equal[0, 0, 0] & equal[0, 1, 1])  # both positions of the set, and one at random
    assert equal[1].tolist() == [[False, True], [False, False]]  # the set's first token
    for seed in range(5):
        drawn = random_positions(counts, GRID, seed)
        assert drawn.flatten(1).sum(1).tolist() == [3, 1]


def test_a_row_of_table_2() -> None:
    images = torch.tensor([0.9, 0.7]).view(2, 1, 1, 1).expand(2, 3, 2, 2)
    labels = torch.tensor([1, 1])
    half = torch.tensor([[True, True], [False, False]]).expand(2, 2, 2)
    none = torch.zeros(2, 2, 2, dtype=torch.bool)
    rows = mask_sets({"eye": brightness}, images, labels, {"half": half, "none": none})
    assert (rows[0].hidden, rows[0].accuracy, rows[0].probability) == (2, 1, pytest.approx(0.8))
    assert rows[0].probability_change == pytest.approx(-0.4)
    assert rows[0].accuracy_change == -1  # 0.45 and 0.35 are both below one half
    assert (rows[1].hidden, rows[1].probability_change) == (0, 0)


def test_equation_14() -> None:
    before, after = torch.full((1, 3, 2, 2), 0.2), torch.full((1, 3, 2, 2), 0.7)
    assert probability_change(brightness, before, after, torch.tensor([1])).tolist() == pytest.approx([0.5])


def test_bad_input_is_said() -> None:
    grids = torch.zeros(1, 2, 2, dtype=torch.long)
    given = ({"eye": brightness}, torch.ones(1, 3, 2, 2), grids, torch.zeros(1, 2, 2), torch.tensor([0]))
    with pytest.raises(UserError, match="1 to 4"):
        masking_curve(*given, counts=(5,))
    with pytest.raises(UserError, match="Did you mean 'ids'"):
        masking_curve(*given, counts=(1,), hide="idx")
    with pytest.raises(UserError, match="Did you mean 'black'"):
        masking_curve(*given, counts=(1,), fill="blak")
