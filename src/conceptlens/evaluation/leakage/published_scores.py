"""Concepts-task and inter-concept leakage (CTL, ICL) of E. Parisini et al., arXiv 2504.14094, as their code has them.

With ĉ a concept's score, c its label and y the class:

- CTL is the mean over concepts of max(0, [I(ĉ; y) − I(c; y)] / H(y));
- ICL is the mean over pairs of concepts of max(0, I(ĉᵢ; ĉⱼ) / √(H(ĉᵢ) H(ĉⱼ)) − I(cᵢ; cⱼ) / √(H(cᵢ) H(cⱼ))).

They estimate the information of scores by nearest neighbors and that of labels by counts. Both sides are counted here,
with scores cut into bins at their quantiles and the correction of G. Miller (1955) for few images (H is larger by
(cells − 1) / 2N), so that the bias of one estimator is not taken for leakage. In an exclusive group a score also says
something of the group's other values, so an honest score is above 0: compare it with that of the reference reader.
"""

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN
from conceptlens.core.documents import Part
from conceptlens.evaluation.leakage.information import bins
from conceptlens.runs.readout import Readout

Integers = npt.NDArray[np.integer]
CUTS = 4  # bins of a score; pairs of concepts need sixteen cells


class PublishedScores(Part):
    """0: no leakage by this measure."""

    ctl: float | None  # None: no concept and class are known together
    icl: float | None  # None: there are no two concepts

    def text(self) -> str:
        ctl, icl = ("-" if value is None else f"{value:.3f}" for value in (self.ctl, self.icl))
        return f"CTL {ctl}, ICL {icl}"


def published_scores(readout: Readout) -> PublishedScores:
    """Of a run or of a reader; the mean over labels of a multi-label task."""
    scores, truth = bins(readout.bottleneck, np.arange(len(readout)), CUTS), readout.truth
    tasks = [
        found
        for target in readout.targets
        for cells, labels in zip(scores.T, truth.T, strict=True)
        if (found := _above(cells, labels, target, target)) is not None
    ]
    pairs = [
        found
        for one in range(truth.shape[1])
        for two in range(one)
        if (found := _above(scores[:, one], truth[:, one], scores[:, two], truth[:, two], both=True)) is not None
    ]
    return PublishedScores(ctl=_mean(tasks), icl=_mean(pairs))


def _above(
    cells: Integers, labels: Integers, other_cells: Integers, other_labels: Integers, *, both: bool = False
) -> float | None:
    """What scores say of each other, or of the class, more than labels do; of images whose labels are known."""
    known = (labels != UNKNOWN) & (other_labels >= 0)
    if not known.any():
        return None
    shares = []
    for first, second in ((cells, other_cells), (labels, other_labels)):
        own, other = entropy(first[known]), entropy(second[known])
        whole = np.sqrt(own * other) if both else other
        shares.append(mutual_information(first[known], second[known]) / whole if whole > 0 else 0.0)
    return max(0.0, shares[0] - shares[1])


def entropy(values: Integers) -> float:
    """In nats, with the correction for few images."""
    counts = np.unique(values, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum() + (len(counts) - 1) / (2 * len(values)))


def mutual_information(one: Integers, two: Integers) -> float:
    """In nats: I(one; two) = H(one) + H(two) − H(one, two), not below 0."""
    base = int(two.max(initial=0)) + 1
    return max(0.0, entropy(one) + entropy(two) - entropy(one.astype(np.int64) * base + two))


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
