"""evidence-cbm less every other method on the same test images, with paired intervals, from finished runs of family.py.

    python evidence/evidence-cbm/paired.py WORK

Images (or patients, lesions) are drawn again, the same ones for both methods; of several seeds the mean difference is
taken in each draw. So the interval says what other test images would change, and not what other seeds would. Rows go to
WORK/paired.jsonl: a row for each data set and method, from the seeds that both have. What a run says of each draw is
kept in WORK/draws, so that runs of several machines can be compared.
"""

import json
import sys
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from family import METHODS, NO_CONCEPTS, sets  # noqa: E402  # a neighbor

from conceptlens.evaluation.class_table import labels_follow_from_class  # noqa: E402
from conceptlens.evaluation.concepts.groups import GroupScores, group_scores  # noqa: E402
from conceptlens.evaluation.intervals import class_statistics, concept_statistics  # noqa: E402
from conceptlens.evaluation.interventions.curve import area, follow_policy  # noqa: E402
from conceptlens.evaluation.interventions.units import make_units  # noqa: E402
from conceptlens.evaluation.interventions.value_map import cross_map  # noqa: E402
from conceptlens.runs.opened import OpenedRun  # noqa: E402
from conceptlens.runs.predictions import StoredPredictions  # noqa: E402
from conceptlens.stats.bootstrap import Statistic, resample_weights  # noqa: E402
from conceptlens.stats.folds import assign_folds  # noqa: E402
from conceptlens.stats.weighted import mean_known, ratio, weighted_accuracy, weighted_auc  # noqa: E402

OURS = "evidence-cbm"
MEASURES = ("class.accuracy", "class.balanced_accuracy", "concept.auc", "concept.auc_within_class", "corrections.area")
RESAMPLES = 1000
Floats = npt.NDArray[np.float64]
Draws = dict[str, Floats]  # of each measure: its value on all images, then on each draw of them


def within_class(asked: list[GroupScores], classes: npt.NDArray[np.int64]) -> Statistic:
    """Concept AUC from pairs of images of one class, as `metrics.json` has it, by image weights."""

    def of_answer(scored: GroupScores, answer: int, weights: Floats) -> Floats:
        yes, wins, pairs = scored.truth == answer, np.zeros(len(weights)), np.zeros(len(weights))
        for number in np.unique(classes):
            known = scored.known & (classes == number)
            count = (weights @ (known & yes)) * (weights @ (known & ~yes))
            wins += count * np.nan_to_num(weighted_auc(scored.log_odds(answer), yes, weights, known))
            pairs += count
        return ratio(wins, pairs)

    def statistic(weights: Floats) -> Floats:
        groups: dict[str, list[Floats]] = defaultdict(list)
        for scored in asked:
            each = [of_answer(scored, answer, weights) for answer in scored.answers]
            groups[scored.group.name].append(mean_known(np.stack(each, axis=1)))
        means = [mean_known(np.stack(members, axis=1)) for members in groups.values()]
        return mean_known(np.stack(means, axis=1))

    return statistic


def area_of(run: OpenedRun) -> Statistic:
    """Area under the curve of corrections in random orders, clean images."""
    readout = run.readout("test")
    maps, units = cross_map(readout, assign_folds(readout.units, seed=0)), make_units(run.concepts, "groups")
    each = area(follow_policy(readout, maps, units, "chance", seed=0).right)  # (N,)
    return lambda weights: weighted_accuracy(np.nan_to_num(each), weights, ~np.isnan(each))


def statistics_of(run: OpenedRun, stored: StoredPredictions, method: str) -> dict[str, Statistic]:
    found = class_statistics(stored.logits.astype(np.float64), stored.labels, stored.task)
    if method not in NO_CONCEPTS:
        asked = group_scores(stored.concept_logits, stored.concepts, run.read_concepts)
        found |= concept_statistics(asked)
        if not labels_follow_from_class(run.readout("test")):
            found |= {"concept.auc_within_class": within_class(asked, stored.labels), "corrections.area": area_of(run)}
    return {name: found[name] for name in MEASURES if name in found}


def draws_of(folder: Path, method: str, kept: Path) -> Draws:
    """The measures of a run on its test images and on all draws; `images` says which images these are."""
    file = kept / f"{folder.name}.npz"
    if file.exists():
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    run = OpenedRun.open(folder)
    stored = run.predictions("test")
    drawn = resample_weights(len(stored.ids), stored.units, resamples=RESAMPLES)
    blocks = [np.ones((1, len(stored.ids))), *drawn]
    statistics = statistics_of(run, stored, method)
    found = {name: np.concatenate([of(block) for block in blocks]) for name, of in statistics.items()}
    found["images"] = np.array([len(stored.ids), zlib.crc32("\n".join(stored.ids).encode())], dtype=np.float64)
    kept.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, **found)  # type: ignore[arg-type]
    return found


def compared(data: str, work: Path) -> list[dict[str, Any]]:
    made: dict[str, dict[int, Draws]] = defaultdict(dict)
    for method in METHODS:
        for seed in range(5):
            folder = work / "runs" / f"{data}-{method}-{seed}".replace(" ", "-")
            if (folder / "metrics.json").exists() or (work / "draws" / f"{folder.name}.npz").exists():
                made[method][seed] = draws_of(folder, method, work / "draws")
    rows, own = [], made.get(OURS, {})
    for method, runs in made.items():
        seeds = sorted(set(runs) & set(own))
        if method == OURS or not seeds:
            continue
        images = int(runs[seeds[0]]["images"][0])
        row: dict[str, Any] = {"data": data, "other": method, "seeds": seeds, "images": images}
        for name in MEASURES:
            pairs = [(own[seed], runs[seed]) for seed in seeds if name in runs[seed]]
            if not pairs:
                continue
            assert all(np.array_equal(ours["images"], other["images"]) for ours, other in pairs), "the same images"
            difference = np.mean([ours[name] - other[name] for ours, other in pairs], axis=0)
            low, high = np.quantile(difference[1:], (0.025, 0.975))
            row[name] = {"difference": float(difference[0]), "interval": [float(low), float(high)]}
        rows.append(row)
    return rows


if __name__ == "__main__":
    work = Path(sys.argv[1])
    found = [row for data in sets(work) for row in compared(data, work)]
    (work / "paired.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in found), "utf-8")
    print(f"{len(found)} comparisons")
