"""Measures of maps by numbers a person can work out, and against plain loops."""

import numpy as np
import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.data.regions.regions import Regions, read_regions
from conceptlens.data.sources.shapes import Shapes
from conceptlens.evaluation.localization import (
    MEASURES,
    Truth,
    center_prior_maps,
    differences,
    fit_center_prior,
    mean_region_maps,
    measure,
    summarize,
    truth_of,
)
from conceptlens.evaluation.localization.energy import as_mass
from conceptlens.evaluation.localization.overlap import overlap
from conceptlens.evaluation.localization.pointing import around, peak
from conceptlens.evaluation.localization.summary import Estimate
from conceptlens.recipes.schema import MetricsConfig, ShapesConfig

NO_BOOTSTRAP = MetricsConfig(bootstrap=0)


def truth(cover: list[float], *, point: tuple[float, float] | None = None, longer: float = 2.0) -> Truth:
    """A region on 2 × 2 cells; distances in cells, the object `longer` cells long."""
    covers = torch.tensor(cover)
    places = torch.tensor([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5], [1.5, 1.5]])
    on = covers > 0
    if point is None:
        gap = torch.cdist(places, places[on]).amin(1)
        center = (covers[:, None] * places).sum(0) / covers.sum()
    else:
        gap, center = (places - torch.tensor(point)).norm(dim=1), torch.tensor(point)
        on = torch.zeros(4, dtype=torch.bool)
        on[int(point[1]) * 2 + int(point[0])] = True
    one = (None, None)
    return Truth(
        (2, 2),
        torch.ones(1, 1, dtype=torch.bool),
        covers[one],
        on[one],
        gap[one],
        gap[one] / longer,
        center[one],
        torch.full((1, 1, 2), 1 / longer),
    )


def judged(maps: list[float], against: Truth) -> dict[str, float]:
    return {name: float(value) for name, value in measure(torch.tensor([[maps]]), against).items()}


def test_by_hand() -> None:
    found = judged([4.0, 3.0, 2.0, 1.0], truth([0.0, 1.0, 0.0, 0.5]))
    assert set(found) == set(MEASURES)
    assert found["energy"] == pytest.approx(0.3 + 0.05)
    assert found["share"] == pytest.approx(1.5 / 4)
    assert found["pointing"] == 0  # the peak is the first cell
    assert found["pointing_cells"] == found["pointing_patch"] == 1  # its neighbor is covered
    assert found["pointing_tenth"] == 0  # one cell is half of the object's side
    # Centroid: x = .5·(.4 + .2) + 1.5·(.3 + .1), y = .5·.7 + 1.5·.3; region: (1.5, .5·2/3 + 1.5/3).
    assert found["distance_patches"] == pytest.approx(np.hypot(0.9 - 1.5, 0.8 - 5 / 6))
    assert found["distance_object"] == pytest.approx(np.hypot(0.9 - 1.5, 0.8 - 5 / 6) / 2)
    assert found["iou_0.5"] == pytest.approx(1 / (3 + 1.5 - 1))  # cells 4, 3 and 2; only the second is covered
    assert found["iou_0.1"] == pytest.approx(1.5 / 4)
    assert found["iou_0.9"] == 0
    assert found["empty"] == 0


def test_a_point_decides_where_there_is_one() -> None:
    near = truth([1.0, 1.0, 1.0, 1.0], point=(1.9, 0.9), longer=10.0)
    found = judged([0.0, 1.0, 0.0, 0.0], near)  # the peak's center is (1.5, .5), at √.32 = .566 from the point
    assert found["pointing"] == found["pointing_patch"] == found["pointing_tenth"] == 1
    assert found["distance_patches"] == pytest.approx(0.32**0.5)
    far = truth([1.0, 1.0, 1.0, 1.0], point=(0.1, 0.9), longer=10.0)
    found = judged([0.0, 1.0, 0.0, 0.0], far)  # 1.456 away, in the cell next to the point's
    assert (found["pointing_cells"], found["pointing_patch"], found["pointing_tenth"]) == (1, 0, 0)


def test_ties_and_empty_maps_are_a_uniform_map() -> None:
    region = truth([1.0, 0.5, 0.0, 0.0])
    for maps in ([1.0] * 4, [0.0] * 4, [-1.0, 0.0, -2.0, 0.0]):
        found = judged(maps, region)
        assert found["energy"] == found["pointing"] == pytest.approx(0.375)
        assert found["pointing_patch"] == 1
    assert judged([0.0] * 4, region)["empty"] == 1
    assert judged([2.0, 2.0, 0.0, 0.0], region)["pointing"] == pytest.approx(0.75)
    assert judged([1e-42, 0.0, 0.0, 0.0], region)["energy"] == pytest.approx(1)  # smaller than a normal number


def test_neighbors() -> None:
    cells = torch.zeros(1, 1, 12, dtype=torch.bool)
    cells[0, 0, 0] = True
    assert around(cells, (3, 4)).view(3, 4).tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_as_plain_loops_on_drawn_shapes() -> None:
    source = Shapes(ShapesConfig(n=12, size=64))
    regions = read_regions(source, np.arange(12), size=64, fit="squash", grid=(8, 8))
    part_of = torch.tensor([0, 1, 3, 6, 6])
    maps = torch.rand(12, 5, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = measure(maps, truth_of(regions, part_of))
    for image in range(12):
        masks = source.annotation(image).masks
        for concept, part in enumerate(part_of.tolist()):
            name = regions.parts[part]
            if name not in masks:
                assert all(values[image, concept].isnan() for values in found.values())
                continue
            fine = np.kron(maps[image, concept].view(8, 8).numpy(), np.ones((8, 8)))  # the map, pixel by pixel
            mask = masks[name]
            assert found["energy"][image, concept] == pytest.approx(fine[mask].sum() / fine.sum(), abs=1e-6)
            assert found["share"][image, concept] == pytest.approx(mask.mean(), abs=1e-6)
            assert found["pointing"][image, concept] == pytest.approx(mask[fine == fine.max()].mean(), abs=1e-6)
            above = fine >= 0.5 * fine.max()
            both = (above & mask).sum()
            assert found["iou_0.5"][image, concept] == pytest.approx(both / (above | mask).sum(), abs=1e-6)
            y, x = np.unravel_index(fine.argmax(), fine.shape)
            peak_at = (x // 8 * 8 + 4, y // 8 * 8 + 4)
            if name != "object":
                away = np.hypot(*np.subtract(peak_at, source.annotation(image).keypoints[name]))
                x0, y0, x1, y1 = source.annotation(image).boxes["object"]
                assert found["pointing_patch"][image, concept] == (away <= 8)
                assert found["pointing_tenth"][image, concept] == (away <= 0.1 * max(x1 - x0, y1 - y0))


def test_overlap_and_peak_of_any_shape() -> None:
    maps = torch.rand(2, 3, 9)
    assert overlap(maps, torch.ones(2, 3, 9), (0.0,))[0].tolist() == torch.ones(2, 3).tolist()
    torch.testing.assert_close(peak(maps).sum(-1), torch.ones(2, 3))
    torch.testing.assert_close(as_mass(maps.bfloat16()).sum(-1), torch.ones(2, 3))


def one_region(cover: np.ndarray, seen: np.ndarray | None = None) -> Regions:
    """Regions (N, L) of the object alone on 2 × 2 cells."""
    n = len(cover)
    blank = np.zeros((n, 1, 4), np.float32)
    return Regions(
        ("object",),
        (2, 2),
        np.ones((n, 1), bool) if seen is None else seen[:, None],
        cover.astype(np.float32)[:, None],
        blank > 0,
        blank,
        blank,
        np.zeros((n, 1, 2), np.float32),
        np.ones((n, 2), np.float32),
    )


def test_the_center_prior_is_as_wide_as_the_regions() -> None:
    whole = one_region(np.ones((3, 4)))
    # A square of side one: the mean squared distance from the middle is 2/12, so σ² is 1/12.
    assert fit_center_prior(whole) == {"object": pytest.approx((1 / 12) ** 0.5)}
    unseen = one_region(np.zeros((1, 4)), np.array([False]))
    assert fit_center_prior(unseen) == {}
    (prior,) = center_prior_maps([0.25], (2, 2))
    np.testing.assert_allclose(prior, np.exp(-(2 * 0.25**2) / (2 * 0.25**2)), rtol=1e-6)
    (prior,) = center_prior_maps([0.1], (14, 14))
    assert (peak(prior) > 0).sum() == 4  # the four cells in the middle are exactly alike
    with pytest.raises(UserError, match="widths above 0"):
        center_prior_maps([0.0], (2, 2))


def test_the_image_free_map_is_the_mean_region() -> None:
    cover = np.array([[1, 1, 0, 0], [0, 0.5, 0, 0], [1, 1, 1, 1]])
    found = mean_region_maps(one_region(cover, np.array([True, True, False])))
    np.testing.assert_allclose(found, [[0.25, 0.75, 0, 0]])
    np.testing.assert_allclose(mean_region_maps(one_region(np.zeros((1, 4)), np.array([False]))), [[0.25] * 4])


def width(estimate: Estimate) -> float:
    interval = estimate["interval"]
    assert isinstance(interval, list)
    return interval[1] - interval[0]


def test_means_over_images_then_concepts() -> None:
    energy = np.array([[0.2, 0.9], [0.4, np.nan], [np.nan, np.nan]])
    columns = {"energy": energy, "share": np.where(np.isnan(energy), np.nan, 0.1)}
    found = summarize(columns, [0, 1], None, NO_BOOTSTRAP)
    assert found["energy"] == {"value": pytest.approx((0.3 + 0.9) / 2), "interval": None}
    assert found["lift"]["value"] == pytest.approx(6)
    assert summarize(columns, [0], None, NO_BOOTSTRAP)["lift"]["value"] == pytest.approx(3)
    nothing = summarize({"energy": energy[2:], "share": energy[2:]}, [0], None, NO_BOOTSTRAP)
    assert nothing["energy"]["value"] is None
    assert nothing["lift"]["value"] is None


def test_paired_differences_are_surer_than_either() -> None:
    chance = np.random.default_rng(0)
    theirs = chance.random((200, 1))
    ours = theirs + 0.05
    config = MetricsConfig(bootstrap=400)
    alone = summarize({"pointing": ours}, [0], None, config)["pointing"]
    paired = differences({"pointing": ours}, {"pointing": theirs, "other": theirs}, [0], None, config)
    assert set(paired) == {"pointing"}
    assert paired["pointing"]["interval"] == pytest.approx([0.05, 0.05])
    assert width(alone) > 0.05


def test_intervals_draw_groups() -> None:
    values = np.repeat(np.random.default_rng(1).random((20, 1)), 10, axis=0)
    config = MetricsConfig(bootstrap=400)
    alone = summarize({"pointing": values}, [0], None, config)["pointing"]
    grouped = summarize({"pointing": values}, [0], [str(i // 10) for i in range(200)], config)["pointing"]
    assert width(grouped) > 2 * width(alone)
