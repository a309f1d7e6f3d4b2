"""Trainings that run.py wrote, by section, bank and condition, and the numbers of their single test images."""

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.core.files import read_text, stored

Tree = dict[str, Any]
Row = dict[str, Any]
RESAMPLES = 1000


def pairs(row: Row, name: str) -> float | None:
    found: float | None = row["test"].get("places", {}).get("pairs", {}).get(name)
    return found


class Results:
    """All rows, by section, bank and condition."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        self.failed: list[Row] = []
        newest = {}
        for line in read_text(stored(folder / "rows.jsonl")).splitlines():
            row = json.loads(line)
            newest[tuple(row[key] for key in ("section", "bank", "condition", "seed"))] = row
        for (section, bank, condition, _), row in newest.items():
            if "failed" in row:
                self.failed.append(row)
            else:
                self.rows[section, bank, condition].append(row)
        file = stored(folder / "blind.json")
        self.blind: Tree = json.loads(read_text(file)) if file.exists() else {}
        packed = folder / "images.npz"
        self.compared: dict[tuple[str, str, str, str], None] = {}  # a set that keeps its order
        self.packed: Mapping[str, Any] = dict(np.load(packed, allow_pickle=False)) if packed.exists() else {}

    def images(self, section: str, bank: str, condition: str, measure: str) -> npt.NDArray[np.float64] | None:
        """The numbers of single test images, the mean over seeds."""
        key = "|".join((section, bank, condition, measure))
        if key in self.packed:
            return np.asarray(self.packed[key], np.float64)
        found = []
        for row in self.rows.get((section, bank, condition), []):
            name = "-".join(str(row[key]).replace(" ", "_") for key in ("section", "condition", "bank", "seed"))
            file = self.folder / "images" / f"{name}.npz"
            held = np.load(file, allow_pickle=False) if file.exists() else {}
            if measure in held:
                found.append(held[measure].astype(np.float64))
        return np.mean(found, axis=0) if found else None

    def pack(self, path: Path) -> None:
        """All single images in one file, of what was compared so far."""
        held = {
            "|".join(key): images.astype(np.float16)
            for key in self.compared
            if (images := self.images(*key)) is not None
        }
        np.savez_compressed(path, **held)  # type: ignore[arg-type]

    def difference(self, ours: tuple[str, str, str], theirs: tuple[str, str, str], measure: str) -> Tree | None:
        """Ours less theirs, with an interval over images."""
        self.compared |= {(*ours, measure): None, (*theirs, measure): None}
        first, second = self.images(*ours, measure), self.images(*theirs, measure)
        if first is None or second is None:
            return None
        away = first - second
        away = away[~np.isnan(away)]
        draw = np.random.default_rng(0)
        means = [away[draw.integers(len(away), size=len(away))].mean() for _ in range(RESAMPLES)]
        return {"difference": float(away.mean()), "interval": np.quantile(means, [0.025, 0.975]).tolist()}
