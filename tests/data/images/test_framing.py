"""Places go where `resize_square` puts the pixels, and covers are exact areas."""

import numpy as np
import pytest
from PIL import Image

from conceptlens.data.images.framing import (
    Frame,
    cell_shares,
    cover_of_box,
    cover_of_disc,
    cover_of_mask,
    enclosing_box,
    frame_of,
)
from conceptlens.data.images.read import Fit, resize_square

UNIT = Frame((0.25, 0.25), (0.0, 0.0))  # an image of 4 × 4 pixels


@pytest.mark.parametrize("fit", ["squash", "crop", "pad"])
@pytest.mark.parametrize("size", [(90, 60), (60, 90), (64, 64), (101, 37)])
def test_a_bright_patch_lands_where_the_frame_says(fit: Fit, size: tuple[int, int]) -> None:
    width, height = size
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    x0, y0, x1, y1 = width // 2 - 6, height // 2 - 9, width // 2 + 10, height // 2 + 3
    pixels[y0:y1, x0:x1] = 255
    seen = resize_square(Image.fromarray(pixels), 48, fit)[0].astype(float)
    frame = frame_of(width, height, 48, fit)
    u, v = frame.to_square([(x0 + x1) / 2, (y0 + y1) / 2])
    rows, columns = np.arange(48) + 0.5, np.arange(48) + 0.5
    assert abs(seen.sum(0) @ columns / seen.sum() - 48 * u) < 0.3
    assert abs(seen.sum(1) @ rows / seen.sum() - 48 * v) < 0.3
    # The cover of the same box at pixel level is the picture itself, up to the filter at its edges.
    assert np.abs(cover_of_box((x0, y0, x1, y1), frame, (48, 48)) - seen / 255).mean() < 0.02


def test_frames_by_hand() -> None:
    assert frame_of(200, 100, 50, "squash") == Frame((1 / 200, 1 / 100), (0.0, 0.0))
    assert frame_of(200, 100, 50, "crop") == Frame((0.01, 0.01), (-0.5, 0.0))
    assert frame_of(200, 100, 50, "pad") == Frame((1 / 200, 0.5 / 100), (0.0, 0.24))  # 25 rows, 12 above, 13 below
    np.testing.assert_allclose(frame_of(200, 100, 50, "crop").to_square([[50, 0], [150, 100]]), [[0, 0], [1, 1]])


def test_cell_shares_by_hand() -> None:
    np.testing.assert_allclose(cell_shares([0.25, -1.0], [0.625, 0.1], 2), [[0.5, 0.2], [0.25, 0.0]])


def test_a_masks_cover_is_its_area_in_each_cell() -> None:
    mask = np.zeros((4, 4), dtype=bool)
    mask[0, :3] = True
    mask[3, 3] = True
    np.testing.assert_allclose(cover_of_mask(mask, UNIT, (2, 2)), [[0.5, 0.25], [0, 0.25]])
    thirds = cover_of_mask(mask, UNIT, (3, 3))  # cells that cut pixels: 4/3 pixels a side
    np.testing.assert_allclose(thirds[0], np.array([0.75, 0.75, 0.75 * (1 / 3) / (4 / 3)]))
    np.testing.assert_allclose(thirds.sum() * (4 / 3) ** 2, mask.sum())


def test_a_cropped_mask_counts_only_within_view() -> None:
    mask = np.ones((2, 4), dtype=bool)
    mask[:, 0] = False
    mask[0, 1] = False
    np.testing.assert_allclose(cover_of_mask(mask, frame_of(4, 2, 8, "crop"), (2, 2)), [[0, 1], [1, 1]])


def test_boxes_and_discs() -> None:
    np.testing.assert_allclose(cover_of_box((1, 1, 4, 2), UNIT, (2, 2)), [[0.25, 0.5], [0.0, 0.0]])
    disc = cover_of_disc((2, 2), 1.5, UNIT, (2, 2), fine=64)
    np.testing.assert_allclose(disc, np.pi * 1.5**2 / 16, atol=2e-3)
    assert enclosing_box([(1, 5, 2, 6), (0, 7, 1, 9)]) == (0, 5, 2, 9)
