"""One image, whatever its file holds, as upright RGB bytes.

- EXIF (and TIFF) orientation is applied.
- Gray, 1-bit, palette and CMYK become RGB; color profiles (ICC) are ignored.
- Transparency is laid over white, as a page would show it.
- 16-bit and floating-point gray is scaled by a window (see `window`): by default the image's smallest value becomes 0,
  its largest 255. 16-bit color keeps its upper 8 bits.
- DICOM files are rescaled and windowed as they ask for (see `dicom`).
- Of several frames or pages, the first is read, or the one that a table names (`scan.tif#3`).
"""

import io
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from conceptlens.core.errors import UNREADABLE, UserError, unreadable
from conceptlens.core.regular import check_regular
from conceptlens.data.images.dicom import SUFFIXES as DICOM_SUFFIXES
from conceptlens.data.images.dicom import is_dicom, read_dicom
from conceptlens.data.images.window import Window, spread

Fit = Literal["squash", "crop", "pad"]
Encoded = Path | bytes | BinaryIO

SUFFIXES = (
    *(".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".jp2", ".avif"),
    *DICOM_SUFFIXES,
)
MAX_PIXELS = 89_000_000  # just below the number at which Pillow warns of a decompression bomb

# Formats that are only ever decoded: EPS, for one, would start another program on a stranger's file.
_FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP", "JPEG2000", "AVIF")
_DEEP_COLOR = ("RGB;16", "RGBA;16", "RGBX;16", "LA;16", "CMYK;16")  # Pillow's names for how a file stores its pixels
_ORIENTATION = 0x0112
_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class ImageFacts:
    """What an image file holds, before anything was done to it."""

    width: int
    height: int
    mode: str  # Pillow's name: RGB, L, I;16, …; or DICOM and its photometric interpretation
    gray: bool
    alpha: bool  # some pixels can be seen through
    deep: bool  # more than 8 bits a channel
    rotated: bool  # an orientation tag turns it
    frames: int
    opaque: bool = False  # it has an alpha channel, but no pixel can be seen through


def open_image(source: Encoded, *, name: str, at_least: int | None = None, window: Window = "file") -> Image.Image:
    """The image as RGB, upright.

    Args:
        source: A path, the file's bytes, or an open binary file.
        name: What to call the image in an error.
        at_least: A JPEG may be decoded at half, a quarter or an eighth of its size, as long as both sides keep at least
            twice so many pixels. Much faster for large photographs that are resized afterwards.
        window: Which values of gray with more than 8 bits become black and white.

    Raises:
        UserError: The file is missing, is no image, is cut short, has no pixels, or has too many.
    """
    return examine_image(source, name=name, at_least=at_least, window=window)[0]


def upright_rgb(image: Image.Image, *, name: str, window: Window = "file") -> Image.Image:
    """An image that is in memory as `open_image` would give it: upright, RGB, gray of many bits windowed."""
    try:
        image.load()
        _transparency(image, name)
        turn = _orientation(image)
        rgb = _rgb(image, name, window)
    except OSError as error:
        raise UserError(f"{name}: damaged or cut short ({error}).") from None
    return rgb.transpose(_TURN[turn]) if turn in _TURN else rgb


def examine_image(
    source: Encoded, *, name: str, at_least: int | None = None, window: Window = "file", frame: int = 0
) -> tuple[Image.Image, ImageFacts]:
    """The image as `open_image` returns it, and what its file held; of several frames one, counted from 0."""
    if isinstance(source, Path):
        check_regular(source)
    try:
        if is_dicom(source):
            picture, held = read_dicom(source, name=name, window=window, max_pixels=MAX_PIXELS, frame=frame)
            return picture, ImageFacts(**held)
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_formats()) as file:
            width, height = file.size
            if width < 1 or height < 1:
                raise UserError(f"{name}: expected an image, found one of {width} × {height} pixels.")
            if width * height > MAX_PIXELS:
                raise _too_large(name, f"{width} × {height}")
            if frame:
                if frame >= _frames(file):
                    raise UserError(f"{name}: frame {frame + 1} was asked for, but the file has {_frames(file)}.")
                file.seek(frame)
            mode = file.mode
            deep = mode == "F" or mode.startswith("I") or any(raw in str(file.tile) for raw in _DEEP_COLOR)
            turned = _orientation(file) > 1
            if at_least is not None:
                file.draft(file.mode, (2 * at_least, 2 * at_least))
            file.load()
            clear = _transparency(file, name)
            turn = _orientation(file)  # a TIFF is upright by now, a PNG may name its orientation only here
            image = _rgb(file, name, window)
            facts = ImageFacts(
                width,
                height,
                mode,
                gray=mode in {"1", "L", "LA", "La", "F"} or mode.startswith("I"),
                alpha=clear == "some",
                opaque=clear == "opaque",
                deep=deep,
                rotated=turned or turn > 1,
                frames=_frames(file),
            )
            return (image.transpose(_TURN[turn]) if turn in _TURN else image), facts
    except UserError:
        raise
    except UNREADABLE as error:
        raise unreadable(error, name, "an image") from None
    except UnidentifiedImageError:
        raise UserError(f"{name}: not an image that can be read{_size_hint(source)}; {_READABLE}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise _too_large(name, "its") from None
    except Exception as error:
        # Decoders meet damaged bytes with every kind of exception; for the reader it is one: this file is broken.
        problem = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(
            f"{name}: damaged or cut short ({problem}). Copy it again from where it came, or remove it."
        ) from None


def resize_square(image: Image.Image, size: int, fit: Fit = "squash") -> npt.NDArray[np.uint8]:
    """The image as bytes of shape (3, size, size), resized with an antialiased bicubic filter.

    Args:
        image: RGB.
        size: The side in pixels.
        fit: `squash` keeps every pixel of the image and gives up its aspect ratio: nothing at the border of a medical
            image is lost. `crop` keeps the aspect ratio and the largest central square, as CLIP does. `pad` keeps
            both and fills the rest with black.
    """
    width, height = image.size
    if fit == "pad" and width != height:
        scale = size / max(width, height)
        inner = (max(1, round(width * scale)), max(1, round(height * scale)))
        square = Image.new("RGB", (size, size))
        resized = image.resize(inner, Image.Resampling.BICUBIC, reducing_gap=3.0)
        square.paste(resized, ((size - inner[0]) // 2, (size - inner[1]) // 2))
    elif (width, height) == (size, size):
        square = image
    else:
        side, box = min(width, height), None
        if fit == "crop" and width != height:
            left, top = (width - side) / 2, (height - side) / 2
            box = (left, top, left + side, top + side)
        square = image.resize((size, size), Image.Resampling.BICUBIC, box=box, reducing_gap=3.0)
    return channels_first(np.asarray(square, dtype=np.uint8))


def channels_first(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """(H, W, 3) → (3, H, W), channel by channel: half the time of a transposed copy."""
    out = np.empty((pixels.shape[2], *pixels.shape[:2]), np.uint8)
    for channel in range(len(out)):
        np.copyto(out[channel], pixels[:, :, channel])
    return out


@cache
def _formats() -> tuple[str, ...]:
    """Those of the formats that this build of Pillow knows."""
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _orientation(image: Image.Image) -> int:
    """1 to 8; 1, upright, where the tag is absent or broken: a bad tag is no reason to refuse the pixels."""
    try:
        turn = image.getexif().get(_ORIENTATION, 1)
    except Exception:
        return 1
    return turn if turn in _TURN else 1


def _frames(image: Image.Image) -> int:
    """How many frames there are; counted last, because some formats move to other frames to tell."""
    try:
        return int(getattr(image, "n_frames", 1))
    except Exception:
        return 1  # a later frame is damaged, which the first, the one that is read, need not mind


def _rgb(image: Image.Image, name: str, window: Window) -> Image.Image:
    if image.mode == "F" or image.mode.startswith("I"):
        values = np.asarray(image).astype(np.float64)
        return Image.fromarray(spread(values, window, name=name)).convert("RGB")
    if image.has_transparency_data:
        above = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", above.size, "white"), above).convert("RGB")
    if image.mode == "RGB":
        return image.copy()  # the file is closed when it leaves the block, its pixels are not
    return image.convert("RGB")


def _transparency(image: Image.Image, name: str) -> Literal["none", "opaque", "some"]:
    """What an image's alpha channel says; one that hides every pixel is refused, as only white would be left."""
    if not image.has_transparency_data:
        return "none"
    lowest, highest = image.convert("RGBA").getchannel("A").getextrema()
    if highest == 0:
        raise UserError(
            f"{name}: every pixel is fully transparent, so there is nothing to see. If its colors are meant, save it "
            "without its alpha channel."
        )
    return "opaque" if lowest == 255 else "some"


def _too_large(name: str, size: str) -> UserError:
    return UserError(
        f"{name}: {size} pixels are too many; at most {MAX_PIXELS // 1_000_000} million are read. Make it smaller."
    )


def _size_hint(source: Encoded) -> str:
    size = len(source) if isinstance(source, bytes) else os.path.getsize(source) if isinstance(source, Path) else None
    return " (it is empty)" if size == 0 else ""


_READABLE = "JPEG, PNG, TIFF, BMP, GIF, WebP, PPM, JPEG 2000, AVIF and DICOM are."
