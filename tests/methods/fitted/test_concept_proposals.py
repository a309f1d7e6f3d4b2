"""What each class proposes: by groups, by the table, by likeness."""

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.methods.fitted.concept_proposals import (
    proposed_by_groups,
    proposed_by_likeness,
    proposed_by_table,
    resolve,
)

CLASSES = ("left", "right")
TABLE = "by_class: {left: {size: big, extras: [spots]}, right: {color: blue, size: big}}\n"
GROUPS = """
groups:
  left: {kind: independent, values: [it is long, it is thin]}
  right: {kind: independent, values: [it is short]}
"""


def with_table(concepts: ConceptSet, table: str = TABLE) -> ConceptSet:
    return ConceptSet.from_yaml(concepts.to_yaml() + table)


def test_by_table(concepts: ConceptSet) -> None:
    """Of size, color and extras, the values big and spots; big and blue."""
    found = proposed_by_table(with_table(concepts), CLASSES)
    assert found.tolist() == [[True, False, False, False, True], [True, False, False, True, False]]
    with pytest.raises(UserError, match="says nothing of 'right'"):
        proposed_by_table(with_table(concepts, "by_class: {left: {size: big}}\n"), CLASSES)


def test_by_groups_named_like_the_classes() -> None:
    found = proposed_by_groups(ConceptSet.from_yaml(GROUPS), CLASSES)
    assert found.tolist() == [[True, True, False], [False, False, True]]


def test_by_likeness_one_value_of_an_axis(concepts: ConceptSet) -> None:
    """`left` is liker everything, which says nothing; red is like both, but blue is more like `right` than usual."""
    likeness = np.array([[0.9, 0.8, 0.7, 0.3, 0.5], [0.5, 0.6, 0.5, 0.3, 0.1]])
    found = proposed_by_likeness(concepts, likeness)
    assert found[:, :4].tolist() == [[True, False, True, False], [False, True, False, True]]
    # Relative to its class (0.24 above or below the mean) `spots` is 0.4 apart: more `left` than usual.
    assert found[:, 4].tolist() == [True, False]
    shifted = likeness + np.array([[0.3], [-0.1]]) + np.array([0, 0.5, 0.2, 0.1, 0.3])
    assert np.array_equal(proposed_by_likeness(concepts, shifted), found)


def test_auto_takes_what_the_file_has(concepts: ConceptSet) -> None:
    assert resolve("auto", concepts, CLASSES) == "images"
    assert resolve("auto", with_table(concepts), CLASSES) == "table"
    assert resolve("auto", with_table(concepts, "by_class: {left: {size: big}}\n"), CLASSES) == "images"
    assert resolve("auto", ConceptSet.from_yaml(GROUPS), CLASSES) == "groups"
    assert resolve("auto", concepts, ()) == "images"
    assert resolve("all", with_table(concepts), CLASSES) == "all"
