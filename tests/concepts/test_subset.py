"""Some concepts of a file: what becomes of groups, tables and hierarchies, and how labels are still read."""

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig, ShapesConfig

FILE = """
classes: [a, b]
groups:
  size: {values: [big, small, tiny]}
  granules: {values: [yes, no]}
  color: {under: {granules: "yes"}, values: [red, blue]}
by_class:
  a: {size: big, granules: yes, color: red}
  b: {size: small, granules: no}
"""


@pytest.fixture
def file() -> ConceptSet:
    return ConceptSet.from_yaml(FILE)


def test_a_group_that_loses_a_value_becomes_independent(file: ConceptSet) -> None:
    kept = file.subset([0, 2, 3, 4, 5, 6])
    assert kept.names == ["size: big", "size: tiny", *file.names[3:]]
    assert [group.kind for group in kept.groups] == ["independent", "exclusive", "exclusive"]
    assert [group.concepts for group in kept.groups] == [slice(0, 2), slice(2, 4), slice(4, 6)]
    assert kept.groups[0].values == ("big", "tiny")
    assert kept.index("granules", "no") == 3
    assert kept.exclusive.tolist() == [False, False, True, True, True, True]


def test_a_group_without_values_goes_and_what_stood_under_it_stands_alone(file: ConceptSet) -> None:
    kept = file.subset([0, 5, 6])
    assert [group.name for group in kept.groups] == ["size", "color"]
    assert kept.group("color").under is None
    assert kept.levels == {"size": 0, "color": 0}
    assert file.subset([3, 5, 6]).group("color").under == ("granules", "yes")
    assert file.subset([4, 5, 6]).group("color").under is None


def test_labels_of_a_class_are_those_of_the_whole_file(file: ConceptSet) -> None:
    for columns in ([0, 2], [1, 4, 5], [5, 6], [3]):
        kept = file.subset(columns)
        for name in ("a", "b"):
            assert kept.labels_of_class(name).tolist() == file.labels_of_class(name)[columns].tolist()
    assert file.subset([5, 6]).labels_of_class("b").tolist() == [-1, -1]  # b has no granules to have a color


def test_it_is_written_and_read_back(file: ConceptSet) -> None:
    kept = file.subset([0, 2, 3, 5])
    again = ConceptSet.from_yaml(kept.to_yaml())
    assert again == kept
    assert again.columns == (0, 2, 3, 5)
    assert again.whole == file
    assert again.fingerprint == kept.fingerprint != file.fingerprint
    assert again.source["left_out"] == {"size": ["small"], "granules": ["no"], "color": ["blue"]}


def test_a_subset_of_a_subset_speaks_of_the_whole(file: ConceptSet) -> None:
    twice = file.subset([0, 2, 3, 5]).subset([1, 3])
    assert twice == file.subset([2, 5])
    assert twice.columns == (2, 5)
    assert file.subset(range(7)) is file
    assert file.columns is None


def test_a_file_may_leave_concepts_out_itself() -> None:
    written = FILE + "left_out: {granules: [no], size: [big, small]}\n"
    read = ConceptSet.from_yaml(written)
    assert read.names == ["size: tiny", "granules: yes", "color: red", "color: blue"]
    with pytest.raises(UserError, match=r"left_out: Unknown value of 'size'.*'tiny'"):
        ConceptSet.from_yaml(FILE + "left_out: {size: [tinny]}")
    with pytest.raises(UserError, match="every concept"):
        ConceptSet.from_yaml("groups: {size: {values: [big, small]}}\nleft_out: {size: [big, small]}")


def test_labels_are_read_with_all_values_then_some_are_kept() -> None:
    config = DataConfig("shapes", shapes=ShapesConfig(n=12, size=32))
    source, whole = open_source(config, None)
    chosen = ConceptSet.from_yaml(whole.subset([0, 2, 7]).to_yaml())
    other, kept = open_source(config, chosen)
    assert kept.names == chosen.names
    np.testing.assert_array_equal(other.examples.concepts, source.examples.concepts[:, [0, 2, 7]])
    assert other.examples.fingerprint == source.examples.fingerprint  # the same data, whatever is used of them
