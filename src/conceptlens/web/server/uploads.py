"""Files from strangers: how many bytes, how many pixels, which formats; looked at before anything is decoded."""

import io
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from conceptlens.core.errors import UserError
from conceptlens.data.images.dicom import is_dicom
from conceptlens.data.images.read import open_image
from conceptlens.data.images.window import Window
from conceptlens.web.server.problems import Problem, bad

# Formats whose header tells the size, and whose further frames are not decoded to count them: no GIF.
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP")
NAMES = ["JPEG", "PNG", "WebP", "TIFF", "BMP", "DICOM"]
FRAMES = 64  # a TIFF may have so many: a longer chain could keep a reader busy for minutes


@dataclass(frozen=True)
class Limits:
    """What an upload may be."""

    bytes: int = 20_000_000
    pixels: int = 40_000_000
    seconds: float = 20.0  # for all of it to arrive


def read_upload(data: bytes, limits: Limits, *, at_least: int, window: Window = "file") -> Image.Image:
    """The image as RGB, upright, or a `Problem` that says what is wrong with it.

    Args:
        data: The file.
        limits: What it may be.
        at_least: Pixels a side below which a JPEG is not decoded smaller.
        window: Of gray with more than 8 bits.
    """
    if not data:
        raise bad("Expected an image file as the body of the request, found nothing.")
    if not is_dicom(data):
        _look(data, limits)
    try:
        image = open_image(data, name="the uploaded file", at_least=at_least, window=window)
    except UserError as error:
        raise bad(str(error)) from None
    if image.width * image.height > limits.pixels:
        raise _too_many(image.width, image.height, limits)
    return image


def _look(data: bytes, limits: Limits) -> None:
    """Read the header only."""
    known = [name for name in FORMATS if name in Image.OPEN or Image.init()]
    try:
        with Image.open(io.BytesIO(data), formats=known) as file:
            if file.width * file.height > limits.pixels:
                raise _too_many(file.width, file.height, limits)
            if file.format == "TIFF":
                _refuse_chains(file)
    except Image.DecompressionBombError:
        raise Problem(413, "too-large", f"At most {limits.pixels:,} pixels are read. Make the image smaller.") from None
    except UnidentifiedImageError:
        raise Problem(415, "format", f"The image format is not supported. Supported are {', '.join(NAMES)}.") from None
    except Problem:
        raise
    except Exception as error:
        # Decoders meet damaged bytes with every kind of exception; for the reader it is one: this file is broken.
        raise bad(f"The uploaded file is damaged or cut short ({type(error).__name__}).") from None


def _refuse_chains(file: Image.Image) -> None:
    try:
        file.seek(FRAMES)
    except EOFError:
        return
    raise Problem(413, "too-large", f"This TIFF has more than {FRAMES} pages; send one of them.")


def _too_many(width: int, height: int, limits: Limits) -> Problem:
    return Problem(
        413,
        "too-large",
        f"{width} × {height} pixels are too many; at most {limits.pixels:,} are read. Make the image smaller.",
    )
