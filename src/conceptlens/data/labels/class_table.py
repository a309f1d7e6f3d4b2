"""Concept labels of the class: where every image of a class has the same ones, they tell the class and nothing else."""

import numpy as np
import numpy.typing as npt


def labels_follow_from_class(concepts: npt.NDArray[np.int8], labels: npt.NDArray[np.int64]) -> bool:
    """Whether concept labels (N, K) are a function of the class (N,); never said of a multi-label task, (N, C)."""
    if labels.ndim > 1:
        return False
    parts = [concepts[labels == each] for each in np.unique(labels[labels >= 0])]
    return all((part == part[0]).all() for part in parts) and len(labels) > len(parts)
