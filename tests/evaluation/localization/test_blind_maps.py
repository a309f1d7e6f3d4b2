"""Maps of pixels and tokens that know no concepts, specificity, concentration and skill: worked out by hand."""

import numpy as np
import pytest
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.localization.concentration import effective_patches, likeness_to_next
from conceptlens.evaluation.localization.image_maps import color_distance_maps, darkness_maps, fit_image_maps
from conceptlens.evaluation.localization.skill import skill
from conceptlens.evaluation.localization.specificity import part_specificity, value_specificity
from conceptlens.evaluation.localization.summary import mean_of


def spotted() -> torch.Tensor:
    """A gray image of 32 × 32 pixels with a black and a red cell of four by four: rows 1 and 2, columns 1 and 2."""
    image = torch.full((1, 3, 32, 32), 0.5)
    image[:, :, 8:16, 8:16] = 0
    image[:, :, 16:24, 16:24] = torch.tensor([1.0, 0.25, 0.25])[:, None, None]  # as bright as the ground
    return image


def test_darkness_and_color_by_hand() -> None:
    dark = darkness_maps(spotted(), (4, 4))[0]
    assert dark[5] == 1
    assert dark.sum().item() == pytest.approx(1, abs=1e-5)  # only the black cell differs in brightness
    color = color_distance_maps(spotted(), (4, 4))[0]
    black, red = np.sqrt(3 * 0.5**2), np.sqrt(0.5**2 + 2 * 0.25**2)
    assert color[5].item() == pytest.approx(1)
    assert color[10].item() == pytest.approx(red / black, rel=1e-5)
    assert color.sum().item() == pytest.approx(1 + red / black, rel=1e-5)


def test_either_way_round_is_chosen_for_each_part() -> None:
    """The first part is dark and has small tokens, the second is bright and has large ones."""
    images = torch.full((2, 3, 4, 4), 0.5)
    images[:, :, :2, :2] = 0.0
    images[:, :, 2:, 2:] = 1.0
    patches = torch.tensor([[0.0], [0.5], [0.5], [1.0]]).expand(2, 4, 1) * torch.tensor([[[1.0, 2.0]]])
    cover = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 1.0]]).expand(2, 2, 4)
    made = fit_image_maps([images], [patches], cover, torch.ones(2, 2, dtype=torch.bool), (2, 2))
    assert made.signs["darkness"].tolist() == [1, -1]
    assert made.signs["color_distance"].tolist() == [1, 1]
    torch.testing.assert_close(made.direction.abs(), torch.tensor([1.0, 2.0]) / 5**0.5)
    for name in ("darkness", "token_pca"):
        torch.testing.assert_close(
            made(images, patches)[name], torch.tensor([[1.0, 0.5, 0.5, 0], [0, 0.5, 0.5, 1]]).expand(2, 2, 4)
        )


def test_own_part_against_the_others_by_hand() -> None:
    own, others = torch.tensor([1.0, 0, 0, 0]), torch.tensor([0, 1.0, 0.5, 0])
    expected = 1 / 2.5  # of the parts' area
    assert part_specificity(torch.tensor([0.4, 0.1, 0.0, 0.5]), own, others).item() == pytest.approx(0.8 - expected)
    assert part_specificity(torch.full((4,), 0.25), own, others).item() == pytest.approx(0, abs=1e-6)
    assert part_specificity(torch.tensor([0.0, 0, 0, 1]), own, others).item() == 0  # nothing on any part
    assert part_specificity(torch.tensor([0.0, 1, 0, 0]), own, others).item() == pytest.approx(-expected)
    assert part_specificity(torch.full((4,), 0.25), own, torch.zeros(4)).isnan()


def test_true_against_false_values_by_hand(concepts: ConceptSet) -> None:
    """Two exclusive groups of two values, then an independent concept."""
    precision = np.array([[0.8, 0.5, 0.3, np.nan, 0.9], [0.2, 0.6, 0.3, 0.4, 0.9]])
    labels = np.array([[1, 0, 1, 0, 1], [0, 1, 0, 1, 1]], dtype=np.int8)
    found = value_specificity(precision, labels, np.zeros(5, dtype=np.int64), concepts)
    np.testing.assert_allclose(
        found, [[0.3, np.nan, np.nan, np.nan, np.nan], [np.nan, 0.4, np.nan, 0.1, np.nan]], atol=1e-12
    )
    other_parts = value_specificity(precision, labels, np.array([1, 2, 1, 1, 0]), concepts)
    assert np.isnan(other_parts[:, :2]).all()  # values of different parts are not compared
    assert other_parts[1, 3] == pytest.approx(0.1)


def test_effective_patches_by_hand() -> None:
    mass = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0]])
    found = effective_patches(mass)
    torch.testing.assert_close(found, torch.tensor([1.0, 2.0, 4.0, 2**1.5]))


def test_likeness_of_one_image_to_the_next() -> None:
    ladder = torch.arange(4.0)
    maps = torch.stack([torch.stack([ladder, ladder]), torch.stack([ladder**2, -ladder])])
    torch.testing.assert_close(likeness_to_next(maps), torch.tensor([[1.0, -1], [1, -1]], dtype=torch.float64))
    assert likeness_to_next(maps[:1]).isnan().all()


def test_skill_by_hand() -> None:
    own, blind, perfect = (np.array(values)[:, None] for values in ([0.5, 0.7], [0.2, 0.4], [0.8, 1.0]))
    of = [mean_of(values, [0]) for values in (own, blind, perfect)]
    once = np.ones((1, 2))
    assert skill(*of)(once)[0] == pytest.approx(0.3 / 0.6)
    assert skill(of[2], of[1], of[2])(once)[0] == 1
    assert skill(of[1], of[1], of[2])(once)[0] == 0
    assert skill(mean_of(0 * own, [0]), of[1], of[2])(once)[0] == pytest.approx(-0.5)
    nearly = mean_of(perfect - 0.05, [0])
    assert np.isnan(skill(of[0], nearly, of[2])(once)[0])  # the blind map leaves next to nothing to be gained
