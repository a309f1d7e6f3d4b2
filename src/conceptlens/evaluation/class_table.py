"""Data whose concept labels come from a table of classes: they say nothing about an image beyond its class."""

import numpy as np

from conceptlens.runs.readout import Readout

NOT_MEASURED = "not measured: labels follow from the class"


def labels_follow_from_class(readout: Readout) -> bool:
    """Whether every image of a class has the same concept labels: they are then a function of the class."""
    if readout.labels.ndim > 1:
        return False
    parts = [readout.truth[readout.labels == each] for each in np.unique(readout.labels[readout.labels >= 0])]
    return all((part == part[0]).all() for part in parts) and len(readout) > len(parts)
