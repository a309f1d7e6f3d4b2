"""SALF-CBM: regions by hand; maps that add up to the score; what the concept layer learns, and where."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.methods.fitted.region_prompts import RegionPrompts
from conceptlens.methods.salf_cbm import SALFCBM
from conceptlens.nn.losses.cubed_cosine import cubed_cosine
from conceptlens.nn.setup import Setup
from tests.methods.fit_world import directions, fit_data

GRID = 2


def test_a_circle_is_drawn_where_the_distance_is_the_radius() -> None:
    image = torch.full((1, 3, 8, 8), 128, dtype=torch.uint8)
    marked = RegionPrompts("circle", 2, radius=0.25, line=0.125)(image)
    assert marked.shape == (1, 4, 3, 8, 8)
    red = (marked[0] == torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)).all(1)  # (4, 8, 8)
    y, x = np.mgrid[:8, :8] + 0.5
    for place, (row, column) in enumerate(((2, 2), (2, 6), (6, 2), (6, 6))):  # centers in pixels
        ring = np.abs(np.hypot(y - row, x - column) - 2) <= 0.5
        assert 8 <= ring.sum() <= 16
        assert red[place].numpy().tolist() == ring.tolist()
        assert torch.allclose(marked[0, place][:, ~red[place]], torch.tensor(128 / 255))


def test_a_crop_is_the_square_around_the_center_cut_at_the_edge() -> None:
    image = torch.arange(16.0).view(1, 1, 4, 4).expand(1, 3, 4, 4) / 16
    crops = RegionPrompts("crop", 2, radius=0.25)(image)[0]
    quarters = [
        image[0, :, rows, columns] for rows in (slice(0, 2), slice(2, 4)) for columns in (slice(0, 2), slice(2, 4))
    ]
    for crop, quarter in zip(crops, quarters, strict=True):
        assert torch.allclose(crop[:, 0, 0], quarter[:, 0, 0])  # corners keep their values
        assert torch.allclose(crop[:, -1, -1], quarter[:, -1, -1])
        assert torch.allclose(crop.mean((1, 2)), quarter.mean((1, 2)))
    wide = RegionPrompts("crop", 1, radius=2.0)(image)[0, 0]
    assert torch.equal(wide, image[0])


def spatial(images: FitImages, setup: Setup, seed: int) -> tuple[FitImages, Tokens]:
    """Each concept that an image shows stands in one of four patches, and the region's text vector says so."""
    chance = np.random.default_rng(seed)
    count, concepts = images.concepts.shape
    place = chance.integers(0, GRID**2, (count, concepts))
    shown = np.zeros((count, GRID**2, concepts), np.float32)
    np.put_along_axis(shown, place[:, None], images.concepts[:, None].astype(np.float32), 1)
    patches = (3 * shown @ directions(setup) + 0.1 * chance.normal(size=(count, GRID**2, setup.width))).astype(
        np.float32
    )
    tokens = Tokens(torch.from_numpy(patches), (GRID, GRID))
    region = shown @ setup.text.numpy() + 0.05 * chance.normal(size=(count, GRID**2, setup.text.shape[1]))
    return replace(images, region_text=region.astype(np.float32), image_text=None), tokens


def world(setup: Setup, model: SALFCBM) -> tuple[FitData, Tokens]:
    data = fit_data(setup)
    (train, seen), (val, held) = spatial(data.train, setup, 7), spatial(data.val, setup, 8)
    vectors = [model.summarize(tokens).numpy() for tokens in (seen, held)]
    return replace(data, train=replace(train, vectors=vectors[0]), val=replace(val, vectors=vectors[1])), held


@pytest.fixture
def setup(setup: Setup) -> Setup:
    """With texts that have nothing in common."""
    return replace(setup, text=torch.linalg.qr(setup.text.mT)[0].mT.contiguous())


@pytest.fixture
def model(setup: Setup) -> SALFCBM:
    return SALFCBM(setup, grid=GRID, radius=0.25, rate=1e-2, lam="validation")


def test_it_learns_concepts_and_where_they_are(setup: Setup, model: SALFCBM) -> None:
    data, held = world(setup, model)
    numbers = model.fit(data)
    assert numbers["projection_similarity"] > 0.8
    output = model(held)
    assert output.evidence is not None
    torch.testing.assert_close(output.evidence.sum(-1), output.concept_logits)
    shown = data.val.concepts == 1
    target = data.val.region_text @ setup.text.numpy().T
    right = output.evidence.argmax(-1).numpy() == target.argmax(1)
    assert right[shown].mean() > 0.9
    scores = output.concept_logits.numpy()
    for concept in range(5):
        pairs = scores[shown[:, concept], concept][:, None] > scores[~shown[:, concept], concept]
        assert pairs.mean() > 0.95  # area under the ROC curve
    assert float((output.logits.argmax(1).numpy() == data.val.labels).mean()) > 0.9


def test_scores_are_standardized_means_of_linear_maps(setup: Setup, model: SALFCBM) -> None:
    """Against a naive version, from the raw projection on."""
    data, held = world(setup, model)
    model.fit(data)
    direction = model.vectors.double()
    train = torch.from_numpy(data.train.vectors).double().reshape(-1, GRID**2 + 1, setup.width)
    pooled = torch.stack([train[:, place] @ direction.T for place in range(GRID**2)]).mean(
        0
    )  # 2 × 2 patches, 2 × 2 regions
    expected = (held.patches.double() @ direction.T).mean(1) - pooled.mean(0)
    torch.testing.assert_close(pooled.std(0, correction=0), torch.ones(5, dtype=torch.float64), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model(held).concept_logits.double(), expected, rtol=1e-3, atol=1e-4)


def test_maps_follow_targets_by_the_cubed_cosine_over_images_and_regions(setup: Setup, model: SALFCBM) -> None:
    data, _ = world(setup, model)
    numbers = model.fit(data)
    vectors = torch.from_numpy(data.val.vectors).reshape(-1, GRID**2 + 1, setup.width)[:, :-1].flatten(0, 1)
    target = torch.from_numpy(data.val.region_text).flatten(0, 1) @ setup.text.T
    naive = cubed_cosine(vectors @ model.vectors.T, target).mean()  # the scale of a direction does not matter
    assert numbers["projection_similarity"] == pytest.approx(float(naive), abs=1e-4)


def test_a_finer_grid_is_brought_to_the_regions(setup: Setup) -> None:
    """Where a region is 2 × 2 patches, bilinear interpolation is their mean."""
    model = SALFCBM(setup, grid=2)
    patches = torch.randn(3, 16, setup.width)
    seen = model.summarize(Tokens(patches, (4, 4))).reshape(3, 5, setup.width)
    blocks = patches.view(3, 2, 2, 2, 2, setup.width).mean((2, 4)).flatten(1, 2)
    torch.testing.assert_close(seen[:, :4], blocks)
    torch.testing.assert_close(seen[:, 4], patches.mean(1))


def test_what_is_refused(setup: Setup) -> None:
    for options, message in (
        ({"grid": 0}, "method.grid"),
        ({"radius": 0.0}, "method.radius"),
        ({"rate": 0.0}, "method.rate"),
    ):
        with pytest.raises(UserError, match=message):
            SALFCBM(setup, **options)


def test_a_crop_keeps_one_pixel_at_least() -> None:
    images = torch.rand(2, 3, 8, 8)
    for side, radius in ((3, 1e-3), (100, 1e-3)):
        assert RegionPrompts("crop", side, radius)(images).shape == (2, side**2, 3, 8, 8)
