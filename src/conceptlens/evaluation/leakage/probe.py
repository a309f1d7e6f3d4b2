"""What a simple reader makes of some features, said only of images it has not learned from: a cross-fitted probe."""

import warnings

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import UNKNOWN
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.folds import sides

FLOOR = 1e-6  # probability of a class that the learning side does not show


def cross_fit(features: Floats, labels: Indices, fold: Indices, asked: Floats | None = None) -> Floats:
    """Log-probabilities (N, C) by a logistic regression on standardized features, learned from the other folds.

    Args:
        features: (N, d).
        labels: (N,) class numbers; negative ones are not learned from.
        fold: (N,) the fold of each image.
        asked: (N, d) what the probe is asked about in the place of `features`.
    """
    put = features if asked is None else asked
    classes = int(labels.max(initial=0)) + 1
    shares = np.full((len(labels), classes), FLOOR)
    for learn, ask in sides(fold):
        known = learn[labels[learn] >= 0]
        present = np.unique(labels[known])
        if len(present) < 2:
            shares[np.ix_(ask, present)] = 1
            continue
        mean, spread = features[known].mean(0), features[known].std(0)
        unit = np.where(spread > 0, spread, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a probe at its last step is a probe
            model = LogisticRegression(max_iter=300).fit((features[known] - mean) / unit, labels[known])
        shares[np.ix_(ask, present)] = np.maximum(model.predict_proba((put[ask] - mean) / unit), FLOOR)
    return np.asarray(np.log(shares / shares.sum(1, keepdims=True)))


def hits(readout: Readout, features: Floats, fold: Indices, asked: Floats | None = None) -> Floats:
    """(N,): whether a probe finds the class, the mean over labels of a multi-label task; NaN where nobody knows."""
    found = []
    for target in readout.targets:
        said = cross_fit(features, target, fold, asked).argmax(1)
        found.append(np.where(target == UNKNOWN, np.nan, said == target))
    return mean_known(found)


def log_probability(readout: Readout, features: Floats, fold: Indices) -> Floats:
    """(N,): what a probe gives the true class, in nats, the mean over labels of a multi-label task."""
    found = []
    for target in readout.targets:
        said = cross_fit(features, target, fold)
        own = np.take_along_axis(said, np.maximum(target, 0)[:, None], 1)[:, 0]
        found.append(np.where(target >= 0, own, np.nan))
    return mean_known(found)


def gain(readout: Readout, features: Floats, base: Floats, fold: Indices) -> Floats:
    """(N,): by how many nats a probe of `features` is less surprised by the class than a probe of `base`."""
    return log_probability(readout, features, fold) - log_probability(readout, base, fold)


def mean_known(columns: list[Floats]) -> Floats:
    """The mean of several columns (N,), or tables, over those that are not NaN."""
    values = np.stack(columns)
    known = ~np.isnan(values)
    count = known.sum(0)
    mean: Floats = np.divide(
        np.where(known, values, 0).sum(0), count, out=np.full(values.shape[1:], np.nan), where=count > 0
    )
    return mean


def label_features(truth: npt.NDArray[np.int8]) -> Floats:
    """True concepts as features (N, 2K at most): the label, and whether it is unknown where that varies."""
    unknown = truth == UNKNOWN
    known = (~unknown).sum(0)
    mean = np.where(known > 0, np.where(unknown, 0, truth).sum(0) / np.maximum(known, 1), 0.5)
    varies = unknown.any(0) & ~unknown.all(0)
    return np.concatenate([np.where(unknown, mean, truth), unknown[:, varies].astype(np.float64)], axis=1)


def hard_scores(readout: Readout) -> Floats:
    """What the model says of each concept as 0 or 1: the likeliest value of an exclusive group, yes from 0.5 on."""
    said = readout.concept_probabilities
    hard = (said >= 0.5).astype(np.float64)
    for group in readout.concepts.groups:
        if group.kind == "exclusive":
            part = said[:, group.concepts]
            hard[:, group.concepts] = np.arange(part.shape[1]) == part.argmax(1)[:, None]
    return hard
