"""Ranks of encoders not pretrained against collapse: rows of `learning.py` → a table of README.md."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_text, stored

HERE = Path(__file__).parent
FILE = HERE / "backbones.jsonl"
Row = dict[str, Any]
ENCODERS = {"efficientnet-lite0": "EfficientNet-Lite0 (ImageNet)", "vit from scratch": "ViT from scratch"}
DATA = ("blood cells", "HAM10000")
CODES = {"printed": "`ivq-cbm`, joint", "released": "`ivq-cbm-released`"}
REGULARIZERS = {"none": "nothing", "ivq": "IVQ", "l2": "plain L2"}


def read(file: Path = FILE) -> list[Row]:
    """Finished trainings of the experiment."""
    place = file if file.exists() else stored(file)
    rows = [json.loads(line) for line in read_text(place).splitlines()] if place.exists() else []
    return [row for row in rows if row["experiment"] == "rank" and "failed" not in row]


def trained(rows: list[Row], cell: tuple[str, str, str, str]) -> dict[float, list[Row]]:
    """The trainings of a code, data set, encoder and regularizer, by weight."""
    mine = [row for row in rows if (row["code"], row["data"], row["encoder"], row["regularizer"]) == cell]
    return {
        weight: [row for row in mine if row["weight"] == weight] for weight in sorted({row["weight"] for row in mine})
    }


def spread(values: list[float], digits: int) -> str:
    middle = f"{np.mean(values):.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ± {np.std(values, ddof=1):.{digits}f}"


def table(rows: list[Row]) -> str:
    """Every weight that was tried, means over seeds; ranks of validation images before and after training."""
    head = ["data, encoder, code", "regularizer", "weight", "seeds", "class bal. acc.", "concept AUC"]
    head += ["rank, published", "rank, effective"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for data, encoder, code in product(DATA, ENCODERS, CODES):
        for regularizer, name in REGULARIZERS.items():
            for weight, mine in trained(rows, (code, data, encoder, regularizer)).items():
                shown = "–" if regularizer == "none" else f"{weight:g}"
                cells = [f"{data}, {ENCODERS[encoder]}, {CODES[code]}", name, shown, str(len(mine))]
                for measure in ("class.balanced_accuracy", "concept.auc"):
                    cells.append(spread([row["test"][measure] for row in mine], 3))
                for kind in ("published", "effective"):
                    before, after = ([row["rank_by_epoch"][kind][at] for row in mine] for at in (0, -1))
                    cells.append(f"{np.mean(before):.1f} → {spread(after, 1)}")
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
