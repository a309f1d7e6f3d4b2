"""evidence-cbm less every other method on the same test images, with paired intervals, from finished runs of family.py.

    python evidence/evidence-cbm/paired.py WORK

Images (or patients, lesions) are drawn again, the same ones for both methods; of several seeds the mean difference is
taken in each draw. So the interval says what other test images would change, and not what other seeds would. Rows go to
WORK/paired.jsonl: a row for each data set and method, from the seeds that both have.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from family import METHODS, NO_CONCEPTS, sets  # noqa: E402  # a neighbor

from conceptlens.evaluation.concepts.groups import group_scores  # noqa: E402
from conceptlens.evaluation.intervals import class_statistics, concept_statistics  # noqa: E402
from conceptlens.runs.opened import OpenedRun  # noqa: E402
from conceptlens.runs.predictions import StoredPredictions  # noqa: E402
from conceptlens.stats.bootstrap import Statistic, resample_weights  # noqa: E402

OURS = "evidence-cbm"
MEASURES = ("class.accuracy", "class.balanced_accuracy", "concept.auc")
RESAMPLES = 1000
Draws = dict[str, npt.NDArray[np.float64]]  # of each measure: its value on all images, then on each draw of them


def statistics_of(run: OpenedRun, stored: StoredPredictions, method: str) -> dict[str, Statistic]:
    found = class_statistics(stored.logits.astype(np.float64), stored.labels, stored.task)
    if method not in NO_CONCEPTS:
        concepts = run.read_concepts
        found |= concept_statistics(group_scores(stored.concept_logits, stored.concepts, concepts))
    return {name: found[name] for name in MEASURES if name in found}


def draws_of(folder: Path, method: str) -> tuple[tuple[str, ...], Draws]:
    """The test images of a run, and its measures on them and on all draws."""
    run = OpenedRun.open(folder)
    stored = run.predictions("test")
    drawn = resample_weights(len(stored.ids), stored.units, resamples=RESAMPLES)
    blocks = [np.ones((1, len(stored.ids))), *drawn]
    statistics = statistics_of(run, stored, method)
    return stored.ids, {name: np.concatenate([of(block) for block in blocks]) for name, of in statistics.items()}


def compared(data: str, work: Path) -> list[dict[str, Any]]:
    made: dict[str, dict[int, tuple[tuple[str, ...], Draws]]] = defaultdict(dict)
    for method in METHODS:
        for seed in range(5):
            folder = work / "runs" / f"{data}-{method}-{seed}".replace(" ", "-")
            if (folder / "metrics.json").exists():
                made[method][seed] = draws_of(folder, method)
    rows = []
    for method, runs in made.items():
        seeds = sorted(set(runs) & set(made[OURS]))
        if method == OURS or not seeds:
            continue
        row: dict[str, Any] = {"data": data, "other": method, "seeds": seeds, "images": len(runs[seeds[0]][0])}
        for name in MEASURES:
            pairs = [(made[OURS][seed], runs[seed]) for seed in seeds if name in runs[seed][1]]
            if not pairs:
                continue
            assert all(ours[0] == other[0] for ours, other in pairs), "the same images in the same order"
            difference = np.mean([ours[1][name] - other[1][name] for ours, other in pairs], axis=0)
            low, high = np.quantile(difference[1:], (0.025, 0.975))
            row[name] = {"difference": float(difference[0]), "interval": [float(low), float(high)]}
        rows.append(row)
    return rows


if __name__ == "__main__":
    work = Path(sys.argv[1])
    found = [row for data in sets(work) for row in compared(data, work)]
    (work / "paired.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in found), "utf-8")
    print(f"{len(found)} comparisons")
