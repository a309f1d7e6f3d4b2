"""How much a concept's score says of the class, and how much of that its label does not say.

Mutual information I(score; class) in nats, and I(score; class | label): scores are cut into bins at their quantiles,
class frequencies of each bin are learnt from other folds and shrunk towards those without the score, and the gain in
log-probability of each image's class is averaged. Learnt and judged on different images, a score that says nothing
gets 0 and not the optimism of a plug-in estimate. The mean over concepts is the mutual information of PF-CBM's Table 3,
whose estimator is not given.
"""

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN
from conceptlens.documents import Part
from conceptlens.trust.estimates import Bootstrap, Estimate
from conceptlens.trust.folds import sides
from conceptlens.trust.probe import mean_known
from conceptlens.trust.readout import Floats, Indices, Readout

BINS = 10
SHRINK = 5.0  # images' worth of the frequencies without the score


class ConceptInformation(Part):
    """Of one concept, in nats."""

    concept: str
    score: Estimate  # I(score; class)
    label: Estimate  # I(label; class)
    beyond_label: Estimate  # I(score; class | label)


def bins(scores: Floats, learn: Indices, count: int = BINS) -> Indices:
    """Bin (N,) of each score, cut at the quantiles of the learning images; equal cuts are one."""
    cuts = np.unique(np.quantile(scores[learn], np.arange(1, count) / count))
    return np.asarray(np.searchsorted(cuts, scores, side="right"))


def information(cells: Indices, given: Indices, labels: Indices, learn: Indices, ask: Indices) -> Floats:
    """Gain in log-probability (len(ask),) of the class from knowing `cells` (N,) besides `given` (N,)."""
    classes = int(labels.max(initial=0)) + 1
    known = learn[labels[learn] >= 0]
    outer, inner = int(given.max(initial=0)) + 1, int(cells.max(initial=0)) + 1
    counts = np.zeros((outer, inner, classes))
    np.add.at(counts, (given[known], cells[known], labels[known]), 1)
    base = counts.sum(1) + SHRINK * (counts.sum((0, 1)) + 0.5) / (len(known) + 0.5 * classes)
    base /= base.sum(-1, keepdims=True)  # (outer, C): frequencies without the score
    fine = counts + SHRINK * base[:, None, :]
    fine /= fine.sum(-1, keepdims=True)
    own = np.maximum(labels[ask], 0)
    return np.asarray(np.log(fine[given[ask], cells[ask], own]) - np.log(base[given[ask], own]))


def concept_gains(
    scores: Floats, truth: npt.NDArray[np.int8], targets: list[Indices], fold: Indices
) -> dict[str, Floats]:
    """Of one concept's scores (N,) and labels (N,): `score`, `label` and `beyond_label`, (N,) each, NaN if unknown."""
    nothing = np.zeros(len(scores), dtype=np.int64)
    marks = np.maximum(truth, 0).astype(np.int64)
    found: dict[str, list[Floats]] = {"score": [], "label": [], "beyond_label": []}
    for target in targets:
        rows = {name: np.full(len(scores), np.nan) for name in found}
        for learn, ask in sides(fold):
            cells = bins(scores, learn)
            labelled = learn[truth[learn] != UNKNOWN]
            rows["score"][ask] = information(cells, nothing, target, learn, ask)
            rows["label"][ask] = information(marks, nothing, target, labelled, ask)
            rows["beyond_label"][ask] = information(cells, marks, target, labelled, ask)
        for name, row in rows.items():
            unknown = (target < 0) if name == "score" else (target < 0) | (truth == UNKNOWN)
            found[name].append(np.where(unknown, np.nan, row))
    return {name: mean_known(rows) for name, rows in found.items()}


def concept_information(
    readout: Readout, fold: Indices, bootstrap: Bootstrap
) -> tuple[list[ConceptInformation], dict[str, Estimate]]:
    """Of every concept, and the means over concepts."""
    names = ("score", "label", "beyond_label")
    each = [
        concept_gains(readout.bottleneck[:, column], readout.truth[:, column], readout.targets, fold)
        for column in range(len(readout.concepts))
    ]
    columns = {f"{name} {place}": gains[name] for place, gains in enumerate(each) for name in names}
    columns |= {name: mean_known([gains[name] for gains in each]) for name in names}
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
