"""The file within its limit: pictures as large as fit; where the smallest do not, fewer of them, and it says so."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from conceptlens.core.errors import UserError
from conceptlens.web.share.gather import Gathered
from conceptlens.web.share.in_process import Inside
from conceptlens.web.share.note import Note
from conceptlens.web.share.page import render
from conceptlens.web.share.pictures import SIZES, Size, address_of, webp

ADDRESS = 80  # bytes, about, that stand beside a picture or an answer
NOTES = 2000  # that the note may still grow by


@dataclass
class _Pictures:
    """Pictures of one size: of the data by row, and other files by address; most wanted first."""

    size: Size
    images: dict[int, str]
    files: dict[str, str]

    @property
    def bytes(self) -> int:
        return sum(len(each) + ADDRESS for part in (self.images, self.files) for each in part.values())


def fit(inside: Inside, found: Gathered, note: Note, limit: int) -> tuple[str, Note]:
    """The whole file and its note.

    Raises:
        UserError: It does not fit, whatever is left out.
    """
    contents = {address: inside.file(address) for address in found.files}
    bare = len(render(note, found.packed(found.rows, inside), {}, {}).encode()) + NOTES
    pictures = _Pictures(SIZES[0], {}, {})
    for size in SIZES:
        pictures = _drawn(inside, found, contents, size)
        if bare + pictures.bytes <= limit:
            break
    notes = [*note.notes, *_drop(pictures, found.predictions, bare - limit, limit)]
    if pictures.size != SIZES[0] and (pictures.images or pictures.files):
        notes.append(f"Pictures were made smaller to keep the file below {limit / 1e6:.1f} MB.")
    if found.rows and not pictures.images:
        raise UserError(f"Not even one image fits into {limit / 1e6:.1f} MB. Choose fewer views, or a larger limit.")
    note = replace(note, notes=notes)
    if found.rows:
        note = replace(note, images=len(pictures.images), of=found.of, split=found.split, pixels=pictures.size.side)
    images = {f"{found.split}/{row}": pictures.images[row] for row in sorted(pictures.images)}
    text = render(note, found.packed(list(pictures.images), inside), images, pictures.files)
    size_now = len(text.encode())
    if size_now > limit:
        raise UserError(
            f"The file would have {size_now / 1e6:.1f} MB; at most {limit / 1e6:.1f} MB were asked for. Choose fewer "
            "views, or a larger limit."
        )
    return text, note


def _drawn(inside: Inside, found: Gathered, contents: Mapping[str, tuple[int, str, bytes]], size: Size) -> _Pictures:
    return _Pictures(
        size,
        {row: webp(inside.loaded(), found.split, row, size) for row in found.rows},
        {address: address_of(kind, each, size) for address, (status, kind, each) in contents.items() if status < 400},
    )


def _drop(pictures: _Pictures, predictions: Mapping[int, str], over: int, limit: int) -> list[str]:
    """Leave out what is least wanted until the rest fits; what is told of that.

    Args:
        pictures: What of it is left out is taken away.
        predictions: Answers that go with the images of the data.
        over: Bytes without pictures that are over the limit; negative where there is room.
        limit: In words.
    """
    over += pictures.bytes
    notes: list[str] = []
    files, images = len(pictures.files), len(pictures.images)
    while over > 0 and pictures.files:
        over -= len(pictures.files.popitem()[1]) + ADDRESS
    while over > 0 and pictures.images:
        row, gone = pictures.images.popitem()
        over -= len(gone) + len(predictions[row]) + 2 * ADDRESS
    for what, before, after in (("pictures", files, len(pictures.files)), ("images", images, len(pictures.images))):
        if after < before:
            notes.append(
                f"{before - after} of {before} {what} were left out to keep the file below {limit / 1e6:.1f} MB."
            )
    return notes
