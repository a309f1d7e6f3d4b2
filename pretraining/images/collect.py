"""Which images the student may see: training splits only, and none of the twenty classes kept unseen.

Names are relative to the source's folder, so a list of them says exactly what went in, on any machine.
"""

import csv
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.sources.blood_cells import BloodCells

JPEG = {".jpg", ".jpeg"}
BLOOD_SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Listed:
    """One image on disk."""

    path: Path
    name: str  # relative to the folder of its source
    label: str  # wnid, or the class of a blood cell
    attributes: tuple[int, ...] = ()  # position of the value on each axis


@dataclass(frozen=True)
class Listing:
    """What a source offers for training."""

    source: str
    images: list[Listed]
    unseen: int = 0  # images left out because their class is kept unseen
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)  # attribute → its values


def list_tiny(folder: Path, unseen: Collection[str] = ()) -> Listing:
    """Tiny-ImageNet's train/ (wnid/images/*.JPEG); its val/ and test/ are never listed."""
    return _without("tiny", folder, _by_class(folder, "train"), unseen)


def list_imagenette(folder: Path, unseen: Collection[str] = ()) -> Listing:
    """Imagenette's train/ (wnid/*.JPEG). Some of its files are named `ILSVRC2012_val_…`: that is ImageNet's split."""
    return _without("imagenette", folder, _by_class(folder, "train"), unseen)


def list_samples(folder: Path, unseen: Collection[str] = ()) -> Listing:
    """One image of each ImageNet class, its wnid in front of the file name (`n01440764_tench.JPEG`)."""
    paths = _jpegs(folder)
    return _without("samples", folder, [(path, path.name.split("_")[0]) for path in paths], unseen)


def list_blood(folder: Path) -> Listing:
    """WBCAtt's training table: class and eleven attributes.

    Refused if it shares an image with the tables for val or test, or with those of the built-in blood cells.
    """
    concepts = ConceptSet.load("blood-cells")
    tables = {split: _blood_rows(folder, split) for split in BLOOD_SPLITS}
    held_out = {row["img_name"] for split in BLOOD_SPLITS[1:] for row in tables[split]}
    builtin = BloodCells(concepts).examples
    held_out |= {name for name, split in zip(builtin.ids, builtin.split or (), strict=True) if split != "train"}
    shared = [row["img_name"] for row in tables["train"] if row["img_name"] in held_out]
    if shared:
        raise UserError(
            f"{folder}: {len(shared)} training images are also in val or test, {shared[0]!r} first. Take the "
            "published tables; the student must not see an evaluation image."
        )
    images = []
    for row in tables["train"]:
        values = []
        for group in concepts.groups:
            if row[group.column] not in group.values:
                raise unknown_name(f"{group.name} of {row['img_name']}", row[group.column], group.values)
            values.append(group.values.index(row[group.column]))
        images.append(_blood_cell(folder, row, tuple(values)))
    return Listing("blood", images, axes={group.name: group.values for group in concepts.groups})


def list_evaluation(folder: Path) -> list[Path]:
    """Every JPEG under a folder, at any depth; the sets keep their masks as PNG, which are not photographs."""
    return _jpegs(folder, deep=True)


def list_blood_evaluation(folder: Path) -> list[Path]:
    """The images of WBCAtt's val and test tables."""
    return [_blood_cell(folder, row).path for split in BLOOD_SPLITS[1:] for row in _blood_rows(folder, split)]


def _without(source: str, folder: Path, found: Iterable[tuple[Path, str]], unseen: Collection[str]) -> Listing:
    found = list(found)
    images = [Listed(path, str(path.relative_to(folder)), wnid) for path, wnid in found if wnid not in unseen]
    return Listing(source, images, unseen=len(found) - len(images))


def _by_class(folder: Path, split: str) -> list[tuple[Path, str]]:
    classes = sorted(entry for entry in _folder(folder / split).iterdir() if entry.is_dir())
    if not classes:
        raise UserError(f"{folder / split}: expected one folder per class, found none.")
    return [(path, entry.name) for entry in classes for path in _jpegs(entry, deep=True)]


def _jpegs(folder: Path, *, deep: bool = False) -> list[Path]:
    entries = _folder(folder).rglob("*") if deep else _folder(folder).iterdir()
    paths = sorted(path for path in entries if path.suffix.lower() in JPEG)
    if not paths:
        raise UserError(f"{folder}: expected JPEG images, found none. Is this the right folder?")
    return paths


def _folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder. Give the folder the set was unpacked into.")
    return folder


def _blood_rows(folder: Path, split: str) -> list[dict[str, str]]:
    table = _folder(folder) / f"pbc_attr_v1_{split}.csv"
    if not table.is_file():
        raise UserError(f"{table}: no such file; expected WBCAtt's tables beside a folder of images per class.")
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _blood_cell(folder: Path, row: dict[str, str], attributes: tuple[int, ...] = ()) -> Listed:
    # The table's own `path` column follows the original layout, which an unpacked copy need not have.
    path = folder / row["label"].lower() / row["img_name"]
    if not path.is_file():
        raise UserError(f"{path}: no such image, but WBCAtt's table lists it.")
    return Listed(path, str(path.relative_to(folder)), row["label"], attributes)
