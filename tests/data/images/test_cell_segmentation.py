"""White cells in drawn smears: found where they are, not in the middle, without the red cells that touch them."""

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.data.images.off_center import paste_off_center
from scripts.cell_segmentation import BINS, NUCLEUS, prepare, segment

PLASMA, RED_CELL, CYTOPLASM, DARK = (250, 228, 205), (190, 160, 165), (165, 150, 200), (85, 50, 130)
Disk = tuple[float, float, float, tuple[int, int, int]]


def draw(*disks: Disk) -> npt.NDArray[np.uint8]:
    y, x = np.mgrid[:96, :96]
    pixels = np.full((96, 96, 3), PLASMA, dtype=float)
    for row, column, radius, color in disks:
        pixels[(y - row) ** 2 + (x - column) ** 2 <= radius**2] = color
    return np.clip(pixels + np.random.default_rng(0).normal(0, 3, pixels.shape), 0, 255).astype(np.uint8)


def disk(row: float, column: float, radius: float) -> npt.NDArray[np.bool_]:
    y, x = np.mgrid[:96, :96]
    return np.asarray((y - row) ** 2 + (x - column) ** 2 <= radius**2)


def test_a_cell_in_the_corner_with_a_red_cell_at_its_side() -> None:
    red_cells: list[Disk] = [
        (28, 55, 11, RED_CELL),
        (70, 60, 12, RED_CELL),
        (48, 48, 9, RED_CELL),
        (80, 20, 11, RED_CELL),
    ]
    smear = prepare(draw(*red_cells, (25, 27, 17, CYTOPLASM), (25, 25, 9, DARK)))
    assert smear is not None
    found = segment(smear, np.ones(BINS**3))
    for mask, expected in ((found > 0, disk(25, 27, 17)), (found == NUCLEUS, disk(25, 25, 9))):
        assert (mask & expected).sum() / (mask | expected).sum() > 0.9


def test_a_cell_that_the_edge_cuts_is_not_the_one() -> None:
    smear = prepare(draw((0, 48, 20, DARK), (60, 60, 9, DARK)))
    assert smear is not None
    assert segment(smear, np.ones(BINS**3))[60, 60] == NUCLEUS
    assert not segment(smear, np.ones(BINS**3))[:30].any()


def test_nothing_stained() -> None:
    assert prepare(draw((50, 50, 12, RED_CELL))) is None


def test_a_donor_lends_its_background_not_its_cell() -> None:
    """Ours is green on a blank ground; the donor's dark cell is covered by red cells and plasma around it."""
    labels = disk(48, 48, 12).astype(np.uint8)
    image, donor = np.full((96, 96, 3), PLASMA, dtype=np.uint8), draw((20, 20, 9, RED_CELL), (48, 48, 14, DARK))
    image[labels > 0] = (0, 255, 0)
    picture, moved = paste_off_center(
        "a", Image.fromarray(image), labels, lambda _: (Image.fromarray(donor), disk(48, 48, 14).astype(np.uint8)), 1
    )
    pixels = np.asarray(picture, dtype=int)
    assert moved.sum() == labels.sum()
    assert (pixels[moved > 0][:, 1] > 220).mean() > 0.85
    outside = pixels[moved == 0]
    assert (outside[:, 0] < 100).mean() < 0.02  # no dark cell, only our soft edge
    other, elsewhere = paste_off_center(
        "b", Image.fromarray(image), labels, lambda _: (Image.fromarray(donor), disk(48, 48, 14).astype(np.uint8)), 1
    )
    assert not np.array_equal(moved, elsewhere)
    assert other.size == picture.size == (128, 128)
