"""Mask files among images: a model that is trained on both learns to distinguish images from masks.

A file is a mask if its name says so (`001_mask.png`, a folder `masks`, or a name made from another image's, as
`IDRiD_01_EX.png` from `IDRiD_01.jpg`) and its pixels do: a few flat colors, or gray that is nearly black and white.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import ExifTags, Image

from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import EXAMPLES, Finding, counted
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.names import FileNames, words_of
from conceptlens.data.images.read import open_image
from conceptlens.data.regions.files import ASPECT, RegionFiles
from conceptlens.data.sources.encoded import EncodedSource

MASK_WORDS = {
    *("mask", "masks", "maske", "masken", "masque", "masques", "mascara", "mascaras"),
    *("seg", "segs", "segmentation", "segmentations", "segmented"),
    *("groundtruth", "groundtruths", "gt", "annotation", "annotations"),
}
OBJECT = "object"
_SAMPLE = 8  # candidates of a folder that are opened; if all of them are masks, or none, so is the rest
_SIDE = 128  # pixels of a side that are looked at
_FLAT_COLORS = 16
_NEARLY = 0.95  # of the pixels of a gray mask are within a tenth of black or white; JPEG and resizing blur the rest
_SPLIT = re.compile(r"[_\-. ]+")


@dataclass(frozen=True)
class MaskFile:
    """One mask, by paths relative to the folder that was looked at."""

    file: str
    image: str | None  # that it belongs to, if it can be told
    part: str  # what it shows; `object`, if nothing is said


def find_masks(root: Path, files: Sequence[str]) -> list[MaskFile]:
    """The masks among image files.

    Args:
        root: The folder.
        files: Paths of image files below it, with forward slashes.
    """
    stems = {PurePosixPath(file).stem for file in files}
    repeated: dict[str, int] = defaultdict(int)
    for file in files:
        repeated[PurePosixPath(file).stem] += 1
    folders: dict[str, list[str]] = defaultdict(list)
    for file in files:
        path = PurePosixPath(file)
        if (
            not MASK_WORDS.isdisjoint(words_of(file))
            or repeated[path.stem] > 1
            or any(start in stems for start in _starts(path.stem))
        ):
            folders[str(path.parent)].append(file)
    masks = [file for names in folders.values() for file in _flat_files(root, names)]
    if len(masks) == len(files):
        return []  # drawings in black and white, and nothing that they could be masks of
    images = FileNames(sorted(set(files) - set(masks)))
    placed = [(file, *_image_of(file, images)) for file in sorted(masks)]
    named = [entry for entry in placed if entry[1] or not MASK_WORDS.isdisjoint(words_of(entry[0]))]
    parts = _part_names(named)
    return [MaskFile(file, image, parts[file]) for file, image, _ in named]


def misfits(pairs: Iterable[tuple[Path, Path]]) -> list[Path]:
    """Of masks with their images those whose proportions are not the image's, by the headers of both."""
    known: dict[Path, float | None] = {}
    found = []
    for mask, image in pairs:
        for file in {mask, image} - known.keys():
            known[file] = _proportion(file)
        own, wanted = known[mask], known[image]
        if own is not None and wanted is not None and abs(own / wanted - 1) > ASPECT:
            found.append(mask)
    return found


def mask_findings(source: DataSource) -> list[Finding]:
    """What is wrong with the masks that `data.regions` names."""
    if not isinstance(source.places, RegionFiles) or not isinstance(source, EncodedSource):
        return []
    pairs = [
        (mask, image)
        for index, parts in source.places.masks.items()
        if isinstance(image := source.encoded(index), Path)
        for files in parts.values()
        for mask in files
    ]
    if not (other := misfits(pairs)):
        return []
    message = (
        f"{counted(len(other), 'mask')} of other proportions than the image. Maps cannot be compared with masks until "
        "they are taken out of `data.regions`."
    )
    return [Finding("warning", "mask-proportions", message, len(other), tuple(file.name for file in other[:EXAMPLES]))]


def _proportion(file: Path) -> float | None:
    """Width to height of an upright image; None where no header says it. What is damaged is told by its reader."""
    try:
        with Image.open(file) as image:
            width, height = image.size
            turned = image.getexif().get(ExifTags.Base.Orientation, 1) > 4
    except (OSError, ValueError, SyntaxError, TypeError, Image.DecompressionBombError):
        return None
    return height / width if turned else width / height


def is_flat(file: Path) -> bool:
    """Whether an image has a few flat colors only, or is gray and nearly black and white."""
    try:
        image = open_image(file, name=str(file), at_least=_SIDE)
    except UserError:
        return False
    steps = [max(1, side // _SIDE) for side in image.size]
    pixels = np.asarray(image)[:: steps[1], :: steps[0]].reshape(-1, 3)
    if len(np.unique(pixels @ np.array([1, 256, 65536]))) <= _FLAT_COLORS:
        return True
    gray = np.ptp(pixels.astype(np.int16), axis=1) <= 8
    level = pixels.max(1) / max(int(pixels.max()), 1)
    return bool(gray.mean() > 0.99 and ((level <= 0.1) | (level >= 0.9)).mean() >= _NEARLY)


def masks_message(root: Path, masks: Sequence[MaskFile]) -> str:
    """What is wrong with masks among training images, and what to do."""
    parts = ", ".join(sorted({mask.part for mask in masks})[:6])
    return (
        f"{root}: {len(masks):,} files look like masks of other images ({parts}), such as {masks[0].file}. A model "
        "would learn to distinguish images from masks. Move them to a folder of their own and name it as "
        "data.regions.masks, which judges where the model looks; `conceptlens init` does that for you."
    )


def _flat_files(root: Path, names: Sequence[str]) -> Iterator[str]:
    """The masks among the candidates of one folder: all or none if some of them agree, else each is looked at."""
    steps = np.linspace(0, len(names) - 1, min(_SAMPLE, len(names))).astype(int)
    sample = [is_flat(root / names[step]) for step in steps]
    if all(sample):
        yield from names
    elif any(sample):
        yield from (name for name in names if is_flat(root / name))


def _starts(stem: str) -> Iterator[str]:
    """What the name may begin with before a separator, the longest first: `a_1_EX` gives `a_1` and `a`."""
    for cut in reversed([match.start() for match in _SPLIT.finditer(stem) if match.start()]):
        yield stem[:cut]


def _image_of(file: str, images: FileNames) -> tuple[str | None, str]:
    """The image of a mask, and what its name adds to the image's."""
    stem = PurePosixPath(file).stem
    for start in (stem, *_starts(stem)):
        if image := images.find(start, str(PurePosixPath(file).parent)):
            return image, " ".join(word for word in _SPLIT.split(stem[len(start) :]) if word)
    return None, ""


def _part_names(placed: Sequence[tuple[str, str | None, str]]) -> dict[str, str]:
    """What each mask shows: by its folder where every part has a folder of its own, else by what its name adds."""
    added = {file: _plain(extra) for file, _, extra in placed}
    folder = {file: _plain(PurePosixPath(file).parent.name) for file, _, _ in placed}
    by_folder: dict[str, set[str]] = defaultdict(set)
    for file in added:
        by_folder[folder[file]].add(added[file])
    apart = all(image is None or PurePosixPath(image).parent != PurePosixPath(file).parent for file, image, _ in placed)
    own_folder = apart and len(by_folder) > 1 and all(len(extras) == 1 for extras in by_folder.values())
    return {file: (folder[file] if own_folder and folder[file] else added[file]) or OBJECT for file in added}


def _plain(name: str) -> str:
    """`2. Hard Exudates` as `hard exudates`, without words that only say that it is a mask, and without numbering."""
    words = [word for word in re.findall(r"[a-z]+\d*", name.lower()) if word.rstrip("0123456789") not in MASK_WORDS]
    return " ".join(word for word in words if len(word.rstrip("0123456789")) > 1)
