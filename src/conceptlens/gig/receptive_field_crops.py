"""Pictures of concepts: the samples nearest to each with their effective receptive field, and places in images.

GIG paper, Fig. 2: what a vector saw of its image is shown with some context around it. What counts is bright, the rest
of the crop is dimmed; a frame shows where it is.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.explanations.pictures.colors import color
from conceptlens.gig.document import Place

CONTEXT = 1.5  # sides of a crop, in sides of the box that holds most of the receptive field
HELD = 0.8  # of the receptive field, in that box
DIM = 0.6
SMALLEST = 0.2  # side of a crop, in sides of the image: a smaller crop cannot be recognized


def box_of(field: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
    """A square with context around most of a receptive field (H, W): x0, y0, x1, y1 in sides of the image."""
    height, width = field.shape
    weight = np.clip(field, 0, None)
    total = weight.sum()
    if not total > 0:
        return 0.0, 0.0, 1.0, 1.0
    spans = []
    for axis, size in ((0, width), (1, height)):
        share = np.cumsum(weight.sum(axis)) / total
        low, high = np.searchsorted(share, ((1 - HELD) / 2, (1 + HELD) / 2))
        spans.append((low / size, min(high + 1, size) / size))
    (x0, x1), (y0, y1) = spans
    side = min(1.0, max(CONTEXT * max(x1 - x0, y1 - y0), SMALLEST))
    left = min(max((x0 + x1 - side) / 2, 0.0), 1 - side)
    top = min(max((y0 + y1 - side) / 2, 0.0), 1 - side)
    return float(left), float(top), float(left + side), float(top + side)


def draw_crop(picture: Image.Image, field: npt.NDArray[np.float64], side: int = 112) -> Image.Image:
    """The crop around a receptive field, dimmed where it does not count."""
    x0, y0, x1, y1 = box_of(field)
    width, height = picture.size
    box = (x0 * width, y0 * height, x1 * width, y1 * height)
    crop = picture.resize((side, side), Image.Resampling.BICUBIC, box=box)
    smooth = _blurred(np.clip(field, 0, None))
    largest = smooth.max()
    if not largest > 0:
        return crop
    mask = Image.fromarray((smooth / largest).astype(np.float32)).resize((width, height), Image.Resampling.BILINEAR)
    seen = np.asarray(mask.resize((side, side), Image.Resampling.BILINEAR, box=box), dtype=np.float64)
    light = DIM + (1 - DIM) * np.clip(2 * np.sqrt(np.clip(seen, 0, 1)), 0, 1)
    pixels = np.asarray(crop, dtype=np.float64) * light[..., None] + 24 * (1 - light[..., None])
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _blurred(field: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A little wider than single pixels, so that a field reads as a region."""
    from scipy.ndimage import gaussian_filter

    found: npt.NDArray[np.float64] = gaussian_filter(field, max(field.shape) / 48)
    return found


def placed(picture: Image.Image, place: Place, side: int = 112) -> Image.Image:
    """Where a concept is: its positive coefficients in colors over the image."""
    small = picture.resize((side, side), Image.Resampling.BICUBIC)
    values = np.clip(np.asarray(place.values, dtype=np.float32), 0, None)
    largest = float(values.max())
    if not largest > 0:
        return small
    smooth = np.asarray(
        Image.fromarray(values / largest).resize((side, side), Image.Resampling.BILINEAR), dtype=np.float64
    )
    mask = Image.fromarray((255 * 0.62 * np.clip(smooth, 0, 1)).astype(np.uint8))
    return Image.composite(Image.fromarray(color(smooth)), small, mask)


def strip(pictures: Sequence[Image.Image], gap: int = 6) -> Image.Image:
    """Pictures of one size in a row."""
    side = pictures[0].height
    page = Image.new("RGB", (len(pictures) * (side + gap) - gap, side), (255, 255, 255))
    for number, picture in enumerate(pictures):
        page.paste(picture, (number * (side + gap), 0))
    return page
