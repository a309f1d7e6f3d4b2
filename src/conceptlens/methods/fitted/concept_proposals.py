"""Which class proposes which concepts: the candidates among which LaBo selects.

In the paper a language model writes sentences about each class. A concept file holds that knowledge as a table of its
classes, or as a group of texts for each class; where it lists groups of values only, every class proposes the values
that are more like it than like the other classes.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError

Candidates = Literal["auto", "groups", "table", "images", "text", "all"]
Proposals = npt.NDArray[np.bool_]  # (C, K)


def resolve(candidates: Candidates, concepts: ConceptSet, classes: Sequence[str]) -> Candidates:
    """What `auto` stands for: groups called like the classes, else the file's table of them, else `images`."""
    if candidates != "auto":
        return candidates
    if not classes:
        return "images"
    if {*classes} <= {group.name for group in concepts.groups}:
        return "groups"
    return "table" if all(concepts.by_class.get(name) for name in classes) else "images"


def proposed_by_groups(concepts: ConceptSet, classes: Sequence[str]) -> Proposals:
    """A class proposes the concepts of the group that has its name."""
    found = np.zeros((len(classes), len(concepts)), bool)
    for position, name in enumerate(classes):
        found[position, concepts.group(name).concepts] = True
    return found


def proposed_by_table(concepts: ConceptSet, classes: Sequence[str]) -> Proposals:
    """A class proposes what `by_class` of the concept file says of it."""
    found = np.stack([concepts.labels_of_class(name) == 1 for name in classes])
    if silent := [name for name, row in zip(classes, found, strict=True) if not row.any()]:
        raise UserError(
            f"method.candidates: the concept file {concepts.name!r} says nothing of {silent[0]!r} in `by_class`, so "
            "the class proposes no concept. Add it there, or use `candidates: images`."
        )
    return found


def proposed_by_likeness(concepts: ConceptSet, likeness: npt.NDArray[np.floating]) -> Proposals:
    """A class proposes what is more like it than like the other classes.

    Likeness (C, K) is taken relative to its mean over the classes and over the concepts: some texts are like every
    image, and some images like every text. Of an exclusive group a class proposes the one value that is most like it,
    of an independent one every value that is more like it than usual.
    """
    relative = likeness - likeness.mean(0) - likeness.mean(1, keepdims=True) + likeness.mean()
    found = relative >= 0
    for group in concepts.groups:
        if group.kind == "exclusive":
            part = relative[:, group.concepts]
            found[:, group.concepts] = np.arange(part.shape[1]) == part.argmax(1)[:, None]
    return np.asarray(found, bool)
