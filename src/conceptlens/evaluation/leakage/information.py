"""How much a concept's score says of the class, and how much of that its label does not say.

Mutual information I(score; class) in nats, and I(score; class | label): scores are cut into bins at their quantiles,
class frequencies of each bin are learned from other folds and shrunk towards those without the score, and the gain in
log-probability of each image's class is averaged. Learned and judged on different images, a score that says nothing
gets 0 and not the optimism of a plug-in estimate. The mean over concepts is the mutual information of PF-CBM's Table 3,
whose estimator is not given.
"""

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN
from conceptlens.core.documents import Part
from conceptlens.evaluation.leakage.permuted import Chance, own_label
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import sides
from conceptlens.stats.weighted import mean_known

BINS = 10
SHRINK = 5.0  # images' worth of the frequencies without the score


class ConceptInformation(Part):
    """Of one concept, in nats."""

    concept: str
    score: Estimate  # I(score; class)
    label: Estimate  # I(label; class)
    beyond_label: Estimate  # I(score; class | label)
    chance: Chance | None = None  # `beyond_label` under permutation


def bins(scores: Floats, learn: Indices, count: int = BINS) -> Indices:
    """Bins (N, K) of scores (N, K), cut at the quantiles of the learning images."""
    cuts = np.quantile(scores[learn], np.arange(1, count) / count, axis=0)
    return np.asarray((scores[:, None] >= cuts[None]).sum(1))


def information(
    cells: Indices, given: Indices, labels: Indices, learn: Indices, ask: Indices, known: npt.NDArray[np.bool_]
) -> Floats:
    """Gain in log-probability (len(ask), K) of the class from knowing `cells` (N, K) besides `given` (N, K).

    Learned from the images `learn` whose class (N,) is known, and of them, for each column, from those `known` (N, K).
    """
    classes, column = int(labels.max(initial=0)) + 1, np.arange(cells.shape[1])
    outer, inner = int(given.max(initial=0)) + 1, int(cells.max(initial=0)) + 1
    rows = learn[labels[learn] >= 0]
    index = ((column * outer + given[rows]) * inner + cells[rows]) * classes + labels[rows][:, None]
    shape = (len(column), outer, inner, classes)
    counts = np.bincount(index[known[rows]], minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)
    total = counts.sum((1, 2))  # (K, C)
    prior = (total + 0.5) / (total.sum(-1, keepdims=True) + 0.5 * classes)
    base = counts.sum(2) + SHRINK * prior[:, None]
    base /= base.sum(-1, keepdims=True)  # (K, outer, C): frequencies without the score
    fine = counts + SHRINK * base[:, :, None]
    fine /= fine.sum(-1, keepdims=True)
    own = np.maximum(labels[ask], 0)[:, None]
    return np.asarray(np.log(fine[column, given[ask], cells[ask], own]) - np.log(base[column, given[ask], own]))


def beyond_label(
    scores: Floats, truth: npt.NDArray[np.int8], given: Indices, targets: list[Indices], fold: Indices
) -> Floats:
    """Gain (N, K) of concepts' scores (N, K) over what their labels `given` (N, K) say; NaN where that is unknown.

    `given` is the value of an exclusive group and not only whether this one holds: what a score tells of the other
    values is its name's business.
    """
    found, known = [], truth != UNKNOWN
    for target in targets:
        rows = np.full(scores.shape, np.nan)
        for learn, ask in sides(fold):
            rows[ask] = information(bins(scores, learn), given, target, learn, ask, known)
        found.append(np.where((target < 0)[:, None] | ~known, np.nan, rows))
    return mean_known(np.stack(found, axis=-1))


def concept_gains(
    scores: Floats, truth: npt.NDArray[np.int8], given: Indices, targets: list[Indices], fold: Indices
) -> dict[str, Floats]:
    """Of concepts' scores and labels (N, K): `score`, `label` and `beyond_label`, (N, K) each, NaN if unknown."""
    nothing, marks = np.zeros(scores.shape, dtype=np.int64), np.maximum(truth, 0).astype(np.int64)
    known, everyone = truth != UNKNOWN, np.ones(scores.shape, dtype=bool)
    found: dict[str, list[Floats]] = {"score": [], "label": []}
    for target in targets:
        rows = {name: np.full(scores.shape, np.nan) for name in found}
        for learn, ask in sides(fold):
            rows["score"][ask] = information(bins(scores, learn), nothing, target, learn, ask, everyone)
            rows["label"][ask] = information(marks, nothing, target, learn, ask, known)
        unknown = (target < 0)[:, None]
        found["score"].append(np.where(unknown, np.nan, rows["score"]))
        found["label"].append(np.where(unknown | ~known, np.nan, rows["label"]))
    gains = {name: mean_known(np.stack(rows, axis=-1)) for name, rows in found.items()}
    return {**gains, "beyond_label": beyond_label(scores, truth, given, targets, fold)}


def concept_information(
    readout: Readout, fold: Indices, bootstrap: Bootstrap
) -> tuple[list[ConceptInformation], dict[str, Estimate]]:
    """Of every concept, and the means over concepts."""
    names, given = ("score", "label", "beyond_label"), own_label(readout)
    gains = concept_gains(readout.bottleneck, readout.truth, given, readout.targets, fold)
    columns = {f"{name} {k}": gains[name][:, k] for name in names for k in range(len(readout.concepts))}
    columns |= {name: mean_known(gains[name]) for name in names}
    found = bootstrap.means(columns)
    per_concept = [
        ConceptInformation(
            concept=concept,
            score=found[f"score {place}"],
            label=found[f"label {place}"],
            beyond_label=found[f"beyond_label {place}"],
        )
        for place, concept in enumerate(readout.concepts.names)
    ]
    return per_concept, {name: found[name] for name in names}
