"""Insertion, deletion, occlusion, swapped backgrounds, moved regions, shuffled weights: by hand, and against scipy."""

from typing import Any

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
from conceptlens.evaluation.faithfulness.moved import (
    background_color,
    farthest_shift,
    followed,
    move_region,
    roll_cells,
    swap_backgrounds,
)
from conceptlens.evaluation.faithfulness.norms import highest_norm, mass_on
from conceptlens.evaluation.faithfulness.verdict import faithfulness_numbers, judge_faithfulness


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


def test_a_color_stands_where_a_patch_is_dropped() -> None:
    color = torch.tensor([0.1, 0.2, 0.3])
    assert filled(torch.rand(2, 3, 4, 4), color)[1, :, 2, 3].tolist() == pytest.approx(color.tolist())
    images = torch.ones(1, 3, 4, 4)
    maps = torch.tensor([[0.9, 0.2, 0.1, 0.0]])
    curves = insertion_deletion(corners, images, maps, torch.tensor([0]), (2, 2), fill=color, steps=2)
    torch.testing.assert_close(curves.deletion, torch.tensor([[1.0, 0.1, 0.1]]))
    given = insertion_deletion(
        corners,
        images,
        maps,
        torch.tensor([0]),
        (2, 2),
        fill=color,
        steps=2,
        ends=(torch.tensor([[5.0, 0.0]]), torch.tensor([[7.0, 0.0]])),
    )
    torch.testing.assert_close(
        given.insertion, torch.tensor([[7.0, 1.0, 5.0]])
    )  # ends that are known are not asked for


def test_backgrounds_are_swapped_by_hand() -> None:
    """Two images of 4 × 4: ground 0.2 and 0.6, objects of 1 in the upper left, of 0 in the lower right pixel."""
    images = torch.stack([torch.full((3, 4, 4), 0.2), torch.full((3, 4, 4), 0.6)])
    masks = torch.zeros(2, 4, 4)
    masks[0, 0, 0] = masks[1, 3, 3] = 1
    images[0, :, 0, 0], images[1, :, 3, 3] = 1.0, 0.0
    torch.testing.assert_close(background_color(images, masks), torch.tensor([[0.2] * 3, [0.6] * 3]))
    changed = swap_backgrounds(images, masks)
    expected = torch.stack([torch.full((3, 4, 4), 0.6), torch.full((3, 4, 4), 0.2)])
    expected[0, :, 0, 0], expected[1, :, 3, 3] = 1.0, 0.0  # the other image's object is gone
    torch.testing.assert_close(changed, expected)


def test_a_region_moves_as_far_as_there_is_room() -> None:
    mask = torch.zeros(8, 8)
    mask[2:4, 1:3] = 1  # on 4 × 4 cells of two pixels: one cell above, two below; none to the left, two to the right
    assert farthest_shift(mask, (4, 4)) == (2, 2)
    assert farthest_shift(mask.flip(0), (4, 4)) == (-2, 2)
    assert farthest_shift(torch.ones(8, 8), (4, 4)) == (0, 0)
    assert farthest_shift(torch.zeros(8, 8), (4, 4)) == (0, 0)
    image = torch.full((1, 3, 8, 8), 0.5)
    image[:, :, 2:4, 1:3] = 1
    moved = move_region(image, mask[None], torch.tensor([[2, 2]]), (4, 4), torch.tensor([[0.5] * 3]))
    expected = torch.full((1, 3, 8, 8), 0.5)
    expected[:, :, 6:8, 5:7] = 1
    torch.testing.assert_close(moved, expected)
    assert roll_cells(torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[1, 1]]), (2, 2)).tolist() == [[0, 0, 0, 1]]


def test_what_a_map_followed_by_hand() -> None:
    old, new = torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[0, 0, 0, 1.0]])
    before = torch.tensor([[0.6, 0.2, 0.1, 0.1]])
    for after, gained in (([0.1, 0.1, 0.2, 0.6], 0.5), ([0.6, 0.2, 0.1, 0.1], 0.0), ([0.35, 0.2, 0.1, 0.35], 0.25)):
        found = followed(before, torch.tensor([after]), old, new)
        assert found[0].item() == pytest.approx(gained)
        assert found[1].item() == pytest.approx(0.5)


def test_mass_on_the_tokens_of_highest_norm() -> None:
    tokens = torch.ones(1, 41, 2)  # a class token of the largest norm, then 40 patches
    tokens[0, 0], tokens[0, 8], tokens[0, 21] = 9.0, 4.0, 3.0
    marks = highest_norm(tokens, 40)
    assert marks.nonzero()[:, 1].tolist() == [7, 20]  # a twentieth of the patches
    maps = torch.ones(1, 40)
    maps[0, 7] = 21
    assert mass_on(maps, marks).item() == pytest.approx(22 / 60)


def test_only_one_side_is_shuffled() -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(6, 5), "model": nn.Linear(5, 3)})
    other = shuffled(model, 0, "encoder")
    assert torch.equal(other["model"].weight, model["model"].weight)
    assert not torch.equal(other["encoder"].weight, model["encoder"].weight)


def told(**changes: Any) -> dict[str, Any]:
    """`faithfulness.json` of a map that passes."""
    better = {"insertion": {"interval": [0.1, 0.2]}, "deletion": {"interval": [-0.2, -0.1]}}
    both = {"against_random": {"own": better}, "against_center": {"own": better}}
    areas = {"insertion": {"value": 0.8}, "deletion": {"value": 0.3}}
    return {
        "fill": "blur",
        "images": 64,
        "curves": {"own": areas, "center": areas},
        **both,
        "dropped": both,
        "occlusion": {"own - others": {"interval": [0.01, 0.05]}, "own": {"value": 0.1}, "others": {"value": 0.05}},
        "random_encoder": {"own": {"value": 0.1}},
        "random_head": {"own": {"value": 0.0}},
        **changes,
    }


def test_the_verdict_names_what_is_lacking() -> None:
    assert judge_faithfulness(told()).outcome == "pass"
    worse = {"insertion": {"interval": [-0.1, 0.2]}, "deletion": {"interval": [-0.2, -0.1]}}
    finding = judge_faithfulness(told(against_center={"own": worse}))
    assert finding.outcome == "finding"
    assert "insertion is no better than with an order from the center outwards (fill blur)." in finding.reason
    assert (
        "own part changes it no more"
        in judge_faithfulness(told(occlusion={"own - others": {"interval": [-1, 1]}})).reason
    )
    assert "random head the map stays similar" in judge_faithfulness(told(random_head={"own": {"value": 0.7}})).reason
    nothing = {"insertion": {"interval": None}, "deletion": {"interval": None}}
    assert judge_faithfulness(told(against_random={"own": nothing})).outcome == "unmeasured"
    assert judge_faithfulness(told(occlusion={})).outcome == "pass"  # without parts, occlusion is not asked
    assert faithfulness_numbers(told())["own_part"] == 0.1
