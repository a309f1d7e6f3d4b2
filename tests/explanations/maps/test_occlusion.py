"""Occlusion, by hand: what a score loses where a region takes the image's mean color."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from conceptlens.explanations.maps.concept_maps import GRADCAM, OCCLUSION, OWN, concept_maps
from conceptlens.explanations.maps.occlusion import occlusion_maps
from conceptlens.testing import build, images


def scores(pictures: Tensor) -> Any:
    """The brightness of the first quarter, and of the whole."""
    return SimpleNamespace(
        concept_logits=torch.stack((pictures[:, 0, :4, :4].mean((1, 2)), pictures.mean((1, 2, 3))), 1)
    )


@pytest.mark.parametrize("grid", [(2, 2), (1, 2)])
def test_a_score_falls_by_what_a_region_gave_it(grid: tuple[int, int]) -> None:
    picture = torch.zeros(1, 3, 8, 8)
    picture[..., :4, :4] = 1  # the mean is a quarter
    maps = occlusion_maps(scores, picture, grid, scores(picture).concept_logits)  # type: ignore[arg-type]
    if grid == (2, 2):
        expected = [[0.75, 0, 0, 0], [0.75 / 4, -0.25 / 4, -0.25 / 4, -0.25 / 4]]
    else:  # a half is covered: the bright quarter and a dark one
        expected = [[0.75, 0], [0.75 / 4 - 0.25 / 4, -0.25 / 2]]
    torch.testing.assert_close(maps, torch.tensor([expected]))


def test_regions_cover_several_cells_of_a_fine_grid() -> None:
    picture = torch.rand(2, 3, 28, 28, generator=torch.Generator().manual_seed(0))
    fine = occlusion_maps(scores, picture, (14, 14), scores(picture).concept_logits)  # type: ignore[arg-type]
    coarse = occlusion_maps(scores, picture, (7, 7), scores(picture).concept_logits)  # type: ignore[arg-type]
    blocks = fine.view(2, 2, 7, 2, 7, 2)
    torch.testing.assert_close(blocks[:, :, :, 0, :, 0].flatten(2), coarse)
    torch.testing.assert_close(blocks.amax((3, 5)), blocks.amin((3, 5)))


def test_kinds_are_made_as_asked_for() -> None:
    pipeline, pictures = build("evidence-cbm").requires_grad_(False), images()
    every = concept_maps(pipeline, pictures, (OCCLUSION, OWN, GRADCAM))
    assert list(every.maps) == [OWN, GRADCAM, OCCLUSION]
    own = concept_maps(pipeline, pictures, (OWN,))
    assert (list(own.maps), own.place, own.grid) == ([OWN], "", every.grid)
    torch.testing.assert_close(own.maps[OWN], every.maps[OWN])
    assert list(concept_maps(build("cbm").requires_grad_(False), pictures, (OWN, OCCLUSION)).maps) == [OCCLUSION]
