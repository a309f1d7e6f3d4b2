"""A folder per class, with images anywhere inside; folders called train, val and test may stand above them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems, counted
from conceptlens.data.checks.masks import find_masks, masks_message
from conceptlens.data.dataset import UNLABELED, Examples
from conceptlens.data.images.read import SUFFIXES
from conceptlens.data.labels.classes import class_index, concepts_of_classes, order_classes, report_unknown_class
from conceptlens.data.labels.rename import check_rename, rename_class
from conceptlens.data.labels.words import printable
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.data.splits.names import split_of
from conceptlens.recipes.schema import DataConfig


class Folder(EncodedSource):
    """Images sorted into folders. Concept labels come from the concept set's class table.

    Files that begin with a dot and files that are not called like an image are skipped. If every folder at the top is
    called like a split (train, val, valid, validation, dev, test), the class folders are looked for one level below.

    Args:
        path: The folder.
        config: Task and order of the classes.
        concepts: The concept set.
        problems: Gathers what is wrong instead of raising the first error; images of unknown classes are then left out.
    """

    def __init__(self, path: Path, config: DataConfig, concepts: ConceptSet, problems: Problems | None = None) -> None:
        problems = problems or Problems()
        if config.task == "multilabel":
            raise UserError(f"{path}: a folder per class gives each image one class; a multi-label task needs a table.")
        self.name = path.resolve().name
        self.task = config.task
        self.window = config.window
        self._root = path
        tops = _folders(path)
        if not tops:
            loose = sum(1 for _ in _images(path))
            raise UserError(
                f"{path}: expected a folder of images per class, found {counted(loose, 'image')} and no folder. "
                f"If a table says what they are, `conceptlens init {path}` finds it and writes a recipe."
            )
        sides = {top: split_of(top) for top in tops}
        divided = all(sides.values())
        places = (
            [(f"{top}/{name}", name, sides[top]) for top in tops for name in _folders(path / top)] if divided else []
        )
        if not divided:
            places = [(top, top, None) for top in tops]

        ids: list[str] = []
        names: list[str] = []
        split: list[str] = []
        skipped: list[str] = []
        undecodable: list[str] = []
        filled: dict[str, bool] = {}
        check_rename(config.rename, concepts)
        for place, folder, side in places:
            name = rename_class(folder, config.rename)
            if name is None:
                continue
            files = sorted(_images(path / place, skipped))
            undecodable += [shown for file in files if (shown := printable(f"{place}/{file}")) != f"{place}/{file}"]
            files = [file for file in files if printable(f"{place}/{file}") == f"{place}/{file}"]
            filled[name] = filled.get(name, False) or bool(files)
            ids += [f"{place}/{file}" for file in files]
            names += [name] * len(files)
            split += [side or ""] * len(files)
        self._report(filled, skipped, problems)
        if masks := find_masks(path, ids):
            drawn = {mask.file for mask in masks}
            examples = [mask.file for mask in masks]
            problems.add("error", "masks", masks_message(path, masks), count=len(masks), examples=examples)
            keep = [position for position, name in enumerate(ids) if name not in drawn]
            ids, names, split = ([column[position] for position in keep] for column in (ids, names, split))
        if undecodable:
            message = f"{path}: {counted(len(undecodable), 'image')} with a name that is not UTF-8; rename."
            problems.add("error", "not-utf8", message, count=len(undecodable), examples=undecodable)
        if not ids:
            raise UserError(f"{path}: no images in its folders; {', '.join(SUFFIXES)} are read.")

        found = sorted(set(names))
        self.classes = order_classes(found, wanted=config.classes, concepts=concepts, task=self.task, source=str(path))
        index = {name: class_index(name, self.classes) for name in found}
        for name, number in index.items():
            if number is None:
                report_unknown_class(name, self.classes, place=str(path), count=names.count(name), problems=problems)
        kept = [position for position, name in enumerate(names) if index[name] is not None]
        if not kept:
            raise UserError(
                f"{path}: none of its folders ({', '.join(found)}) is called like a class: {', '.join(self.classes)}."
            )
        codes = {name: UNLABELED if number is None else number for name, number in index.items()}
        labels = np.array([codes[names[position]] for position in kept], dtype=np.int64)
        self.examples = Examples(
            ids=tuple(ids[position] for position in kept),
            labels=labels,
            concepts=concepts_of_classes(concepts, self.classes, labels, self.task),
            split=tuple(split[position] for position in kept) if divided else None,
        )

    def encoded(self, index: int) -> Path:
        return self._root / self.examples.ids[index]

    def _report(self, filled: dict[str, bool], skipped: list[str], problems: Problems) -> None:
        empty = [name for name, full in filled.items() if not full]
        if empty:
            message = f"{self._root}: {counted(len(empty), 'class folder')} without an image."
            problems.add("warning", "empty-folders", message, count=len(empty), examples=empty)
        if skipped:
            message = f"{self._root}: {counted(len(skipped), 'file')} not called like an image; skipped."
            problems.add("info", "skipped-files", message, count=len(skipped), examples=skipped)


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _folders(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir() and not _hidden(entry.name))
    except OSError as error:
        _unreadable(error)


def _unreadable(error: OSError) -> NoReturn:
    raise UserError(f"{error.filename}: this folder cannot be read: {error.strerror}.") from None


def _images(path: Path, skipped: list[str] | None = None) -> Iterator[str]:
    """Images below a folder, as relative paths with forward slashes; other files are added to `skipped`."""
    for folder, inner, files in os.walk(path, onerror=_unreadable):
        inner[:] = [name for name in inner if not _hidden(name)]
        below = Path(folder).relative_to(path).as_posix()
        prefix = "" if below == "." else f"{below}/"
        for name in files:
            if name.lower().endswith(SUFFIXES) and not _hidden(name):
                yield prefix + name
            elif skipped is not None and not _hidden(name):
                skipped.append(f"{path.name}/{prefix}{name}")
