"""A map over its image: colors mixed into the pixels, at a stated opacity."""

import numpy as np
from PIL import Image

from conceptlens.explanations.document import Drawing, EvidenceMap, IndexMap, PatchMap
from conceptlens.explanations.pictures.colors import COLOR_MAP, SIGNED_COLOR_MAP, color, rgb, signed_color, stripes

OPACITY = 0.6
SIDE = 192  # pixels of one picture
PALER = 0.3  # how far the picture under evidence is moved to white, so that colors are seen on dark places


def drawing(opacity: float) -> Drawing:
    """How pictures are drawn, for the file."""
    return Drawing(
        opacity=opacity,
        color_map=COLOR_MAP,
        scale="0 to the map's largest value; opacity grows with it, and is the same for all codes",
        upsampling="bilinear; codes are not blended",
        side=SIDE,
        evidence=f"{SIGNED_COLOR_MAP}, from minus to plus the map's largest amount; over the picture in pale gray",
    )


def overlay(picture: Image.Image, patches: PatchMap, opacity: float) -> Image.Image:
    """The map in colors over the picture, from 0 to its largest value, where it is as opaque as stated."""
    largest = patches.range[1]
    if largest <= 0:
        return picture
    values = Image.fromarray(np.asarray(patches.values, dtype=np.float32) / np.float32(largest))
    smooth = np.asarray(values.resize(picture.size, Image.Resampling.BILINEAR), dtype=np.float64)
    mask = Image.fromarray((255 * opacity * np.clip(smooth, 0, 1)).round().astype(np.uint8))
    return Image.composite(Image.fromarray(color(smooth)), picture, mask)


def evidence_overlay(picture: Image.Image, patches: EvidenceMap, opacity: float) -> Image.Image:
    """What patches add and take away, over the picture in pale gray: no color of its own is taken for either."""
    gray = Image.blend(picture.convert("L").convert("RGB"), Image.new("RGB", picture.size, "white"), PALER)
    largest = max(map(abs, patches.range))
    if largest == 0:
        return gray
    values = Image.fromarray(np.asarray(patches.values, dtype=np.float32) / np.float32(largest))
    smooth = np.asarray(values.resize(picture.size, Image.Resampling.BILINEAR), dtype=np.float64)
    shown = np.where((smooth < 0) & stripes(*smooth.shape), 0.25, 1.0)
    # Small amounts of many patches add up, so that they must be seen: less than linear.
    mask = Image.fromarray((255 * opacity * shown * np.clip(np.abs(smooth), 0, 1) ** 0.6).round().astype(np.uint8))
    return Image.composite(Image.fromarray(signed_color(smooth)), gray, mask)


def index_overlay(picture: Image.Image, index: IndexMap, opacity: float) -> Image.Image:
    """Each patch in its code's color over the picture."""
    codes = np.asarray(index.codes)
    numbers = np.array([entry.code for entry in index.legend])
    table = np.array([rgb(entry.color) for entry in index.legend], dtype=np.uint8)
    order = np.argsort(numbers)
    blocks = Image.fromarray(table[order][np.searchsorted(numbers[order], codes)])
    return Image.blend(picture, blocks.resize(picture.size, Image.Resampling.NEAREST), opacity)
