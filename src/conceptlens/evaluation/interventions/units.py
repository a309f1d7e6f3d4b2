"""What a person is asked about: a single concept, a group of concepts, or all concepts of a part.

A unit is one or more questions. An exclusive group is one question with as many answers as values; everything else is a
yes or no for each concept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import unknown_name
from conceptlens.nn.heads.probabilities import concept_probabilities_of

By = Literal["groups", "concepts", "parts"]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Question:
    """Concepts whose labels are given together."""

    columns: tuple[int, ...]
    answers: Flags  # (A, len(columns)): which of them hold, for each answer


@dataclass(frozen=True)
class Unit:
    """What is corrected in one go."""

    name: str
    questions: tuple[Question, ...]

    @property
    def columns(self) -> list[int]:
        return [column for question in self.questions for column in question.columns]


def yes_no(column: int) -> Question:
    return Question((column,), np.array([[False], [True]]))


def questions(concepts: ConceptSet) -> list[tuple[Question, ...]]:
    """The questions of each group."""
    found: list[tuple[Question, ...]] = []
    for group in concepts.groups:
        columns = tuple(range(group.concepts.start, group.concepts.stop))
        one_of = (Question(columns, np.eye(len(columns), dtype=bool)),)
        found.append(one_of if group.kind == "exclusive" else tuple(yes_no(column) for column in columns))
    return found


def make_units(concepts: ConceptSet, by: str = "groups") -> list[Unit]:
    """The units of a concept set. By parts, groups without a part stand alone."""
    if by not in get_args(By):
        raise unknown_name("way to put concepts together", by, get_args(By))
    if by == "concepts":
        return [Unit(name, (yes_no(column),)) for column, name in enumerate(concepts.names)]
    by_name: dict[str, tuple[Question, ...]] = {}
    for group, asked in zip(concepts.groups, questions(concepts), strict=True):
        name = group.part if by == "parts" and group.part else group.name
        by_name[name] = by_name.get(name, ()) + asked
    return [Unit(name, asked) for name, asked in by_name.items()]


def with_concepts(units: list[Unit], concepts: ConceptSet, names: Sequence[str]) -> list[Unit]:
    """The units, and single concepts that are asked for by name besides."""
    known = {unit.name for unit in units}
    singles = {unit.name: unit for unit in make_units(concepts, "concepts")}
    return [*units, *(singles[name] for name in dict.fromkeys(names) if name in singles and name not in known)]


def membership(units: list[Unit], concepts: int) -> Flags:
    """(U, K): which concepts each unit holds."""
    mask = np.zeros((len(units), concepts), dtype=bool)
    for row, unit in zip(mask, units, strict=True):
        row[unit.columns] = True
    return mask


def without_meaning(concepts: ConceptSet, concept_logits: npt.NDArray[Any], edits: Sequence[str]) -> set[str]:
    """Names of the groups that stand under a value that does not hold in an image, so that nobody need be asked.

    Args:
        concepts: The vocabulary.
        concept_logits: (K,) what the model reads.
        edits: What a person told, as `granularity=no`; it counts before what the model reads.
    """
    held = concepts.held(concept_probabilities_of(concept_logits[None], concepts)[0])
    groups = {group.name: group for group in concepts.groups}
    for edit in edits:
        name, _, word = (part.strip() for part in edit.partition("="))
        if name in groups and word in groups[name].values:
            if groups[name].kind == "exclusive":
                held[groups[name].concepts] = False
            held[concepts.index(name, word)] = True
        elif name in concepts.names and word in ("yes", "no"):
            held[concepts.names.index(name)] = word == "yes"
    applies = concepts.applying(held)
    return {group.name for group in concepts.groups if not applies[group.concepts.start]}


def left_to_ask(concepts: ConceptSet, concept_logits: npt.NDArray[Any], edits: Sequence[str]) -> list[Unit]:
    """The groups that no edit speaks of and that have a meaning in an image, given what the model reads (K,)."""
    group_of = {concept.name: concept.group for concept in concepts.concepts}
    names = [edit.partition("=")[0].strip() for edit in edits]
    done = {group_of.get(name, name) for name in names} | without_meaning(concepts, concept_logits, edits)
    return [unit for unit in make_units(concepts) if unit.name not in done]
