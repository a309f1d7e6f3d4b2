"""What lies in a folder: images, masks, tables, and what the headers of DICOM files say."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conceptlens.core.errors import UserError
from conceptlens.core.regular import check_regular
from conceptlens.data.checks import images
from conceptlens.data.checks.masks import MaskFile, find_masks
from conceptlens.data.checks.survey import survey_images
from conceptlens.data.dataset import UNLABELED, Examples, no_concepts
from conceptlens.data.images.dicom import SUFFIXES as DICOM
from conceptlens.data.images.dicom import read_patient
from conceptlens.data.images.read import SUFFIXES
from conceptlens.data.sources.encoded import EncodedSource

TABLES = (".csv", ".tsv", ".xlsx", ".xls", ".parquet", ".pq")
PATIENT = "patient"  # the column made from DICOM headers


@dataclass(frozen=True)
class Contents:
    """Files below a folder, by their paths relative to it."""

    root: Path
    images: tuple[str, ...]  # without masks
    masks: tuple[MaskFile, ...]
    tables: tuple[str, ...]


def look(path: Path) -> Contents:
    """Everything of use below a folder; of a table, below its folder.

    Raises:
        UserError: There is no such folder, or no image in it.
    """
    check_regular(path)
    if not path.exists():
        raise UserError(f"{path}: no such folder. Name the folder that holds your images and tables.")
    root = path if path.is_dir() else path.parent
    files: list[str] = []
    for folder, inner, names in os.walk(root):
        # A run or the result of an earlier `init` is no data.
        inner[:] = sorted(name for name in inner if not name.startswith((".", "__MACOSX")))
        if "run.json" in names or ("recipe.yaml" in names and "images.csv" in names):
            inner.clear()
            continue
        below = Path(folder).relative_to(root)
        shown = [name for name in sorted(names) if not name.startswith((".", "~$"))]
        files += [(below / name).as_posix() for name in shown if Path(folder, name).is_file()]  # no pipe, no device
    pictures = [file for file in files if file.lower().endswith(SUFFIXES)]
    if not pictures:
        raise UserError(f"{root}: no images here; {', '.join(SUFFIXES)} are read.")
    masks = find_masks(root, pictures)
    hidden = {mask.file for mask in masks}
    tables = [file for file in files if file.lower().endswith(TABLES)]
    if path.is_file():
        tables = [path.name]
    return Contents(root, tuple(file for file in pictures if file not in hidden), tuple(masks), tuple(tables))


def patients(contents: Contents) -> dict[str, str]:
    """Image → a number for its patient, from the headers of DICOM files; their own names and ids stay out of it."""
    known: dict[str, str] = {}
    numbers: dict[str, str] = {}
    for file in contents.images:
        if file.lower().endswith(DICOM) and (patient := read_patient(contents.root / file)):
            known[file] = numbers.setdefault(patient, f"patient {len(numbers) + 1}")
    return known


class ImageFiles(EncodedSource):
    """Image files without labels, to be looked at."""

    def __init__(self, root: Path, files: Sequence[str]) -> None:
        self.name, self.classes, self.task = root.name, (), "single"
        self._root = root
        n = len(files)
        self.examples = Examples(tuple(files), np.full(n, UNLABELED, np.int64), no_concepts(n, 0))

    def encoded(self, index: int) -> Path:
        return self._root / self.examples.ids[index]


@dataclass(frozen=True)
class Copies:
    """Sets of two or more images: those with equal pixels, and those that are equal or nearly so."""

    equal: tuple[tuple[str, ...], ...]
    alike: tuple[tuple[str, ...], ...]
    unreadable: tuple[str, ...] = ()  # files that are no images, whatever their names say
    blank: tuple[str, ...] = ()  # images in which nothing can be seen


def find_copies(contents: Contents, *, quiet: bool) -> Copies:
    """Images that are there more than once."""
    files = contents.images
    survey = survey_images(ImageFiles(contents.root, files), quiet=quiet)
    found = images.find_copies(survey)
    return Copies(
        tuple(tuple(files[index] for index in same.tolist()) for same in found.equal),
        tuple(tuple(files[index] for index in members) for members in found.sets(len(files))),
        tuple(files[index] for index in sorted(survey.unreadable)),
        tuple(
            file
            for file, blank, facts in zip(files, survey.blank, survey.facts, strict=True)
            if blank and facts is not None and facts.frames == 1  # of several, only the first was seen
        ),
    )
