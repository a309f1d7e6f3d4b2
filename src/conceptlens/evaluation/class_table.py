"""Data whose concept labels come from a table of classes: they say nothing about an image beyond its class."""

from conceptlens.data.labels import class_table
from conceptlens.runs.readout import Readout

NOT_MEASURED = "not measured: labels follow from the class"


def labels_follow_from_class(readout: Readout) -> bool:
    """Whether every image of a class has the same concept labels: they are then a function of the class."""
    return class_table.labels_follow_from_class(readout.truth, readout.labels)
