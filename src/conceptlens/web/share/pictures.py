"""Pictures and files inside the file: as small a WebP as still shows them, tables as they are."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from conceptlens.data.images.read import open_image, resize_square
from conceptlens.pages.pictures import base64_text, encode_image
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.views.gallery import read_image


@dataclass(frozen=True)
class Size:
    """How large pictures are."""

    side: int  # of an image of the data, in pixels
    quality: int  # of every picture, as WebP counts it


SIZES = (Size(320, 80), Size(256, 75), Size(192, 70), Size(128, 60))  # the first that fits


def webp(loaded: LoadedRun, split: str, row: int, size: Size) -> str:
    """The square that the model sees of an image of the run, as base64; a small image is not enlarged."""
    image = read_image(loaded, split, row, size.side)
    square = resize_square(image, min(size.side, max(image.size)), loaded.card.fit)
    return _encoded(Image.fromarray(np.ascontiguousarray(square.transpose(1, 2, 0))), size.quality)


def address_of(kind: str, content: bytes, size: Size) -> str:
    """A file as a `data:` address, without `data:`; pictures keep their pixels, as others count on them."""
    if not kind.startswith("image/"):
        return f"{kind.replace(' ', '')};base64,{base64_text(content)}"
    smaller = _encoded(open_image(content, name="a picture of the run"), size.quality)
    whole = base64_text(content)
    return f"image/webp;base64,{smaller}" if len(smaller) < len(whole) else f"{kind};base64,{whole}"


def _encoded(picture: Image.Image, quality: int) -> str:
    return base64_text(encode_image(picture, "WEBP", quality=quality, method=4))
