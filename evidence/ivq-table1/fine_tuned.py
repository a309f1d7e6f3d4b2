"""Table 1 where the encoder learns: rows of `../ivq-rank/learning.py` → a table of README.md."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_text, stored

FILE = Path(__file__).parent / "fine-tuned.jsonl"
Row = dict[str, Any]
DATA = {"blood cells": "the encoder saw these labels", "HAM10000": "the encoder saw none of it"}
METHODS = {
    "ivq-cbm": "`ivq-cbm`, IVQ on",
    "ivq-cbm, no IVQ": "… without IVQ",
    "class token, same head": "… class token, same head and texts, without IVQ",
    "explicd": "`explicd`",
    "mvp-cbm": "`mvp-cbm`",
    "coop-cbm": "`coop-cbm`",
    "dot-cbm": "`dot-cbm`",
    "cbm": "`cbm`, joint",
    "evidence-cbm": "`evidence-cbm` (ours)",
    "black-box": "black box",
}


def read(file: Path = FILE) -> list[Row]:
    place = file if file.exists() else stored(file)
    rows = [json.loads(line) for line in read_text(place).splitlines()] if place.exists() else []
    return [row for row in rows if row["experiment"] == "table1" and "failed" not in row]


def worth(row: Row) -> float:
    parts = [row["val"]["class.balanced_accuracy"], row["val"].get("concept.auc")]
    known = [part for part in parts if part is not None]
    return sum(known) / len(known)


def chosen(rows: list[Row], data: str, method: str) -> list[Row]:
    """The trainings at the rate that validation chose among seed 0's, by seed."""
    mine = [row for row in rows if (row["data"], row["method"]) == (data, method)]
    trials = [row for row in mine if row["seed"] == 0]
    if not trials:
        return []
    rate = max(trials, key=worth)["rate"]
    return sorted((row for row in mine if row["rate"] == rate), key=lambda row: row["seed"])


def percent(values: list[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    if not known:
        return "–"
    return f"{np.mean(known):.1f}" + (f" ± {np.std(known, ddof=1):.1f}" if len(known) > 1 else "")


def table(rows: list[Row]) -> str:
    """Means ± standard deviation over seeds, test images; ranks of validation images, before and after."""
    measures = ("class.accuracy", "class.balanced_accuracy", "concept.auc", "concept.auc_within_class")
    head = ["method", "rate", "seeds", "accuracy", "balanced acc.", "concept AUC", "… within class"]
    head += ["rank, published", "rank, effective"]
    parts = []
    for data, words in DATA.items():
        lines = [f"### {data}: {words} in pretraining", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        for method, name in METHODS.items():
            mine = chosen(rows, data, method)
            if not mine:
                continue
            cells = [name, f"{mine[0]['rate']:g}", str(len(mine))]
            cells += [percent([row["test"].get(measure) for row in mine]) for measure in measures]
            for kind in ("published", "effective"):
                before, after = (np.mean([row["rank_by_epoch"][kind][at] for row in mine]) for at in (0, -1))
                cells.append(f"{before:.0f} → {after:.0f}")
            lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
