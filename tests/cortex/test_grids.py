"""What a page shows of a study without its model, against hand-worked numbers."""

import torch

from conceptlens.cortex.grids import MOST_IMAGES, levels, nearest_codes, shown_rows


def test_levels_are_parts_of_the_largest_with_their_sign() -> None:
    most, parts = levels(torch.tensor([[0.5, -2.0], [0.0, 1.0]]))
    assert most == 2.0
    assert parts == [64, -255, 0, 128]
    assert levels(torch.zeros(1, 2)) == (0.0, [0, 0])


def test_nearest_codes_leave_out_the_code_itself() -> None:
    codebook = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    found = nearest_codes(codebook, [0, 1], 2)
    assert found[0] == [(3, 0.0), (2, 1.0)]
    assert found[1][0] == (2, 4.2426)  # √(9 + 9)


def test_rows_are_taken_from_each_concept_in_turn() -> None:
    labels = torch.tensor([0, 0, 1, 0, 2, 1])
    assert shown_rows(labels, 3, 2) == [0, 2, 4, 1, 5]
    assert shown_rows(labels, 3, 0) == []
    assert len(shown_rows(torch.arange(500), 500, 1)) == MOST_IMAGES
