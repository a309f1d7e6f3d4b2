"""Sentences and the typed table of README.md, from the rows; `scripts/evidence_check.py` looks for each piece."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_json

HERE = Path(__file__).parent
SETS = ("blood-cells", "ham10000", "idrid")
CLASS, CONCEPTS, AUC = "class.balanced_accuracy", "concept.balanced_accuracy", "concept.auc"
Row = dict[str, Any]


def name_of(row: Row) -> str:
    return str(row["run"].rsplit("-s", 1)[0])


class Rows:
    """Trials on validation images, and trainings with their test scores."""

    def __init__(self) -> None:
        self.rows: list[Row] = read_json(HERE / "rows.json.gz")["rows"]

    def tested(self, data: str, name: str) -> list[Row]:
        return [row for row in self.rows if name_of(row) == f"{data}-{name}" and row.get("test")]

    def mean(self, data: str, name: str, measure: str) -> float:
        return 100 * float(np.mean([row["test"][measure] for row in self.tested(data, name)]))

    def trial(self, data: str, weight: float, rate: float, concepts: float) -> Row:
        """A trial of IVQ with these settings."""
        wanted = (weight, rate, concepts)
        return next(
            row
            for name in ("ivq", "ivq-concepts-weighed")  # the second tried some settings of the first again
            for row in self.rows
            if name_of(row) == f"{data}-{name}"
            and not row.get("test")
            and (row["regularizer"]["weight"], row["learning_rate"], row["concept_weight"]) == wanted
        )

    def rank(self, name: str) -> list[float]:
        return [float(np.mean([row["rank_by_epoch"][-1] for row in self.tested(data, name)])) for data in SETS]


def defaults(rows: Rows) -> list[str]:
    made = []
    for weight, rate, concepts in (
        (1.0, 3e-4, 1.0),
        (0.01, 3e-4, 1.0),
        (1.0, 1e-3, 1.0),
        (0.01, 1e-3, 1.0),
        (0.01, 1e-3, 3.0),
    ):
        cells = []
        for data in SETS:
            found = rows.trial(data, weight, rate, concepts)["val"]
            cells.append(" · ".join(f"{100 * found[measure]:.1f}" for measure in (CLASS, CONCEPTS, AUC)))
        made.append(" | ".join(cells))
    more = [rows.trial(data, 0.01, 3e-3, 3.0)["val"] for data in SETS]
    made.append("(" + ", ".join(f"{100 * found[AUC]:.1f}" for found in more) + ")")
    return made


def ranks(rows: Rows) -> list[str]:
    start = [float(np.mean([row["rank_by_epoch"][0] for row in rows.tested(data, "no-regularizer")])) for data in SETS]
    ends = {name: rows.rank(name) for name in ("no-regularizer", "ivq", "plain-l2", "gram")}
    arrows = ", ".join(f"{a:.0f} → {b:.0f}" for a, b in zip(start, ends["no-regularizer"], strict=True))
    told = {name: [f"{value:.0f}" for value in values] for name, values in ends.items()}
    return [
        f"{arrows} (effective rank, last epoch), and less with it: {', '.join(told['ivq'])}.",
        f"plain L2's most ({', '.join(told['plain-l2'])})",
        f"Gram ends at {told['gram'][0]}, {told['gram'][1]} and {told['gram'][2]}",
    ]


def verdicts(rows: Rows) -> list[str]:
    codes = ("one-code", "ivq", "5-k-codes", "10-k-codes", "20-k-codes")
    spans = [[rows.mean(data, name, CLASS) for name in codes] for data in SETS]
    inside = {name: rows.mean("blood-cells", name, "concept.auc_within_class") for name in EXPLICIT}
    weighed = [
        rows.mean(data, "ivq-concepts-weighed", AUC) - rows.mean(data, "no-regularizer-concepts-weighed", AUC)
        for data in SETS
    ]
    behind = [rows.mean(data, "ivq", CLASS) - rows.mean(data, "class-token-+-ivq", CLASS) for data in SETS]
    ham = [rows.mean("ham10000", name, AUC) for name in WEIGHED]
    return [
        "class " + ", ".join(f"{min(values):.1f} to {max(values):.1f}" for values in spans) + ": no peak",
        f"({min(inside.values()):.1f} to {max(inside.values()):.1f}; IVQ "
        f"{rows.mean('blood-cells', 'ivq', 'concept.auc_within_class'):.1f})",
        "AUC " + ", ".join(f"+{value:.1f}" for value in weighed),
        f"HAM10000's AUC from {ham[0]:.1f} to {ham[1]:.1f} with IVQ, from {ham[2]:.1f} to {ham[3]:.1f} without",
        f"({', '.join(f'{value:+.1f}' for value in behind)})".replace("-", "−"),
    ]


EXPLICIT = ("explicit-vq", "explicit-vq-moving-averages", "explicit-vq-rotation")
WEIGHED = ("ivq", "ivq-concepts-weighed", "no-regularizer", "no-regularizer-concepts-weighed")


def statements() -> list[str]:
    rows = Rows()
    return [*defaults(rows), *ranks(rows), *verdicts(rows)]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
