"""What docs/findings.md says with intervals, from raw rows; `scripts/evidence_check.py` looks for each piece there."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_json, stored

HERE = Path(__file__).parent
SETS = ("blood-cells", "ham10000", "idrid")
CLASS, CONCEPTS = "class.balanced_accuracy", "concept.auc"
Tree = dict[str, Any]


def signed(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def interval(found: tuple[float, float, float], digits: int = 1) -> str:
    value, low, high = (signed(each, digits) for each in found)
    return f"{value} ({low} to {high})"


def listed(pieces: Iterable[str]) -> str:
    return ", ".join(pieces)


class Compared:
    """Differences of two rows of a table of ivq-ablations, in points."""

    def __init__(self, data: str) -> None:
        tables: Tree = read_json(stored(HERE / "ivq-ablations" / f"{data}.json"))["tables"]
        self.rows = {
            (table, row["measure"], row["first"], row["second"]): row
            for table, each in tables.items()
            for block in each["data"][0]["blocks"]
            for row in block["comparisons"]
        }

    def between(self, table: str, measure: str, one: str, other: str) -> tuple[float, float, float]:
        """One less other, and the ends of its interval."""
        turned = (table, measure, one, other) not in self.rows
        row = self.rows[(table, measure, other, one) if turned else (table, measure, one, other)]
        value, (low, high) = row["difference"], row["interval"]
        found = (-value, -high, -low) if turned else (value, low, high)
        return tuple(100 * each for each in found)  # type: ignore[return-value]


def ablations() -> list[str]:
    """Tables 3, 4, 5 and 10 and Figure 3 of IVQ-CBM."""
    sets = {data: Compared(data) for data in SETS}

    def three(table: str, measure: str, one: str, other: str) -> str:
        return listed(interval(sets[data].between(table, measure, one, other)) for data in SETS)

    made = [three("table3", CLASS, "IVQ", "no regularizer"), three("table3", CONCEPTS, "IVQ", "no regularizer")]
    made += [three("table3", CONCEPTS, "IVQ", "class token + IVQ"), three("table3", CLASS, "IVQ", "class token + IVQ")]
    made.append(three("table3", CONCEPTS, "cross-attention + IVQ", "IVQ"))
    made += [three("table4", CONCEPTS, "IVQ", f"explicit VQ{how}") for how in ("", " (moving averages)", " (rotation)")]
    others = ("Barlow Twins", "spectral norm", "Gram")
    spans = []
    for data in SETS:
        found = [sets[data].between("table5", CLASS, "IVQ", other) for other in others]
        spans.append(f"{signed(min(low for _, low, _ in found))} to {signed(max(high for *_, high in found))}")
    made.append(listed(spans))
    for codes in ("one code", "20 K codes"):
        made.append(three("figure3", CONCEPTS, "IVQ", codes))
    made.append(three("table10", CONCEPTS, "IVQ", "beta 1"))
    made.append(three("table10", CLASS, "IVQ", "beta 1"))
    return made


def released() -> list[str]:
    """IVQ less plain L2 in the published code: concept AUC."""
    made = []
    for data in read_json(stored(HERE / "ivq-rank" / "blood-idrid.json"))["data"]:
        rows = data["blocks"][0]["comparisons"]
        pair = next(
            row
            for row in rows
            if (row["measure"], row["first"], row["second"]) == (CONCEPTS, "released", "released with plain L2")
        )
        made.append(interval(tuple(100 * each for each in (pair["difference"], *pair["interval"]))))  # type: ignore[arg-type]
    return [listed(made)]


def conditions() -> list[str]:
    """Rows of PF-CBM's conditions on drawings, with both measures of pointing."""
    rows = [json.loads(line) for line in _lines("pf-cbm/conditions.jsonl")]
    made = []
    for name in ("no_bbox_pca", "no_bbox_spatial_prior", "no_bbox_no_kp"):
        mine = [row for row in rows if row["condition"] == name and row["entropy_weight"] == 0.001]
        values = [[row[measure] for row in mine] for measure in ("pointing_patch", "pointing_cells")]
        made.append(" and ".join(f"{np.mean(each):.3f} ± {np.std(each, ddof=1):.3f}" for each in values))
    return made


def _lines(name: str) -> list[str]:
    from conceptlens.core.files import read_text

    return [line for line in read_text(stored(HERE / name)).splitlines() if line]


def statements() -> list[str]:
    return [*ablations(), *released(), *conditions()]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
