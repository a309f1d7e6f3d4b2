"""Whether anything can be learned from labels and splits: what `data check` reports and training refuses."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import EXAMPLES, Finding, counted
from conceptlens.data.checks.labels import class_findings
from conceptlens.data.dataset import UNLABELED, DataSource
from conceptlens.data.splits.splits import Splits


def split_findings(source: DataSource, splits: Splits) -> Iterator[Finding]:
    """Training images of one class, validation images of none: there is nothing to learn, or to choose a model by."""
    seen = _classes_in(source, splits.train)
    if not len(seen):
        yield Finding("error", "no-training-labels", "No training image has a class: nothing can be trained.")
    elif len(seen) == 1 and source.task != "multilabel":
        name = source.classes[seen[0]]
        message = f"All training images are of one class, {name}: there is nothing to learn."
        yield Finding("error", "one-training-class", message)
    if not len(_classes_in(source, splits.val)):
        message = "No validation image has a class: nothing can choose a model or a threshold."
        yield Finding("error", "no-validation-labels", message)


def constant_findings(source: DataSource, splits: Splits, concepts: ConceptSet) -> Iterator[Finding]:
    """Concepts that never vary among the training images: whatever their scores are, nothing taught them."""
    labels = source.examples.concepts[splits.train]
    seen = [np.unique(column[column != UNKNOWN]) for column in labels.T]
    names = [name for name, values in zip(concepts.names, seen, strict=True) if len(values) == 1]
    if names:
        shown = ", ".join(names[:EXAMPLES]) + ", …" * (len(names) > EXAMPLES)
        message = (
            f"{counted(len(names), 'concept')} with the same label in every training image ({shown}): a model cannot "
            "learn what they look like."
        )
        yield Finding("warning", "one-training-value", message, len(names), tuple(names[:EXAMPLES]))


def check_learnable(
    source: DataSource, splits: Splits, concepts: ConceptSet, *, class_loss: bool = True, concept_loss: bool = True
) -> None:
    """Refuse what cannot be learned.

    Args:
        source: The data.
        splits: Its division.
        concepts: The vocabulary.
        class_loss: Whether classes are learned.
        concept_loss: Whether concepts are learned.

    Raises:
        UserError: Classes are to be learned but do not differ, or concepts but nobody labeled any.
    """
    if class_loss:
        for finding in (*class_findings(source), *split_findings(source, splits)):
            if finding.level == "error":
                raise UserError(f"{source.name}: {finding.message} `conceptlens data check` says more.")
    if concept_loss and not (source.examples.concepts[splits.train] != UNKNOWN).any():
        raise UserError(
            f"{source.name}: no training image has a label of any concept ({concepts.names[0]}, …), so the concepts "
            "would be mere names. Give them columns in the table or `by_class` in the concept file, or train without "
            "them: training.loss.concept_weight 0."
        )


def _classes_in(source: DataSource, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Classes that some of these images have; for several classes an image, also those known to be absent."""
    labels = source.examples.labels[indices]
    if source.task == "multilabel":
        return np.flatnonzero((labels != UNKNOWN).any(0))
    return np.unique(labels[labels != UNLABELED])
