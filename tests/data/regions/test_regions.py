"""Regions on a grid, by hand and on drawn shapes, whose truth is exact."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Annotation, DataSource, Examples
from conceptlens.data.regions.regions import Regions, object_box, read_regions
from conceptlens.data.sources.shapes import Shapes
from conceptlens.recipes.schema import ShapesConfig

Box = tuple[float, float, float, float]


class Marked(DataSource):
    """Gray images of one size with annotations given by hand."""

    name = "marked"
    classes = ("one",)
    task = "single"

    def __init__(self, *annotations: Annotation | None, size: tuple[int, int] = (40, 40)) -> None:
        n = len(annotations)
        self._annotations, self._size = annotations, size
        self.examples = Examples(tuple(map(str, range(n))), np.zeros(n, np.int64), np.zeros((n, 0), np.int8))

    def read(self, index: int) -> Image.Image:
        return Image.new("RGB", self._size)

    def annotation(self, index: int) -> Annotation | None:
        return self._annotations[index]

    @property
    def region_names(self) -> tuple[str, ...]:
        known = [each for each in self._annotations if each]
        return tuple(sorted({name for each in known for name in (*each.keypoints, *each.masks, *each.boxes)}))


def regions(*annotations: Annotation | None, size: tuple[int, int] = (40, 40), fit: str = "squash") -> Regions:
    source = Marked(*annotations, size=size)
    return read_regions(source, np.arange(len(annotations)), size=32, fit=fit, grid=(4, 4))  # type: ignore[arg-type]


def boxed(**boxes: Box) -> Annotation:
    return Annotation(boxes=boxes)


def row(found: Regions, part: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A part of the first image, laid out."""
    return np.asarray(values[0, found.parts.index(part)].reshape(4, 4))


def test_a_box_by_hand() -> None:
    found = regions(boxed(object=(10, 10, 30, 25)))  # cells are 10 pixels wide
    assert found.parts == ("object",)
    np.testing.assert_allclose(row(found, "object", found.cover)[1:3], [[0.0, 1.0, 1.0, 0.0], [0.0, 0.5, 0.5, 0.0]])
    assert row(found, "object", found.on).sum() == 4
    np.testing.assert_allclose(found.center[0, 0], [2, (2 * 1.5 + 2.5) / 3], rtol=1e-6)
    gap = row(found, "object", found.gap)
    assert gap[1, 1] == 0
    assert gap[1, 3] == 1
    np.testing.assert_allclose(gap[0, 0], np.sqrt(2), rtol=1e-6)
    np.testing.assert_allclose(found.gap_object[0, 0] * 20, found.gap[0, 0] * 10, rtol=1e-6)  # the longer side is 20
    np.testing.assert_allclose(found.pixels, [[0.5, 0.5]])


def test_distances_are_those_of_the_image_not_of_the_squashed_one() -> None:
    found = regions(boxed(object=(0, 0, 80, 40)), size=(160, 40))  # cells are 40 × 10 pixels, the longer side is 80
    gap = row(found, "object", found.gap_object)
    np.testing.assert_allclose(gap[0, 2:], [0.5, 1.0])  # covered cells end at column 1
    np.testing.assert_allclose(found.pixels, [[0.5, 0.125]])


def test_a_point_is_a_disc_of_a_tenth_of_the_object() -> None:
    found = regions(Annotation(keypoints={"eye": (15, 35)}, boxes={"object": (0, 0, 40, 20)}))
    cover = row(found, "eye", found.cover)
    np.testing.assert_allclose(cover[3, 1], np.pi * 4**2 / 100, atol=0.03)
    assert np.count_nonzero(cover) == 1
    assert row(found, "eye", found.on).tolist() == (cover > 0).tolist()
    np.testing.assert_allclose(found.center[0, found.parts.index("eye")], [1.5, 3.5])
    assert row(found, "eye", found.gap)[3, 1] == 0
    np.testing.assert_allclose(row(found, "eye", found.gap_object)[3, 3], 20 / 40)


def test_without_an_object_it_is_all_parts_together() -> None:
    upper, lower = np.zeros((40, 40), bool), np.zeros((40, 40), bool)
    upper[:10, :10], lower[30:, 30:] = True, True
    found = regions(Annotation(masks={"a": upper, "b": lower}))
    assert row(found, "object", found.cover)[[0, 3], [0, 3]].tolist() == [1, 1]
    np.testing.assert_allclose(found.pixels, [[10 / 40, 10 / 40]])
    points = Annotation(keypoints={"a": (0, 0), "b": (20, 10)})
    assert object_box(points) == (0, 0, 20, 10)
    assert object_box(Annotation()) is None


def test_what_is_out_of_view_is_not_seen() -> None:
    found = regions(
        Annotation(
            keypoints={"eye": (5, 20), "beak": (80, 20)}, boxes={"object": (0, 0, 60, 40), "tail": (0, 0, 9, 9)}
        ),
        None,
        size=(160, 40),
        fit="crop",  # columns 60 to 100
    )
    assert dict(zip(found.parts, found.seen[0].tolist(), strict=True)) == {
        "object": False,
        "beak": True,
        "eye": False,
        "tail": False,
    }
    assert not found.seen[1].any()
    assert not found.cover[1].any()
    assert np.isnan(found.gap[1]).all()


def test_a_point_on_the_far_edge_belongs_to_the_last_cell() -> None:
    found = regions(Annotation(keypoints={"toe": (40, 40)}))
    assert row(found, "toe", found.on)[3, 3]


def test_a_source_without_regions_says_what_to_do() -> None:
    with pytest.raises(UserError, match=r"marked: nothing is known of where things are.*data\.regions"):
        regions(None)


def test_drawn_shapes_know_their_parts_exactly() -> None:
    source = Shapes(ShapesConfig(n=20, size=64, shortcut=0.5))
    found = read_regions(source, np.arange(20), size=64, fit="squash", grid=(64, 64))
    masks: list[Mapping[str, npt.NDArray[np.bool_]]] = [source.annotation(index).masks for index in range(20)]
    for part, name in enumerate(found.parts):
        for index in range(20):
            known = masks[index].get(name)
            assert found.seen[index, part] == (known is not None)
            if known is not None:
                np.testing.assert_allclose(found.cover[index, part].reshape(64, 64), known, atol=1e-6)
    assert {"head", "body", "tail", "legs", "wing", "antennae", "shortcut"} < set(found.parts)
    groups = {concept.part for concept in source.concepts.concepts}
    assert groups <= set(found.parts)  # each concept's part is one of them
