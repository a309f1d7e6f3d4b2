"""Which classes there are, in which order, and what the class of an image says about its concepts."""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, closest, did_you_mean, unknown_name
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import Task, no_concepts
from conceptlens.data.labels.words import match_value


def order_classes(
    found: Sequence[str], *, wanted: Sequence[str] | None, concepts: ConceptSet, task: Task, source: str
) -> tuple[str, ...]:
    """The classes, spelled as in the concept set, in the order of the recipe, else of the concept set, else as found.

    Raises:
        UserError: The scale of an ordinal task is not known, or the recipe wants a class that the concept set has not.
    """
    if wanted is not None:
        if len(set(wanted)) != len(wanted) or not wanted:
            raise UserError(f"data.classes: expected different names, found {list(wanted)}.")
        return tuple(_as_in(concepts, name, "data.classes") for name in wanted)
    if concepts.classes:
        return concepts.classes
    if not found:
        raise UserError(f"{source}: no class is named. Add a class column, or name the classes in the concept file.")
    if all(re.fullmatch(r"-?\d+(\.0+)?", name) for name in found):
        # Whole numbers, which some programs write as 3.0 when a cell of their column is blank.
        found = [name.split(".")[0] for name in found]
    spelled = {name: position for position, name in enumerate(concepts.by_class)}
    names = []
    for name in found:
        position = match_value(name, spelled)
        names.append(name if position is None else list(spelled)[position])
    try:
        return tuple(sorted(dict.fromkeys(names), key=int))
    except ValueError:
        if task == "ordinal":
            shown = ", ".join(sorted(names)[:8])
            raise UserError(
                f"{source}: an ordinal task needs the order of its classes ({shown}), lowest first: set data.classes, "
                "or `classes` in the concept file."
            ) from None
        return tuple(sorted(dict.fromkeys(names)))


def _as_in(concepts: ConceptSet, name: str, place: str) -> str:
    known = concepts.classes or tuple(concepts.by_class)
    position = match_value(name, {option: number for number, option in enumerate(known)})
    if position is None and concepts.classes:
        raise UserError(f"{place}: {unknown_name('class', name, concepts.classes)}")
    return name if position is None else known[position]


def class_index(name: str, classes: Sequence[str]) -> int | None:
    """The class that a word of the data names; None if there is no such class."""
    return match_value(name, {option: number for number, option in enumerate(classes)})


def report_unknown_class(
    name: str, classes: Sequence[str], *, place: str, count: int, problems: Problems, hint: str = ""
) -> None:
    problems.add(
        "error",
        "unknown-class",
        f"{place}: {name!r} is not one of the classes. {did_you_mean(name, classes)}{hint} "
        f"{_rename_hint(name, classes)}",
        count=count,
    )


def _rename_hint(name: str, classes: Sequence[str]) -> str:
    """How to map a class that the concept file calls otherwise, or leave it out."""
    ours = closest(name, classes) or "OUR NAME"
    return f"Map it with data.rename.classes: {{{name}: {ours}}}; null leaves its images out."


def concepts_of_classes(
    concepts: ConceptSet, classes: Sequence[str], labels: npt.NDArray[np.int64], task: Task
) -> npt.NDArray[np.int8]:
    """Concept labels (N, K) that follow from class labels, by the concept set's class table.

    Of an image with several classes, a concept is known where all of them agree.
    """
    table = np.stack([concepts.labels_of_class(name) for name in classes])  # (C, K)
    if task != "multilabel":
        # The appended row is what UNLABELED, -1, points at.
        return np.concatenate([table, no_concepts(1, len(concepts))])[labels]
    derived = no_concepts(len(labels), len(concepts))
    present = labels == 1
    for label in (0, 1):
        others = (table != label).astype(np.int32)  # (C, K): classes that say anything else
        agree = (present.astype(np.int32) @ others) == 0
        derived[agree & present.any(1, keepdims=True)] = label
    return derived
