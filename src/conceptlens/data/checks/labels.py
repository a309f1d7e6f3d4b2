"""What the labels alone give away: classes and concepts that cannot be learned, or that mean less than they seem to."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet, Group
from conceptlens.data.checks.findings import EXAMPLES, Finding, Level, counted
from conceptlens.data.dataset import DataSource
from conceptlens.data.labels.words import fold

TINY_CLASS = 10
IMBALANCE = 10
RARE_VALUE = 5
NEARLY = 0.98  # of the images have the most frequent value of their class
ENOUGH = 0.8  # balanced accuracy of the class that the concept labels must allow


def class_counts(source: DataSource) -> npt.NDArray[np.int64]:
    """Images of each class, (C,)."""
    labels = source.examples.labels
    if source.task == "multilabel":
        return np.asarray((labels == 1).sum(0), dtype=np.int64)
    return np.bincount(labels[labels >= 0], minlength=len(source.classes)).astype(np.int64)


def class_findings(source: DataSource) -> Iterator[Finding]:
    """Classes without images, with few, with many more than others; images without a class."""
    counts = class_counts(source)
    labels = source.examples.labels
    named = [(name, int(count)) for name, count in zip(source.classes, counts, strict=True)]
    empty = [name for name, count in named if not count]
    present = [count for _, count in named if count]
    if not present:
        yield Finding("error", "no-labels", "No image has a class: nothing can be trained.")
        return
    if len(source.classes) < 2 or (len(present) < 2 and source.task != "multilabel"):
        yield Finding("error", "one-class", "All images are of one class: there is nothing to learn.")
    if empty:
        message = f"{counted(len(empty), 'class')} without an image: {_few(empty)}. A model cannot learn them."
        yield Finding("warning", "classes-without-images", message, len(empty), tuple(empty[:EXAMPLES]))
    usual: dict[str, str] = {}
    alike = [(name, first) for name in source.classes if (first := usual.setdefault(fold(name), name)) != name]
    if alike:
        shown = _few([f"{name}: {first}" for name, first in alike])
        message = (
            f"{counted(len(alike), 'class')} called like another one but for capitals or gaps. If they are the same, "
            f"join them with data.rename.classes: {{{shown}}}."
        )
        yield Finding("warning", "classes-spelled-alike", message, len(alike))
    tiny = [f"{name} ({count})" for name, count in named if 0 < count < TINY_CLASS]
    if tiny:
        message = f"{counted(len(tiny), 'class')} with fewer than {TINY_CLASS} images: {_few(tiny)}."
        yield Finding("warning", "tiny-classes", message, len(tiny), tuple(tiny[:EXAMPLES]))
    largest, smallest = max(present), min(present)
    if largest >= IMBALANCE * smallest and len(present) > 1:
        yield Finding(
            "warning",
            "imbalance",
            f"The largest class has {largest:,} images, the smallest {smallest:,}. "
            "Read balanced accuracy rather than accuracy; with training.loss.class_balance: balanced each class counts "
            "the same in the loss.",
        )
    unlabeled = int((labels < 0).all(1).sum() if labels.ndim == 2 else (labels < 0).sum())
    if unlabeled:
        message = f"{counted(unlabeled, 'image')} of {len(labels):,} without a class."
        yield Finding("warning" if unlabeled > len(labels) / 2 else "info", "unlabeled", message, unlabeled)


def concept_findings(source: DataSource, concepts: ConceptSet) -> Iterator[Finding]:
    """Concepts nobody labeled, that never vary, that are rare, or that follow from the class."""
    labels = source.examples.concepts
    kinds = _class_kinds(source)
    unlabeled: list[str] = []
    constant: list[str] = []
    follow: list[str] = []
    nearly: list[str] = []
    unseen: list[str] = []
    rare: list[str] = []
    for group in concepts.groups:
        told = labels[:, group.concepts] >= 0
        if not told.any():
            unlabeled.append(group.name)
            continue
        for value, count in zip(group.values, (labels[:, group.concepts] == 1).sum(0).tolist(), strict=True):
            if not count:
                unseen.append(f"{group.name}: {value}")
            elif count < RARE_VALUE:
                rare.append(f"{group.name}: {value} ({count})")
        for name, answers in _questions(labels[:, group.concepts], group):
            if len(np.unique(answers[answers >= 0])) < 2:
                constant.append(name)
                continue
            share = _follows_from_class(answers, kinds)
            if share == 1:
                follow.append(name)
            elif share is not None and share >= NEARLY:
                nearly.append(f"{name} ({share:.1%})")
        if group.under is not None and group.under[1] is not None and group.otherwise is None:
            # Where the coarser value does not hold there is nothing to know.
            told = told[labels[:, concepts.index(group.under[0], group.under[1])] != 0]
        missing = 1 - told.mean() if told.size else 0.0
        if missing > 0:
            yield Finding(
                "warning" if missing > 0.5 else "info",
                "unknown-labels",
                f"{group.name}: {missing:.1%} of its labels are unknown: masked in losses and metrics, never guessed.",
                int((~told).any(1).sum()),
            )
    lists: tuple[tuple[Level, str, list[str], str, str, str], ...] = (
        (
            "error" if len(unlabeled) == len(concepts.groups) else "warning",
            "no-concept-labels",
            unlabeled,
            "concept group",
            "without a label for any image",
            " Labels come from a column of the table, or from `by_class` in the concept file.",
        ),
        ("warning", "one-value", constant, "concept", "with the same value in every image", ""),
        (
            "warning",
            "function-of-class",
            follow,
            "concept",
            "following from the class",
            " Concept accuracy there only restates the class accuracy.",
        ),
        (
            "info",
            "nearly-function-of-class",
            nearly,
            "concept",
            "nearly following from the class (share of images with the usual value of their class)",
            " Read concept AUC within class.",
        ),
        ("info", "values-never-seen", unseen, "concept value", "that no image has", ""),
        ("info", "rare-values", rare, "concept value", f"that fewer than {RARE_VALUE} images have", ""),
    )
    for level, code, names, noun, what, hint in lists:
        if names:
            message = f"{counted(len(names), noun)} {what}: {_few(names)}.{hint}"
            yield Finding(level, code, message, len(names), tuple(names[:EXAMPLES]))
    best = _class_ceiling(labels, kinds)
    if best is not None and best < ENOUGH:
        message = (
            f"The concept labels do not tell the classes apart: with all of them right, the balanced accuracy of the "
            f"class is {best:.1%} at most. Label further concepts, or compare with method: black-box. evidence-cbm's "
            "method.residual: true lets the class read the image past the concepts: a declared bypass."
        )
        yield Finding("warning", "few-concepts", message, len(concepts.groups))


def _class_kinds(source: DataSource) -> npt.NDArray[np.int64]:
    """A number (N,) for the class of each image, or for its combination of classes; -1 if it has none."""
    labels = source.examples.labels
    if labels.ndim == 1:
        return labels
    kinds = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    return np.where((labels == 1).any(1), kinds, -1)


def _questions(labels: npt.NDArray[np.int8], group: Group) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """What is asked of an image, with the answers (N,), -1 where unknown: an exclusive group asks once, for its value;
    an independent one asks yes or no for each of its values that anyone has labeled."""
    if group.kind == "exclusive":
        yield group.name, np.where((labels == 1).any(1), labels.argmax(1), -1)
        return
    for value, column in zip(group.values, labels.T, strict=True):
        if (column >= 0).any():
            yield f"{group.name}: {value}", column.astype(np.int64)


def _follows_from_class(answers: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]) -> float | None:
    """The share of known answers that are the most frequent of their class; None if there is too little to tell."""
    told = (answers >= 0) & (kinds >= 0)
    if told.sum() < 10 or len(np.unique(kinds[told])) < 2:
        return None
    table = np.zeros((int(kinds.max()) + 1, int(answers.max()) + 1), dtype=np.int64)
    np.add.at(table, (kinds[told], answers[told]), 1)
    return float(table.max(1).sum() / told.sum())


def _class_ceiling(labels: npt.NDArray[np.int8], kinds: npt.NDArray[np.int64]) -> float | None:
    """The best balanced accuracy of a reader of the labels that most images have; None if too few images have these."""
    usual = (labels >= 0).mean(0) > 0.5
    told = (labels[:, usual] >= 0).all(1) & (kinds >= 0)
    if not usual.any() or told.sum() < 10:
        return None
    combination = np.unique(labels[told][:, usual], axis=0, return_inverse=True)[1].reshape(-1)
    table = np.zeros((int(combination.max()) + 1, int(kinds.max()) + 1))
    np.add.at(table, (combination, kinds[told]), 1)
    table = table[:, table.any(0)]
    return float((table / table.sum(0)).max(1).sum() / table.shape[1])


def _few(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
