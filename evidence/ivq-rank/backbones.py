"""Ranks of encoders not pretrained against collapse: rows of `learning.py` → a table and a figure of README.md."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from conceptlens.core.files import read_text, stored, write_bytes
from conceptlens.pages.webp import webp

HERE = Path(__file__).parent
FILE = HERE / "backbones.jsonl"
Row = dict[str, Any]
ENCODERS = {"efficientnet-lite0": "EfficientNet-Lite0 (ImageNet)", "vit from scratch": "ViT from scratch"}
DATA = ("blood cells", "HAM10000")
CODES = {"printed": "`ivq-cbm`, joint", "released": "`ivq-cbm-released`"}
REGULARIZERS = {"none": ("nothing", "#d55e00"), "ivq": ("IVQ", "#0072b2"), "l2": ("plain L2", "#009e73")}


def read(file: Path = FILE) -> list[Row]:
    """Finished trainings of the experiment."""
    place = file if file.exists() else stored(file)
    rows = [json.loads(line) for line in read_text(place).splitlines()] if place.exists() else []
    return [row for row in rows if row["experiment"] == "rank" and "failed" not in row]


def worth(row: Row) -> float:
    """What chooses a weight: validation images, class and concepts alike."""
    return float(row["val"]["class.balanced_accuracy"] + row["val"]["concept.auc"]) / 2


def chosen(rows: list[Row], code: str, data: str, encoder: str, regularizer: str) -> list[Row]:
    """The trainings at the weight that validation chose, by seed; the choice is between seed 0's."""
    cell = (code, data, encoder, regularizer)
    mine = [row for row in rows if (row["code"], row["data"], row["encoder"], row["regularizer"]) == cell]
    trials = [row for row in mine if row["seed"] == 0]
    if not trials:
        return []
    weight = max(trials, key=worth)["weight"]
    return sorted((row for row in mine if row["weight"] == weight), key=lambda row: row["seed"])


def spread(values: list[float], digits: int) -> str:
    middle = f"{np.mean(values):.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ± {np.std(values, ddof=1):.{digits}f}"


def tries(rows: list[Row], kept: Row) -> str:
    """Seed 0 at every weight: effective rank at the end."""
    key = ("code", "data", "encoder", "regularizer")
    mine = [row for row in rows if row["seed"] == 0 and all(row[name] == kept[name] for name in key)]
    mine.sort(key=lambda row: row["weight"])
    return " ".join(f"{row['rank_by_epoch']['effective'][-1]:.0f}" for row in mine) if len(mine) > 1 else "–"


def table(rows: list[Row]) -> str:
    """Means over seeds; ranks of validation images before the first epoch and after the last."""
    head = ["data, encoder, code", "regularizer", "weight", "seeds", "class bal. acc.", "concept AUC"]
    head += ["rank, published", "rank, effective", "effective rank at weights 0.01, 0.1, 1 (seed 0)"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for data, encoder, code in product(DATA, ENCODERS, CODES):
        for regularizer, (name, _) in REGULARIZERS.items():
            mine = chosen(rows, code, data, encoder, regularizer)
            if not mine:
                continue
            weight = "–" if regularizer == "none" else f"{mine[0]['weight']:g}"
            cells = [f"{data}, {ENCODERS[encoder]}, {CODES[code]}", name, weight, str(len(mine))]
            for measure in ("class.balanced_accuracy", "concept.auc"):
                cells.append(spread([row["test"][measure] for row in mine], 3))
            for kind in ("published", "effective"):
                before, after = ([row["rank_by_epoch"][kind][at] for row in mine] for at in (0, -1))
                cells.append(f"{np.mean(before):.1f} → {spread(after, 1)}")
            lines.append(f"| {' | '.join([*cells, tries(rows, mine[0])])} |")
    return "\n".join(lines)


def draw(rows: list[Row]) -> None:
    """Effective rank by epoch, a panel for each data set and encoder: seeds thin, their mean thick."""
    made = Figure(figsize=(11, 3.2), layout="constrained")
    panels = made.subplots(1, 4)
    for panel, (data, encoder) in zip(panels, product(DATA, ENCODERS), strict=True):
        for code, (regularizer, (name, color)) in product(CODES, REGULARIZERS.items()):
            curves = [row["rank_by_epoch"]["effective"] for row in chosen(rows, code, data, encoder, regularizer)]
            if curves:
                line = "-" if code == "printed" else "--"
                panel.plot(np.transpose(curves), color, ls=line, lw=0.5, alpha=0.35)
                words = f"{name}, published code" if code == "released" else name
                panel.plot(np.mean(curves, 0), color, ls=line, lw=2, label=words)
        panel.set_title(f"{data},\n{ENCODERS[encoder]}", fontsize=9)
        panel.set(xlabel="epoch", ylim=(0, None))
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("effective rank of patch tokens")
    labels = {label: line for panel in panels for line, label in zip(*panel.get_legend_handles_labels(), strict=True)}
    made.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=6, fontsize=8)
    write_bytes(HERE / "backbones.webp", webp(made))
