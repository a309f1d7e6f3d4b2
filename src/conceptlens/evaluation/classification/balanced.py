"""Accuracy in which every class counts the same, whatever its share of the images (BMAC in the IVQ-CBM paper)."""

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer]


def recalls(predicted: Integers, labels: Integers, classes: int) -> npt.NDArray[np.float64]:
    """Share found of each class (C,); NaN for a class that does not occur. Predictions and labels are (N,)."""
    support = np.bincount(labels, minlength=classes)
    found = np.bincount(labels[predicted == labels], minlength=classes)
    return np.where(support > 0, found / np.maximum(support, 1), np.nan)


def balanced_accuracy(predicted: Integers, labels: Integers, classes: int, *, at_least: int = 1) -> float | None:
    """Mean recall over the classes that occur; None if fewer than `at_least` do."""
    found = recalls(predicted, labels, classes)
    found = found[~np.isnan(found)]
    return float(found.mean()) if len(found) >= max(at_least, 1) else None


def mean_of(values: "list[float | None]") -> float | None:
    """Mean of those that could be computed."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
