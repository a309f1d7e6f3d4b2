"""Pixels are what the numbers and the stated opacity make of them."""

import numpy as np
import pytest
from PIL import Image

from conceptlens.explanations.document import IndexMap, LegendEntry, PatchMap
from conceptlens.explanations.pictures.colors import TABLE, code_color, rgb
from conceptlens.explanations.pictures.overlay import index_overlay, overlay
from conceptlens.explanations.pictures.sheet import Tile, sheet, wrap

PICTURE = Image.new("RGB", (64, 64), (200, 100, 40))


def test_nothing_where_a_map_is_zero_and_the_stated_opacity_where_it_is_largest() -> None:
    patches = PatchMap(grid=(2, 2), values=[[0.0, 0.0], [0.0, 0.5]], range=(0, 0.5))
    drawn = np.asarray(overlay(PICTURE, patches, 0.6)).astype(float)
    assert drawn[0, 0].tolist() == [200, 100, 40]
    np.testing.assert_allclose(drawn[-1, -1], 0.4 * np.array([200, 100, 40]) + 0.6 * TABLE[-1], atol=1.5)


def test_a_map_of_zeros_draws_nothing() -> None:
    assert overlay(PICTURE, PatchMap(grid=(1, 1), values=[[0.0]], range=(0, 0)), 1.0) is PICTURE


def test_codes_have_the_colors_of_their_legend() -> None:
    def entry(code: int, patches: int) -> LegendEntry:
        return LegendEntry(
            code=code,
            name="unnamed",
            level=None,
            confidence=None,
            chance=None,
            sampled=0,
            color=code_color(code, True),
            patches=patches,
        )

    index = IndexMap(grid=(2, 2), codes=[[7, 7], [3, 11]], legend=[entry(7, 2), entry(3, 1), entry(11, 1)], sample=0)
    drawn = np.asarray(index_overlay(PICTURE, index, 1.0))
    for (row, column), code in {(0, 0): 7, (0, 63): 7, (63, 0): 3, (63, 63): 11}.items():
        assert tuple(drawn[row, column]) == rgb(code_color(code, True))


def test_codes_differ_in_color_and_the_unnamed_are_gray() -> None:
    assert len({code_color(code, True) for code in range(64)}) == 64
    red, green, blue = rgb(code_color(5, False))
    assert red == green == blue


def test_words_fit_their_place() -> None:
    assert wrap("one two", 1000, 12) == ["one two"]
    assert wrap("word " * 50, 60, 12, 2)[-1].endswith("…")
    assert wrap("", 60, 12) == [""]
    (long,) = wrap("x" * 500, 60, 12)
    assert long.endswith("…")


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_sheet_holds_all_its_tiles(count: int) -> None:
    page = sheet("title", ["words"], [Tile(PICTURE, ["name", "line"])] * count, ["note"])
    found = (np.asarray(page) == (200, 100, 40)).all(-1).sum()
    assert found == count * 64 * 64
