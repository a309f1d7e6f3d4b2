"""What may name a patient: fields in the headers of files, and letters burned into the pixels.

Letters are found by shape, not read: five or more marks of the brightest level and one height in a row, as the labels
that ultrasound and X-ray machines print. It is a reason to look, not proof; and it may miss handwriting or small print.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import EXAMPLES, Finding, counted
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.dicom import identity_fields, is_dicom
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.data.splits.spread import spread

LOOKED_AT = 200  # images whose pixels are searched for letters
SIDE = 1024  # pixels of the larger side in which they are searched
LETTERS = 5  # in a row
_TALL = (6, 60)  # pixels of a letter
EXIF = {0x8825: "GPS position", 0x9C9D: "author", 0x013B: "artist", 0xA430: "camera owner"}


def identity_findings(source: DataSource) -> Iterator[Finding]:
    """Warnings about what should be removed before anything is shared."""
    fields: dict[str, list[str]] = {}
    ids = source.examples.ids
    if isinstance(source, EncodedSource):
        for index, name in enumerate(ids):
            file = source.encoded(index)
            for field in header_fields(file) if isinstance(file, Path) else ():
                fields.setdefault(field, []).append(name)
    if fields:
        count = len({name for names in fields.values() for name in names})
        message = (
            f"{counted(count, 'image')} name the patient or the place in their headers ({', '.join(sorted(fields))}). "
            "Nothing of it is copied into a run, but do not pass the files on; remove the fields first."
        )
        yield Finding("warning", "patient-fields", message, count, tuple(next(iter(fields.values()))[:EXAMPLES]))
    burned = []
    for index in spread(np.arange(len(ids)), LOOKED_AT).tolist():
        try:
            if has_letters(source.read_at_least(index, SIDE)):
                burned.append(ids[index])
        except UserError:
            continue  # unreadable images are reported elsewhere
    if burned:
        message = (
            f"{counted(len(burned), 'image')} of {min(LOOKED_AT, len(ids))} that were looked at may have letters "
            "burned in: a name, a date, a label of the machine. Look at them before you share a report; a model may "
            "also learn from such marks."
        )
        yield Finding("warning", "burned-in-text", message, len(burned), tuple(burned[:EXAMPLES]))


def header_fields(file: Path) -> list[str]:
    """Fields of a file's header that may name someone and are filled in."""
    if is_dicom(file):
        return identity_fields(file)
    try:
        with Image.open(file) as image:
            tags = image.getexif()
    except Exception:  # whatever is wrong with it, the survey says so
        return []
    return [name for tag, name in EXIF.items() if tags.get(tag)]


def has_letters(image: Image.Image) -> bool:
    """Whether a row of marks of the brightest level looks like print."""
    if max(image.size) > SIDE:
        image = image.copy()
        image.thumbnail((SIDE, SIDE))
    pixels: npt.NDArray[np.uint8] = np.asarray(image.convert("RGB"))
    bright = pixels.max(2) >= 235
    if not bright.any() or bright.mean() > 0.2:
        return False
    marks, count = ndimage.label(bright)
    if count > 5000:
        return False
    boxes = [(rows.start, rows.stop, columns.start, columns.stop) for rows, columns in ndimage.find_objects(marks)]
    letters = sorted(
        box
        for box in boxes
        if _TALL[0] <= box[1] - box[0] <= _TALL[1] and 0.1 <= (box[3] - box[2]) / (box[1] - box[0]) <= 1.6
    )
    for top, bottom, _, _ in letters:
        tall = bottom - top
        row = sorted(
            box[2:]
            for box in letters
            if abs(box[1] - bottom) <= max(1, tall // 8) and abs((box[1] - box[0]) - tall) <= max(1, tall // 5)
        )
        run = 1
        for (_, end), (start, _) in pairwise(row):
            run = run + 1 if 0 < start - end <= 1.5 * tall else 1
            if run >= LETTERS:
                return True
    return False
