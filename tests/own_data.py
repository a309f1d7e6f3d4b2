"""What a user brings: photographs with awkward names, a table, folders, a concept file, a recipe that trains at once.

Class and border can be seen: benign is reddish, malignant bluish; an irregular border has dark stripes.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

CONCEPTS = """
classes: [benign, malignant]
groups:
  border: {prompt: "a lesion with a {value} border", values: [regular, irregular]}
  signs: {kind: independent, values: {hair: a hair across the lesion, ruler: a ruler beside it}}
by_class:
  benign: {border: regular}
  malignant: {border: irregular}
"""

RECIPE = """
data: {{source: "{table}", class_column: diagnosis}}
concepts: "{concepts}"
method: ivq-cbm
encoder: {{name: builtin/vit-mini, image_size: 32, options: {{width: 32, depth: 1, heads: 2}}}}
training: {{epochs: 2, batch_size: 8, learning_rate: 1e-3, warmup: 1, threads: 1, rank_every: 2, rank_images: 2}}
metrics: {{bootstrap: 20, rank_images: 4}}
"""

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class OwnData:
    """A folder of someone's data."""

    root: Path

    @property
    def images(self) -> Path:
        return self.root / "fotos für später"

    @property
    def table(self) -> Path:
        return self.root / "lesions.csv"

    @property
    def folders(self) -> Path:
        return self.root / "by class"

    @property
    def concepts(self) -> Path:
        return self.root / "concepts.yaml"

    @property
    def recipe(self) -> Path:
        return self.root / "recipe.yaml"

    def image(self, number: int) -> Path:
        return self.images / f"läsion {number}.png"

    def rows(self) -> Rows:
        with self.table.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def write_rows(self, rows: Rows, *, encoding: str = "utf-8") -> None:
        with self.table.open("w", newline="", encoding=encoding) as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def change(self, number: int, **cells: str) -> None:
        """Write other cells into a row; -1 for the last."""
        rows = self.rows()
        rows[number].update(cells)
        self.write_rows(rows)

    def change_all(self, side: str | None = None, **cells: str) -> None:
        """Write other cells into every row, or into those of one side of the split."""
        self.write_rows([{**row, **cells} if side in (None, row["split"]) else row for row in self.rows()])

    def drop(self, *columns: str) -> None:
        self.write_rows([{key: cell for key, cell in row.items() if key not in columns} for row in self.rows()])


def picture(label: str, border: str, seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).normal(0, 20, (32, 32, 3))
    pixels = np.clip(noise + ((200, 80, 80) if label == "benign" else (60, 60, 200)), 0, 255).astype(np.uint8)
    if border == "irregular":
        pixels[::4] = 0
    return Image.fromarray(pixels)


def make_own_data(root: Path, n: int = 40) -> OwnData:
    """Write everything; three fifths are for training, a fifth each for validation and test."""
    own = OwnData(root)
    rows: Rows = []
    for number in range(n):
        label, border = ("benign", "malignant")[number % 2], ("regular", "irregular")[number // 2 % 2]
        image = picture(label, border, number)
        for file in (own.image(number), own.folders / label / f"{number}.png"):
            file.parent.mkdir(parents=True, exist_ok=True)
            image.save(file)
        rows.append(
            {
                "image": str(own.image(number).relative_to(root)),
                "diagnosis": label,
                "grade": ("none", "mild", "severe")[number % 3],
                "findings": ("cyst; scar", "cyst", "none", "scar", "")[number % 5],
                "border": border,
                "signs": ("hair; ruler", "hair", "none", "")[number % 4],
                "split": "train" if number < 0.6 * n else "val" if number < 0.8 * n else "test",
                "group": f"patient {number // 2}",
                "certainty": ("1", "0.5", "")[number % 3],
                "age": str(number),
            }
        )
    own.write_rows(rows)
    own.concepts.write_text(CONCEPTS, encoding="utf-8")
    own.recipe.write_text(RECIPE.format(table=own.table, concepts=own.concepts), encoding="utf-8")
    return own
