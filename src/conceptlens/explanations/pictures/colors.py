"""Colors of maps and codes, small enough to be here: no plotting library in the way of a hundred pictures."""

import colorsys

import numpy as np
import numpy.typing as npt

COLOR_MAP = "blue, cyan, green, yellow, red"
# Loud on purpose: over stains, skin and feathers a quieter map cannot be told from the image. Opacity grows with the
# value as well, so that the order can be read without seeing hues.
_ANCHORS = np.array(
    [
        (50, 60, 180),
        (40, 130, 240),
        (40, 200, 200),
        (110, 225, 90),
        (220, 220, 50),
        (250, 150, 40),
        (215, 50, 20),
        (150, 10, 10),
    ],
    dtype=np.float64,
)
# Evidence: orange takes away, blue adds, as bars do. Neither is lost to the usual color blindness; orange is striped
# as well, for gray.
SIGNED_COLOR_MAP = "orange in stripes below 0, blue above"
_SIGNED_ANCHORS = np.array(
    [(190, 70, 0), (240, 125, 20), (252, 196, 120), (244, 244, 244), (125, 180, 250), (25, 105, 235), (10, 50, 165)],
    dtype=np.float64,
)
_STEPS = np.linspace(0, 1, 256)


def _table(anchors: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """256 colors between the anchors."""
    places = np.linspace(0, 1, len(anchors))
    return np.stack([np.interp(_STEPS, places, channel) for channel in anchors.T], axis=1).round().astype(np.uint8)


TABLE, SIGNED_TABLE = _table(_ANCHORS), _table(_SIGNED_ANCHORS)
_GOLDEN = 0.618033988749895  # of a turn: neighbors in number are far apart in hue


def color(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Values in [0, 1] of any shape → RGB bytes (…, 3)."""
    return TABLE[(np.clip(values, 0, 1) * 255).round().astype(np.intp)]


def signed_color(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint8]:
    """Values in [−1, 1] of any shape → RGB bytes (…, 3)."""
    return SIGNED_TABLE[(np.clip((values + 1) / 2, 0, 1) * 255).round().astype(np.intp)]


def stripes(height: int, width: int) -> npt.NDArray[np.bool_]:
    """Where an area below 0 shows through, (height, width)."""
    return (np.arange(height)[:, None] + np.arange(width)) % 8 < 4


def code_color(code: int, named: bool) -> str:
    """A code's color as "#rrggbb", the same in every picture; gray where it has no name."""
    if not named:
        level = 70 + 23 * (code % 7)
        return f"#{level:02x}{level:02x}{level:02x}"
    lightness = (0.50, 0.68, 0.36)[code % 3]
    red, green, blue = colorsys.hls_to_rgb(code * _GOLDEN % 1, lightness, 0.85)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def rgb(word: str) -> tuple[int, int, int]:
    """ "#rrggbb" as three bytes."""
    return int(word[1:3], 16), int(word[3:5], 16), int(word[5:7], 16)
