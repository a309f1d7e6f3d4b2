"""One DICOM file as RGB: rescaled to its units, windowed, the right way round (DICOM PS3.3, C.7.6.3 and C.11).

- Rescale slope and intercept, or the modality's table, come first; a CT is then in Hounsfield units.
- The first window center and width are used; without them the table of values of interest; without that 8 bits stay as
  they are and more are spread from their smallest to their largest value. `data.window` overrides all of it.
- MONOCHROME1 is inverted, so that bright is bright. Palettes and YBR become RGB.
- Of several frames the first is read, or the one that a table names (`scan.dcm#3`); only that one is decoded.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.core.regular import check_regular
from conceptlens.data.images.window import Window, spread

SUFFIXES = (".dcm", ".dicom")
DEFLATED = "1.2.840.10008.1.2.1.99"
Gray = npt.NDArray[np.float64]


def is_dicom(source: Path | bytes | BinaryIO) -> bool:
    """Whether the file carries DICOM's mark; a file that cannot be opened does not."""
    if isinstance(source, bytes):
        return source[128:132] == b"DICM"
    if isinstance(source, Path):
        check_regular(source)
        try:
            with source.open("rb") as file:
                return file.read(132)[128:] == b"DICM"
        except OSError:
            return False
    start = source.tell()
    mark = source.read(132)[128:]
    source.seek(start)
    return mark == b"DICM"


def read_dicom(
    source: Path | bytes | BinaryIO, *, name: str, window: Window, max_pixels: int, frame: int = 0
) -> tuple[Image.Image, dict[str, Any]]:
    """One frame as RGB, and what the file held, as keywords of `ImageFacts`.

    Args:
        source: A path, the file's bytes, or an open binary file.
        name: What to call the image in an error.
        window: Which values become black and white.
        max_pixels: More are refused before anything is decoded.
        frame: Which of several frames, counted from 0.
    """
    if isinstance(source, Path):
        with source.open("rb") as opened:
            return read_dicom(opened, name=name, window=window, max_pixels=max_pixels, frame=frame)
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    header = _header(file, name)
    rows, columns = int(header.get("Rows") or 0), int(header.get("Columns") or 0)
    if not rows or not columns or "BitsAllocated" not in header:
        raise UserError(f"{name}: this DICOM file holds no image ({header.get('Modality') or 'no modality'}).")
    if rows * columns > max_pixels:
        raise UserError(
            f"{name}: {columns} × {rows} pixels are too many; at most {max_pixels // 1_000_000} million are read. "
            "Make it smaller."
        )
    frames = int(header.get("NumberOfFrames") or 1)
    if frame >= frames:
        raise UserError(f"{name}: frame {frame + 1} was asked for, but the file has {frames}.")
    from pydicom.pixels.utils import pixel_array

    file.seek(0)
    pixels = pixel_array(file, index=frame)
    kind = str(header.get("PhotometricInterpretation", "MONOCHROME2"))
    facts = {
        "width": columns,
        "height": rows,
        "mode": f"DICOM {kind}",
        "gray": pixels.ndim == 2 and kind != "PALETTE COLOR",
        "alpha": False,
        "deep": int(header.get("BitsStored", 8)) > 8,
        "rotated": False,
        "frames": frames,
    }
    if not facts["gray"]:
        return Image.fromarray(_color(pixels, header, kind)), facts
    gray = _windowed(pixels, header, window, name)
    return Image.fromarray(255 - gray if kind == "MONOCHROME1" else gray).convert("RGB"), facts


def _header(file: BinaryIO, name: str) -> Any:
    """Everything but the pixels, after a look at how they are stored."""
    try:
        import pydicom
    except ImportError:
        raise UserError(
            f"{name}: reading DICOM needs the package pydicom. Install it: pip install 'conceptlens[dicom]'"
        ) from None
    from pydicom.filereader import _read_file_meta_info, read_preamble
    from pydicom.pixels.decoders.base import get_decoder

    pydicom.config.settings.reading_validation_mode = pydicom.config.IGNORE  # odd spellings in tags that nobody reads
    read_preamble(file, False)
    syntax = _read_file_meta_info(file).get("TransferSyntaxUID")
    if syntax is None:
        raise UserError(f"{name}: damaged: it does not say how its pixels are stored (no transfer syntax).")
    if syntax == DEFLATED:  # a few bytes could unfold to any size
        raise UserError(f"{name}: deflated DICOM files are not read. Save it with another transfer syntax.")
    try:
        available = bool(get_decoder(syntax).is_available)
    except NotImplementedError:
        available = False
    if not available:
        raise UserError(
            f"{name}: its pixels are compressed ({syntax.name}), and no decoder for that is installed. "
            "Try: pip install pylibjpeg pylibjpeg-libjpeg pylibjpeg-openjpeg; or decompress the file with dcmdjpeg or "
            "gdcmconv --raw."
        )
    file.seek(0)
    header = pydicom.dcmread(file, stop_before_pixels=True)
    # Enhanced files keep rescale and window with the frames: the first frame's own, then what all frames share.
    for groups in ("PerFrameFunctionalGroupsSequence", "SharedFunctionalGroupsSequence"):
        for group in list(header.get(groups) or [])[:1]:
            for kept in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
                for element in (each for part in list(group.get(kept) or [])[:1] for each in part):
                    if element.tag not in header:
                        header.add(element)
    return header


def _windowed(pixels: npt.NDArray[Any], header: Any, window: Window, name: str) -> npt.NDArray[np.uint8]:
    from pydicom.pixels.processing import apply_modality_lut, apply_voi

    values: Gray = np.array(apply_modality_lut(pixels, header), dtype=np.float64)
    if window != "file":
        return spread(values, window, name=name)
    center, width = _first(header.get("WindowCenter")), _first(header.get("WindowWidth"))
    shape = str(header.get("VOILUTFunction") or "LINEAR")
    if center is not None and width is not None and width >= (1 if shape == "LINEAR" else 1e-9):
        if shape == "SIGMOID":
            curve: Gray = 1 / (1 + np.exp(np.clip(-4 * (values - center) / width, -700, 700)))
            return spread(curve, (0.0, 1.0), name=name)
        if shape == "LINEAR_EXACT":
            return spread(values, (center - width / 2, center + width / 2), name=name)
        return spread(values, (center - 0.5 - (width - 1) / 2, center - 0.5 + (width - 1) / 2), name=name)
    if header.get("VOILUTSequence"):
        return spread(np.asarray(apply_voi(values.astype(np.int64), header), np.float64), "range", name=name)
    plain = int(header.get("BitsStored", 16)) == 8 and np.array_equal(values, pixels) and not pixels.min() < 0
    return spread(values, (0.0, 255.0) if plain else "range", name=name)


def _first(value: Any) -> float | None:
    """A number, or the first of several; None where there is none."""
    if value is None or value == "":
        return None
    number = float(value[0] if hasattr(value, "__getitem__") and not isinstance(value, str) else value)
    return number if np.isfinite(number) else None


def _color(pixels: npt.NDArray[Any], header: Any, kind: str) -> npt.NDArray[np.uint8]:
    """RGB bytes (H, W, 3); deeper color keeps its upper 8 bits."""
    bits = int(header.get("BitsStored", 8))
    if kind == "PALETTE COLOR":
        from pydicom.pixels.processing import apply_color_lut

        pixels = apply_color_lut(pixels, header)
        bits = 8 * pixels.dtype.itemsize
    return np.ascontiguousarray(pixels[..., :3] >> max(bits - 8, 0)).astype(np.uint8)


IDENTITY = (
    *("PatientName", "PatientID", "PatientBirthDate", "PatientAddress", "OtherPatientIDs", "AccessionNumber"),
    *("ReferringPhysicianName", "InstitutionName", "OperatorsName"),
)


def header_words(file: Path, names: Sequence[str]) -> dict[str, str]:
    """Those of a header's fields that are filled in; none of a file that is damaged, which `data check` reports."""
    try:
        import pydicom

        check_regular(file)
        header = pydicom.dcmread(file, stop_before_pixels=True, specific_tags=list(names))
    except Exception:
        return {}
    return {name: text for name in names if (text := str(header.get(name) or "").strip())}


def read_patient(file: Path) -> str | None:
    """The patient's id in a file's header, or the name where there is none; None if the header says neither."""
    words = header_words(file, ("PatientID", "PatientName"))
    return words.get("PatientID") or words.get("PatientName")


def identity_fields(file: Path) -> list[str]:
    """Names of the fields that may name someone and are filled in, and whether pixels are said to hold print."""
    words = header_words(file, (*IDENTITY, "BurnedInAnnotation"))
    burned = words.pop("BurnedInAnnotation", "").upper() == "YES"
    return [*words, *(["BurnedInAnnotation"] if burned else [])]
