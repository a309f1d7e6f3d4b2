"""Insertion, deletion, occlusion, stability and shuffled weights by hand, and against scipy."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.evaluation.faithfulness import (
    filled,
    insertion_deletion,
    occlude_parts,
    own_against_others,
    random_orders,
    rank_correlation,
    shuffled,
    with_noise,
)


def corners(images: Tensor) -> Tensor:
    """Two concepts of 4 × 4 images: how bright the upper left and the lower right quarter are."""
    return torch.stack([images[:, 0, :2, :2].mean((1, 2)), images[:, 0, 2:, 2:].mean((1, 2))], 1)


def test_curves_by_hand() -> None:
    images = torch.ones(2, 3, 4, 4)
    maps = torch.tensor([[0.9, 0.2, 0.1, 0.0], [0.0, 0.1, 0.2, 0.9]])  # 2 × 2 cells; each names another corner first
    curves = insertion_deletion(corners, images, maps, torch.tensor([0, 0]), (2, 2), fill="black", steps=4, batch=3)
    assert curves.share.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert curves.deletion.tolist() == [[1, 0, 0, 0, 0], [1, 1, 1, 1, 0]]
    assert curves.insertion.tolist() == [[0, 1, 1, 1, 1], [0, 0, 0, 0, 1]]
    assert curves.deletion_area.tolist() == [0.125, 0.875]
    assert curves.insertion_area.tolist() == [0.875, 0.125]


def test_each_image_follows_its_own_concept_and_steps_are_even() -> None:
    images = torch.ones(2, 3, 4, 4)
    maps = torch.tensor([[0.9, 0.2, 0.1, 0.0]] * 2)
    curves = insertion_deletion(corners, images, maps, torch.tensor([0, 1]), (2, 2), fill="black", steps=2)
    assert curves.share.tolist() == [0, 0.5, 1]
    assert curves.deletion.tolist() == [[1, 0, 0], [1, 1, 0]]
    many = insertion_deletion(corners, images, maps, torch.tensor([0, 1]), (2, 2), steps=99)
    assert many.deletion.shape == (2, 5)  # no more steps than cells


def test_a_random_order_is_worth_half() -> None:
    """A score that is the mean of the image falls along a line whatever the order."""
    images = torch.ones(3, 3, 8, 8)
    order = random_orders(3, 16, seed=1)
    curves = insertion_deletion(
        lambda x: x.mean((1, 2, 3))[:, None],
        images,
        order,
        torch.zeros(3, dtype=torch.long),
        (4, 4),
        fill="black",
        steps=16,
    )
    torch.testing.assert_close(curves.deletion_area, torch.full((3,), 0.5))
    torch.testing.assert_close(curves.insertion_area, torch.full((3,), 0.5))
    assert torch.equal(order, random_orders(3, 16, seed=1))
    assert not torch.equal(order, random_orders(3, 16, seed=2))


def test_fills() -> None:
    images = torch.rand(2, 3, 20, 20)
    assert filled(images, "black").abs().max() == 0
    torch.testing.assert_close(filled(images, "mean")[1, 2], torch.full((20, 20), images[1, 2].mean().item()))
    blurred = filled(images, "blur")
    assert blurred.std() < 0.3 * images.std()
    torch.testing.assert_close(filled(torch.full((1, 3, 20, 20), 0.3), "blur"), torch.full((1, 3, 20, 20), 0.3))
    # A single bright pixel becomes the product of two Gaussians, σ = 2.
    spot = torch.zeros(1, 3, 20, 20)
    spot[..., 10, 10] = 1
    found = filled(spot, "blur")[0, 0]
    assert float(found[10, 12] / found[10, 10]) == pytest.approx(np.exp(-0.5), rel=1e-5)
    assert float(found[13, 12] / found[10, 10]) == pytest.approx(np.exp(-13 / 8), rel=1e-5)
    with pytest.raises(UserError, match="Unknown fill 'gray'"):
        filled(images, "gray")


def test_occlusion_by_hand() -> None:
    images = torch.ones(2, 3, 4, 4)
    images[1, :, 2:, 2:] = 0.5
    masks = torch.zeros(2, 3, 4, 4)
    masks[:, 0, :2, :2] = 1  # the first part is the upper left quarter, the second the lower right, the third unseen
    masks[:, 1, 2:, 2:] = 1
    change = occlude_parts(corners, images, masks, fill="black", batch=4)
    assert change.tolist() == [[[1, 0], [0, 1], [0, 0]], [[1, 0], [0, 0.5], [0, 0]]]
    seen = torch.tensor([[True, True, False]] * 2)
    right = own_against_others(change, seen, torch.tensor([0, 1]))
    assert right.own.tolist() == [[1, 1], [1, 0.5]]
    assert right.others.tolist() == [[0, 0], [0, 0]]
    assert right.wins.tolist() == [[1, 1], [1, 1]]
    swapped = own_against_others(change, seen, torch.tensor([1, 0]))
    assert swapped.own.tolist() == [[0, 0], [0, 0]]
    assert swapped.wins.tolist() == [[0, 0], [0, 0]]
    unknown = own_against_others(change, seen, torch.tensor([2, -1]))  # its part is not seen; it has none
    assert unknown.own.isnan().all()
    assert unknown.others.isnan().all()
    assert unknown.wins.isnan().all()
    alone = own_against_others(change, torch.tensor([[True, False, False]] * 2), torch.tensor([0, 0]))
    assert alone.own.isnan().all()  # there is nothing to compare with


def test_a_tie_is_half_a_win_and_others_are_averaged() -> None:
    change = torch.tensor([[[0.4], [0.4], [0.1], [0.9]]])
    found = own_against_others(change, torch.ones(1, 4, dtype=torch.bool), torch.tensor([0]))
    assert found.others.item() == pytest.approx((0.4 + 0.1 + 0.9) / 3)
    assert found.wins.item() == pytest.approx(1.5 / 3)


def test_rank_correlation_is_scipys() -> None:
    chance = np.random.default_rng(0)
    one, other = chance.integers(0, 5, (4, 3, 30)), chance.random((4, 3, 30)).round(1)  # with many ties
    found = rank_correlation(torch.from_numpy(one), torch.from_numpy(other))
    for i in range(4):
        for j in range(3):
            assert found[i, j].item() == pytest.approx(spearmanr(one[i, j], other[i, j]).statistic)
    assert rank_correlation(torch.ones(1, 5), torch.rand(1, 5)).isnan().all()
    ladder = torch.arange(5.0)
    assert rank_correlation(ladder, ladder**3).item() == pytest.approx(1)
    assert rank_correlation(ladder, -ladder).item() == pytest.approx(-1)


def test_noise_is_small_and_the_same_for_a_seed() -> None:
    images = torch.full((2, 3, 50, 50), 0.5)
    noisy = with_noise(images, 0.02, seed=3)
    assert float((noisy - images).std()) == pytest.approx(0.02, rel=0.05)
    assert torch.equal(noisy, with_noise(images, 0.02, seed=3))
    assert with_noise(torch.ones(1, 3, 8, 8), 0.5, seed=0).max() <= 1


def test_shuffled_weights_keep_their_numbers_and_lose_their_places() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))
    model.register_buffer("text", torch.arange(4.0))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = shuffled(model, seed=0)
    for name, value in other.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], before[name])  # the model itself is not touched
        torch.testing.assert_close(value.flatten().sort().values, before[name].flatten().sort().values)
    assert torch.equal(other.state_dict()["text"], before["text"])

    def first(one: nn.Module) -> Tensor:
        weight: Tensor = one.state_dict()["0.weight"]
        return weight

    assert not torch.equal(first(other), first(model))
    assert torch.equal(first(other), first(shuffled(model, seed=0)))
    assert not torch.equal(first(other), first(shuffled(model, seed=1)))
