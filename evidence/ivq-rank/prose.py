"""What README.md says in sentences, from the rows: `scripts/evidence_check.py` looks for each of these on the page."""

import json
from typing import Any

import backbones
import collect
import numpy as np

from conceptlens.core.files import read_json

Runs = list[dict[str, Any]]
SETS = ("blood-cells", "idrid", "ham10000")


def rank(runs: Runs, data: str, row: str, kind: str, at: int) -> float:
    return float(np.mean([run["rank_by_epoch"][kind] for run in collect.of(runs, data, row)], 0)[at])


def low_high(values: list[float]) -> str:
    return f"{min(values):.0f} to {max(values):.0f}"


def auc(runs: Runs, data: str, row: str) -> float:
    return float(np.mean([run["test"]["concept.auc"] for run in collect.of(runs, data, row)]))


def statements() -> list[str]:
    """Fragments of sentences with the numbers as the rows give them."""
    runs: Runs = read_json(collect.HERE / "runs.json.gz")["runs"]

    def ends(row: str, kind: str, at: int = -1) -> list[float]:
        return [rank(runs, data, row, kind, at) for data in SETS]

    start = {kind: ends("ivq-cbm", kind, 0) for kind in ("published", "effective")}
    dip = min(
        np.mean([run["rank_by_epoch"]["effective"] for run in collect.of(runs, "ham10000", "released-without-ivq")], 0)
    )
    without, released, plain = "ivq-cbm-without-ivq", "released-without-ivq", "ivq-cbm-with-plain-l2"
    return [
        f"published rank goes from {low_high(start['published'])} to {low_high(ends(released, 'published'))}",
        f"the effective one from {low_high(start['effective'])} to {low_high(ends(released, 'effective'))} "
        f"(after a dip to {dip:.0f} on HAM10000)",
        f"to {low_high(ends(without, 'published'))} published and {low_high(ends(without, 'effective'))} effective",
        f"(published {low_high(ends('released', 'published'))}, from {low_high(start['published'])})",
        f"(AUC {auc(runs, 'blood-cells', released):.2f}) to {auc(runs, 'blood-cells', 'released'):.2f}",
        f"they go from {auc(runs, 'ham10000', released):.2f} to {auc(runs, 'ham10000', 'released'):.2f}",
        f"effective rank {low_high(start['effective'])} → {low_high(ends('ivq-cbm', 'effective'))}, published "
        f"{low_high(start['published'])} → {low_high(ends('ivq-cbm', 'published'))}",
        f"lower by {auc(runs, 'blood-cells', without) - auc(runs, 'blood-cells', 'ivq-cbm'):.2f} on blood cells",
        f"{auc(runs, 'idrid', without) - auc(runs, 'idrid', 'ivq-cbm'):.2f} on IDRiD",
        f"on HAM10000 {auc(runs, 'ham10000', 'ivq-cbm'):.2f} against {auc(runs, 'ham10000', without):.2f}",
        f"(effective rank up to {low_high(ends(plain, 'effective'))}, published {low_high(ends(plain, 'published'))})",
        f"test scores and the rank of the validation tokens by epoch of {len(runs)} trainings",
        *backbones.counts(backbones.read()),
        *(piece for pieces in backbones.told(backbones.read()).values() for piece in pieces[:1]),
        *backbones.told(backbones.read())[" | ".join(backbones.FALLS)][1:],
    ]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
