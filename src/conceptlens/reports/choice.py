"""Which test images are shown: confident and correct, confident and wrong, and unsure; as different as possible."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from conceptlens.data.dataset import Task

Floats = npt.NDArray[np.float64]
Kind = Literal["right", "wrong", "unsure"]
EACH = 3  # of a kind


@dataclass(frozen=True)
class Choice:
    """An image, the class that its story is about, and whether everything said of its known labels is right."""

    kind: Kind
    row: int
    about: int
    right: bool


def choose(values: Floats, labels: npt.NDArray[np.int64], task: Task, thresholds: Sequence[float]) -> list[Choice]:
    """At most three images of each kind, most telling first; each image once.

    Args:
        values: (N, C) class probabilities.
        labels: (N,), or (N, C) for a multi-label task; negative is unknown.
        task: The task.
        thresholds: (C,), for a multi-label task.
    """
    if not len(values):
        return []
    known = labels >= 0
    if task == "multilabel":
        distance = np.abs(values - np.asarray(thresholds))
        errors = known & ((values >= np.asarray(thresholds)) != (labels == 1))
        right, rows = ~errors.any(1), known.any(1)
        nearest, worst = np.where(known, distance, np.inf), np.where(errors, distance, -1.0)
        certainty, boldness = nearest.min(1), worst.max(1)
        about = {"right": values.argmax(1), "wrong": worst.argmax(1), "unsure": nearest.argmin(1)}
        alike = labels.tolist()
    else:
        said, boldness = values.argmax(1), values.max(1)
        right, rows = said == labels, known
        second = np.sort(values, axis=1)[:, -2] if values.shape[1] > 1 else np.zeros(len(values))
        certainty = boldness - second
        about = {"right": said, "wrong": said, "unsure": said}
        alike = np.stack([labels, said], axis=1).tolist()
    plans: tuple[tuple[Kind, Any, Any], ...] = (
        ("right", rows & right, -certainty),
        ("wrong", rows & ~right, -boldness),
        ("unsure", rows, certainty),
    )
    taken: list[Choice] = []
    for kind, allowed, order in plans:
        used = {each.row for each in taken}
        ranked = [row for row in np.argsort(order, kind="stable").tolist() if allowed[row] and row not in used]
        varied = _varied(ranked, lambda row: tuple(alike[row]))
        taken += [Choice(kind, row, int(about[kind][row]), bool(right[row])) for row in varied]
    return taken


def _varied(ranked: Iterable[int], key: Callable[[int], Hashable]) -> list[int]:
    """The first few, one of each key; repeated keys only where there are no others."""
    first: dict[Hashable, int] = {}
    again: list[int] = []
    for row in ranked:
        if key(row) in first:
            again.append(row)
        else:
            first[key(row)] = row
    return [*first.values(), *again][:EACH]
