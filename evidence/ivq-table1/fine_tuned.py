"""Table 1 where the encoder learns: rows of `../ivq-rank/learning.py` → a table of README.md."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_text, stored

FILE = Path(__file__).parent / "fine-tuned.jsonl"
Row = dict[str, Any]
DATA = {
    "blood cells": "the encoder saw these labels in pretraining",
    "HAM10000": "the encoder saw none of it",
    "IDRiD": "the encoder saw none of it",
    "CUB": "the encoder saw none of it",
}
CLASS, AUC = "class.balanced_accuracy", "concept.auc"
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


def chosen(rows: list[Row], data: str, method: str, train: int | str = 2) -> list[Row]:
    """The trainings at the rate that validation chose among seed 0's, by seed."""
    mine = [row for row in rows if (row["data"], row["method"], row["train"]) == (data, method, train)]
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
        if not any(row["data"] == data for row in rows):
            continue
        lines = [f"### {data}: {words}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
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


def score(rows: list[Row], data: str, method: str, measure: str = CLASS) -> str:
    """Mean over seeds in percent, with a standard deviation where there are several."""
    return percent([row["test"][measure] for row in chosen(rows, data, method)])


def ranks(rows: list[Row], data: str, kind: str, methods: list[str]) -> list[float]:
    """Rank after training, a mean over seeds, for each method."""
    trained = [chosen(rows, data, method) for method in methods]
    return [float(np.mean([row["rank_by_epoch"][kind][-1] for row in mine])) for mine in trained]


def before(rows: list[Row], data: str, kind: str) -> float:
    return float(np.mean([row["rank_by_epoch"][kind][0] for row in rows if row["data"] == data]))


BASELINES = ["explicd", "mvp-cbm", "coop-cbm", "cbm", "black-box"]


def sentences(rows: list[Row]) -> list[str]:
    """What README.md and docs/findings.md say of these rows."""
    made = []
    for data in ("blood cells", "HAM10000", "IDRiD"):
        shown = ("ivq-cbm", "ivq-cbm, no IVQ", "black-box")
        others = [name for name in METHODS if name not in shown and chosen(rows, data, name)]
        values = [float(score(rows, data, name).split(" ")[0]) for name in others]
        made.append(
            f"{data} {score(rows, data, 'ivq-cbm')} with IVQ, {score(rows, data, 'ivq-cbm, no IVQ')} without, "
            f"black box {score(rows, data, 'black-box')}, all others {min(values):.1f} to {max(values):.1f}"
        )
    for kind in ("published", "effective"):
        made.append(
            f"{kind} "
            + ", ".join(
                f"{before(rows, data, kind):.0f} → {min(ends):.0f} to {max(ends):.0f}"
                for data in ("blood cells", "HAM10000", "IDRiD")
                for ends in [ranks(rows, data, kind, BASELINES)]
            )
        )
    made.append(
        "concept AUC "
        + ", ".join(
            f"{score(rows, data, 'ivq-cbm', AUC)} with, {score(rows, data, 'ivq-cbm, no IVQ', AUC)} without IVQ "
            f"(`cbm` {score(rows, data, 'cbm', AUC)}, `evidence-cbm` {score(rows, data, 'evidence-cbm', AUC)})"
            for data in ("blood cells", "HAM10000", "IDRiD")
        )
    )
    return made
