"""Sentences of README.md from results.json.gz; `scripts/evidence_check.py` looks for each piece."""

import json
from pathlib import Path
from typing import Any

import fine_tuned  # a neighbor

from conceptlens.core.files import read_json

CLASS, AUC = "class.balanced_accuracy", "concept.auc"
BLOOD, HAM, IDRID, CUB = "blood cells", "HAM10000", "IDRiD", "CUB"
MATCHED = "class token (magnet-cbm)"  # texts at right angles, as in `magnet-cbm`
OWN = "pf-cbm"  # told places; the verdict names it apart
Row = dict[str, Any]


class Scores:
    """Mean scores in percent, of a method on a data set."""

    def __init__(self) -> None:
        found = read_json(Path(__file__).parent / "results.json.gz")
        self.rows: dict[tuple[str, str], Row] = {
            (data, row["name"]): row for data, rows in found["data"].items() for row in rows
        }
        self.maps: dict[str, Row] = found["maps"]

    def of(self, data: str, name: str, measure: str = CLASS) -> str:
        return f"{100 * self.rows[data, name]['measures'][measure]['mean']:.1f}"

    def spread(self, data: str, name: str, measure: str = CLASS) -> str:
        return f"{self.of(data, name, measure)} ± {100 * self.rows[data, name]['measures'][measure]['sd']:.1f}"

    def lift(self, data: str, name: str, target: str, kind: str) -> float:
        value: float = self.maps[f"{data} | {name} | 0"]["targets"][target]["maps"][kind]["lift"][0]
        return value


def classes(scores: Scores) -> list[str]:
    return [
        f"`ivq-cbm` at {scores.of(BLOOD, 'ivq-cbm')}, the black box at {scores.of(BLOOD, 'black box')}",
        f"IDRiD: {scores.of(IDRID, 'ivq-cbm')} (",
        f"for the others, black box {scores.of(IDRID, 'black box')})",
        f"CUB: {scores.of(CUB, 'ivq-cbm')}, black box {scores.of(CUB, 'black box')}, `cbm` {scores.of(CUB, 'cbm')}, "
        f"`pf-cbm` {scores.of(CUB, OWN)} with known places",
        f"HAM10000: {scores.of(HAM, 'ivq-cbm')}, black box {scores.of(HAM, 'black box')}, but `magnet-cbm` "
        f"{scores.of(HAM, 'magnet-cbm')}, `mvp-cbm` {scores.of(HAM, 'mvp-cbm')}, `cem` {scores.of(HAM, 'cem')}",
    ]


def concepts(scores: Scores) -> list[str]:
    def auc(data: str, name: str) -> str:
        return scores.of(data, name, AUC)

    same = {auc(BLOOD, name) for name in ("cbm", "cem", "coop-cbm", "pcbm")}
    return [
        f"concept AUC of `ivq-cbm` {auc(BLOOD, 'ivq-cbm')} on blood cells, where `cbm`, `cem`, `coop-cbm` and `pcbm` "
        f"have {' or '.join(sorted(same))}",
        f"texts at right angles {auc(BLOOD, 'class token')}; both with random texts",
        f"{auc(IDRID, 'ivq-cbm')} on IDRiD (`pcbm` {auc(IDRID, 'pcbm')}), {auc(HAM, 'ivq-cbm')} on HAM10000 "
        f"(`pf-cbm-sequential` {auc(HAM, 'pf-cbm-sequential')}, `cem` {auc(HAM, 'cem')}), {auc(CUB, 'ivq-cbm')} on CUB "
        f"(`pf-cbm-sequential` {auc(CUB, 'pf-cbm-sequential')}, `cbm-sequential` {auc(CUB, 'cbm-sequential')})",
        f"concepts {auc(BLOOD, 'magnet-cbm')} on blood cells, {auc(IDRID, 'magnet-cbm')} on IDRiD (class token "
        f"{auc(IDRID, MATCHED)}), {auc(HAM, 'magnet-cbm')} on HAM10000 ({auc(HAM, MATCHED)}), {auc(CUB, 'magnet-cbm')} "
        f"on CUB ({auc(CUB, MATCHED)})",
        f"on CUB `cbm` reads concepts at {auc(CUB, 'cbm')}, the same model trained one after the other at "
        f"{auc(CUB, 'cbm-sequential')}",
        f"`ivq-cbm-released` reads concepts at {scores.spread(BLOOD, 'ivq-cbm-released', AUC)}",
    ]


def places(scores: Scores) -> list[str]:
    part = {name: scores.lift(CUB, name, "part", "own") for name in (OWN, "explicd")}
    lesion = {name: scores.lift(HAM, name, "object", "own") for name in (OWN, "explicd")}
    return [
        f"CUB's parts (lift {part[OWN]:.1f} against",
        f"HAM10000's lesions ({lesion[OWN]:.1f} against",
        f"({part['explicd']:.1f} on CUB's parts, {lesion['explicd']:.1f} on HAM10000",
    ]


def statements() -> list[str]:
    scores = Scores()
    return [*classes(scores), *concepts(scores), *places(scores), *fine_tuned.sentences(fine_tuned.read())]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
