"""Pixels are what the numbers and the stated opacity make of them."""

import numpy as np
import pytest
from PIL import Image

from conceptlens.explanations.document import EvidenceMap, IndexMap, LegendEntry, PatchMap
from conceptlens.explanations.pictures.colors import SIGNED_TABLE, TABLE, code_color, rgb, stripes
from conceptlens.explanations.pictures.overlay import evidence_overlay, index_overlay, overlay
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


def evidence(values: list[list[float]], unplaced: float = 0.0) -> EvidenceMap:
    flat = np.array(values)
    total, low, high = float(flat.sum()), float(flat.min()), float(flat.max())
    share = abs(unplaced) / (abs(total) + abs(unplaced)) if total or unplaced else 0.0
    logit = total + unplaced
    return EvidenceMap(
        grid=flat.shape,
        values=values,
        range=(low, high),
        total=total,
        unplaced=unplaced,
        unplaced_share=share,
        logit=logit,
    )


def test_evidence_has_two_colors_about_zero() -> None:
    drawn = np.asarray(evidence_overlay(PICTURE, evidence([[-0.25, 0.0], [0.0, 0.5]]), 1.0)).astype(float)
    gray = 0.7 * np.asarray(PICTURE.convert("L"))[0, 0] + 0.3 * 255
    np.testing.assert_allclose(drawn[-1, -1], SIGNED_TABLE[-1], atol=1)  # the largest amount, at full strength
    np.testing.assert_allclose(drawn[0, -1], [gray] * 3, atol=2)  # nothing: the picture without its color
    half = 0.5**0.6  # half the largest amount, on the other side of 0
    striped = stripes(64, 64)
    solid, faint = ((y, x) for y, x in ((0, 4), (0, 0)))
    assert (bool(striped[solid]), bool(striped[faint])) == (False, True)
    for place, part in ((solid, 1.0), (faint, 0.25)):
        expected = (1 - part * half) * gray + part * half * SIGNED_TABLE[64]
        np.testing.assert_allclose(drawn[place], expected, atol=3)
    red, _, blue = drawn[solid]
    assert red > blue  # orange, where the largest is blue


def test_evidence_of_nothing_leaves_the_gray_picture() -> None:
    drawn = np.asarray(evidence_overlay(PICTURE, evidence([[0.0]]), 1.0))
    assert np.ptp(drawn, axis=-1).max() == 0


def test_the_sum_is_said_in_words() -> None:
    assert evidence([[-1.0, 4.1]], -0.4).words == "sum of the map 3.10 − 0.40 (not placed, 11%) = logit 2.70"
    assert evidence([[-1.0, 0.5]], 1.5).words == "sum of the map −0.50 + 1.50 (not placed, 75%) = logit 1.00"
