"""Controls: the same class head with permuted scores, and with random mixtures of scores.

`shuffled`: the scores of each concept are permuted among all images; what is left is chance. `shuffled within label`:
they are permuted among images with the same label, so that a score still carries its label and nothing else; the loss
of accuracy is what the head reads beyond the labels. `random concepts`: random mixtures of the scores, which have no
meaning, at the same number of effective concepts.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from conceptlens.evaluation.interventions.edits import wrong_labels
from conceptlens.evaluation.interventions.units import Unit, membership
from conceptlens.evaluation.interventions.value_map import ValueMap
from conceptlens.evaluation.leakage.effective_concepts import PRUNED, path_hits
from conceptlens.evaluation.leakage.probe import hits, label_features
from conceptlens.runs.readout import Floats, Indices, Readout

DRAWS = 5


def permute_within(scores: Floats, strata: npt.NDArray[np.integer], generator: np.random.Generator) -> Floats:
    """Scores (N,) permuted among images of the same stratum (N,)."""
    permuted = np.empty_like(scores)
    # The same places in two orders: by stratum as they stand, and by stratum at random.
    place = np.argsort(strata, kind="stable")
    source = np.lexsort((generator.random(len(scores)), strata))
    permuted[place] = scores[source]
    return permuted


def group_strata(readout: Readout) -> npt.NDArray[np.int64]:
    """(N, G): a number for each combination of a group's labels, unknown ones being a label of their own."""
    columns = [
        np.unique(readout.truth[:, group.concepts], axis=0, return_inverse=True)[1].reshape(-1)
        for group in readout.concepts.groups
    ]
    return np.stack(columns, axis=1)


def shuffled(readout: Readout, *, within_label: bool, seed: int = 0) -> Floats:
    """A bottleneck (N, K) whose groups are permuted among images, each group as a whole and by itself."""
    generator = np.random.default_rng(seed)
    strata = group_strata(readout) if within_label else np.zeros((len(readout), len(readout.concepts.groups)), np.int64)
    permuted = np.empty_like(readout.bottleneck)
    for column, group in zip(strata.T, readout.concepts.groups, strict=True):
        source = permute_within(np.arange(len(readout), dtype=np.float64), column, generator).astype(np.int64)
        permuted[:, group.concepts] = readout.bottleneck[source, group.concepts]
    return permuted


def shuffled_hits(readout: Readout, *, within_label: bool, seed: int = 0) -> Floats:
    """Hits (N,) of the head on permuted scores, the mean of a few permutations. A bypass stays with its image."""
    draws = [shuffled(readout, within_label=within_label, seed=seed + draw) for draw in range(DRAWS)]
    return np.asarray(np.mean([readout.hits(readout.logits(draw)) for draw in draws], axis=0))


def random_concept_hits(readout: Readout, fold: Indices, *, nec: int = PRUNED, seed: int = 0) -> Floats:
    """Hits (N,) of a sparse head at an NEC on as many random mixtures of the standardized scores."""
    spread = readout.bottleneck.std(0)
    scaled = (readout.bottleneck - readout.bottleneck.mean(0)) / np.where(spread > 0, spread, 1)
    mixing = np.random.default_rng(seed).standard_normal((scaled.shape[1], scaled.shape[1])) / scaled.shape[1] ** 0.5
    return path_hits(scaled @ mixing, readout.labels, len(readout.classes), fold, [nec])[nec]


def corrupted(readout: Readout, units: list[Unit], replaced: Floats, *, share: float = 0.5, seed: int = 0) -> Floats:
    """A bottleneck (N, K) in which a random share of each image's units is replaced."""
    return np.where(half(readout, units, share=share, seed=seed), replaced, readout.bottleneck)


def half(readout: Readout, units: list[Unit], *, share: float = 0.5, seed: int = 0) -> npt.NDArray[np.bool_]:
    """(N, K): the concepts of a random share of each image's units."""
    ranks = np.random.default_rng(seed).random((len(readout), len(units))).argsort(1).argsort(1)
    chosen = (ranks < round(share * len(units))).astype(np.int64)
    return np.asarray(chosen @ membership(units, len(readout.concepts)).astype(np.int64) > 0)


def corruption_hits(readout: Readout, maps: ValueMap, units: list[Unit], *, seed: int = 0) -> dict[str, Floats]:
    """Hits (N,) with half of the units spoilt: set to a `wrong` answer, or to `another` image's scores."""

    def wrong(draw: int) -> Floats:
        return maps.write(readout, wrong_labels(readout, seed=seed + draw))

    def another(draw: int) -> Floats:
        return shuffled(readout, within_label=False, seed=seed + draw)

    ways: dict[str, Callable[[int], Floats]] = {"wrong": wrong, "another": another}
    return {
        name: np.mean(
            [
                readout.hits(readout.logits(corrupted(readout, units, way(draw), seed=seed + draw)))
                for draw in range(DRAWS)
            ],
            axis=0,
        )
        for name, way in ways.items()
    }


def label_corruption_hits(readout: Readout, units: list[Unit], fold: Indices, *, seed: int = 0) -> Floats:
    """Hits (N,) of a probe from true labels with half of the units wrong: what a bottleneck of labels would lose to."""
    spoilt = np.where(half(readout, units, seed=seed), wrong_labels(readout, seed=seed), readout.truth)
    both = label_features(np.concatenate([readout.truth, spoilt]))
    return hits(readout, both[: len(readout)], fold, both[len(readout) :])
