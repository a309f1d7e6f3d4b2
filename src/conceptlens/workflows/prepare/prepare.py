"""One published data set → its tables, with where it comes from and whether its label files are those expected."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import parse_yaml
from conceptlens.core.package_files import package_text
from conceptlens.workflows.prepare.cub import cub
from conceptlens.workflows.prepare.sets import Found, blood_cells, ham10000, idrid
from conceptlens.workflows.prepare.tables import link, write_rows

NAMES = {"blood-cells": "blood", "ham10000": "ham10000", "idrid": "idrid"}  # of the tables that comparisons read
CONCEPTS = {"cub": "cub-312", "blood-cells": "blood-cells", "ham10000": "dermoscopy", "idrid": "fundus"}


@dataclass(frozen=True, repr=False)
class Prepared(ResultMixin):
    """A prepared data set."""

    name: str
    file: Path
    images: dict[str, int]
    concepts: str
    source: dict[str, Any]
    notes: list[str]

    def text(self) -> str:
        counts = ", ".join(f"{number:,} {split}" for split, number in self.images.items())
        return "\n".join(
            [
                f"{self.file}: {counts}; concepts: {self.concepts}",
                f"{self.source['title']}; {self.source['address']}; {self.source['license']}",
                *(f"note: {note}" for note in self.notes),
            ]
        )


@cache
def sources() -> dict[str, Any]:
    """Address, license and expected files of each data set."""
    found: dict[str, Any] = parse_yaml(
        package_text("conceptlens.workflows.prepare", "sources.yaml"), where="sources.yaml"
    )
    return found


def prepare(
    name: str, folder: Path, *, out: Path, image_labels: bool = False, sizes: Path | None, split: Path | None
) -> Prepared:
    """Write the tables of a data set into a folder."""
    if name not in sources():
        raise UserError(f"No data set {name!r} to prepare. {did_you_mean(name, sources())}")
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder. Get the data from {sources()[name]['address']}.")
    if ((image_labels or sizes) and name != "cub") or (split and name != "ham10000"):
        raise UserError("--image-labels and --sizes are for cub, --split is for ham10000.")
    if name == "cub":
        table, counts = out / "cub" / "images.csv", cub(folder, out / "cub", image_labels=image_labels, sizes=sizes)
    else:
        found = {"blood-cells": blood_cells, "idrid": idrid}.get(name, lambda path: ham10000(path, split))(folder)
        table, counts = out / f"{NAMES[name]}.csv", write_set(out, NAMES[name], found)
    return Prepared(name, table, counts, CONCEPTS[name], sources()[name], _differences(name, folder, counts))


def write_set(out: Path, name: str, found: Found) -> dict[str, int]:
    """A table, and a folder of links to its images; returns how many of each split."""
    rows, images = found
    for row in rows:
        link(out / name / row["image"], images[row["image"]])
    write_rows(out / f"{name}.csv", rows)
    return dict(Counter(row["split"] for row in rows))


def _differences(name: str, folder: Path, counts: dict[str, int]) -> list[str]:
    expected = sources()[name]
    notes = []
    if sum(counts.values()) != expected["images"]:
        notes.append(f"expected {expected['images']:,} images, found {sum(counts.values()):,}")
    for file, wanted in expected["files"].items():
        path = folder / file
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
            notes.append(f"{file} is not the file that evidence was made from (SHA-256 {wanted[:12]}…)")
    return notes
