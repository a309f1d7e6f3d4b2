"""What a simple reader makes of some features, said only of images it has not learned from: a cross-fitted probe."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import UNKNOWN
from conceptlens.runs.readout import Floats, Indices, Readout, TrainingLabels
from conceptlens.stats.folds import sides
from conceptlens.stats.weighted import mean_known

FLOOR = 1e-6  # probability of a class that the learning side does not show


def cross_reader(features: Floats, labels: Indices, fold: Indices) -> Callable[[Floats], Floats]:
    """Logistic regressions on standardized features, each learned from all folds but one and asked about that one.

    Args:
        features: (N, d).
        labels: (N,) class numbers; negative ones are not learned from.
        fold: (N,) the fold of each image.

    Returns:
        What they say of features (N, d) of the same images: log-probabilities (N, C).
    """
    classes = int(labels.max(initial=0)) + 1
    learned: list[tuple[Indices, Indices, Callable[[Floats], Floats]]] = []
    for learn, ask in sides(fold):
        known = learn[labels[learn] >= 0]
        present = np.unique(labels[known])
        if len(present) < 2:
            learned.append((ask, present, lambda rows: np.ones((len(rows), 1))))  # the only class there is
            continue
        mean, spread = features[known].mean(0), features[known].std(0)
        unit = np.where(spread > 0, spread, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a probe at its last step is a probe
            model = LogisticRegression(max_iter=300).fit((features[known] - mean) / unit, labels[known])
        learned.append((ask, present, partial(_read, model, mean, unit)))

    def read(asked: Floats) -> Floats:
        shares = np.full((len(labels), classes), FLOOR)
        for ask, present, model in learned:
            if len(present):
                shares[np.ix_(ask, present)] = model(asked[ask])
        return np.asarray(np.log(shares / shares.sum(1, keepdims=True)))

    return read


def _read(model: LogisticRegression, mean: Floats, unit: Floats, rows: Floats) -> Floats:
    return np.asarray(np.maximum(model.predict_proba((rows - mean) / unit), FLOOR))


def cross_fit(features: Floats, labels: Indices, fold: Indices, asked: Floats | None = None) -> Floats:
    """Log-probabilities (N, C) by such a reader of `features`, asked about `asked` (N, d) in their place if given."""
    return cross_reader(features, labels, fold)(features if asked is None else asked)


def hits(readout: Readout, features: Floats, fold: Indices, asked: Floats | None = None) -> Floats:
    """(N,): whether a probe finds the class, the mean over labels of a multi-label task; NaN where nobody knows."""
    answers = [cross_fit(features, target, fold, asked).argmax(1) for target in readout.targets]
    return _hits(answers, readout.targets)


def label_head(readout: Readout, fold: Indices) -> Callable[[npt.NDArray[np.int8]], Floats]:
    """A class head that reads labels alone: its hits (N,) when it is told some labels (N, K) of the images."""
    features = label_features(readout.truth)
    readers = [cross_reader(features, target, fold) for target in readout.targets]

    def told(labels: npt.NDArray[np.int8]) -> Floats:
        asked = label_features(labels, readout.truth)
        return _hits([read(asked).argmax(1) for read in readers], readout.targets)

    return told


def ceiling_hits(readout: Readout, fold: Indices) -> Floats:
    """(N,): whether the class follows from an image's true concepts; the mean over labels of a multi-label task."""
    training = None if readout.training is None else readout.training()
    return _hits(ceiling_answers(readout.truth, readout.targets, fold, training), readout.targets)


def ceiling_answers(
    truth: npt.NDArray[np.int8], targets: Sequence[Indices], fold: Indices, training: TrainingLabels | None
) -> list[Indices]:
    """The classes (N,) that follow from the true concepts, for each target, by the better one of two probes.

    One learns from the other images of the split, which may be few; one from the run's training images, whose labels
    are there if the run's data is.

    Args:
        truth: (N, K) true concepts.
        targets: (N,) each: the class, or one question for each label of a multi-label task.
        fold: (N,) the fold of each image.
        training: Labels of the training images.
    """
    features = label_features(truth)
    crossed = [cross_fit(features, target, fold).argmax(1) for target in targets]
    if training is None:
        return crossed
    features = label_features(np.concatenate([training.concepts, truth]))
    side = np.repeat([1, 0], [len(training.concepts), len(truth)])
    taught = [
        cross_fit(features, np.concatenate([learned, target]), side)[side == 0].argmax(1)
        for learned, target in zip(training.targets, targets, strict=True)
    ]
    return max((crossed, taught), key=lambda answers: float(np.nansum(_hits(answers, targets))))


def _hits(answers: Sequence[Indices], targets: Sequence[Indices]) -> Floats:
    """(N,): the share of answers that are right; NaN where nobody knows."""
    pairs = zip(answers, targets, strict=True)
    right = [np.where(target == UNKNOWN, np.nan, said == target) for said, target in pairs]
    return mean_known(np.stack(right, axis=-1))


def log_probability(readout: Readout, features: Floats, fold: Indices) -> Floats:
    """(N,): what a probe gives the true class, in nats, the mean over labels of a multi-label task."""
    found = []
    for target in readout.targets:
        said = cross_fit(features, target, fold)
        own = np.take_along_axis(said, np.maximum(target, 0)[:, None], 1)[:, 0]
        found.append(np.where(target >= 0, own, np.nan))
    return mean_known(np.stack(found, axis=-1))


def gain(readout: Readout, features: Floats, base: Floats, fold: Indices) -> Floats:
    """(N,): by how many nats a probe of `features` is less surprised by the class than a probe of `base`."""
    return log_probability(readout, features, fold) - log_probability(readout, base, fold)


def label_features(labels: npt.NDArray[np.int8], like: npt.NDArray[np.int8] | None = None) -> Floats:
    """Labels as features (N, 2K at most): the label, and whether it is unknown where that varies.

    Args:
        labels: (N, K).
        like: (N, K) labels whose means stand for unknown ones and that say what varies; the same by default.
    """
    like, unknown = labels if like is None else like, labels == UNKNOWN
    missing = like == UNKNOWN
    known = (~missing).sum(0)
    mean = np.where(known > 0, np.where(missing, 0, like).sum(0) / np.maximum(known, 1), 0.5)
    varies = missing.any(0) & ~missing.all(0)
    return np.concatenate([np.where(unknown, mean, labels), unknown[:, varies].astype(np.float64)], axis=1)


def hard_scores(readout: Readout) -> Floats:
    """What the model says of each concept as 0 or 1: the likeliest value of an exclusive group, yes from 0.5 on."""
    return readout.read_labels.astype(np.float64)
