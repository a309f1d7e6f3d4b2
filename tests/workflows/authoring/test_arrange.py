"""Coarse to fine: what stands under what, and the concept file that comes of it."""

from conceptlens.concepts import ConceptSet
from conceptlens.workflows.authoring.arrange import arrange
from conceptlens.workflows.authoring.candidates import Candidate, GroupNote
from conceptlens.workflows.authoring.concept_file import concept_yaml


def of(group: str, value: str, *classes: str, part: str | None = None) -> Candidate:
    return Candidate(group, value, f"{group} {value}", part, frozenset(classes))


GRANULES = [
    of("granule colour", "pink", "N", part="granules"),
    of("granule colour", "purple", "B", part="granules"),
    of("granularity", "yes", "N", "B", part="granules"),
    of("granularity", "no", "L", "M", part="granules"),
    of("extras", "vacuoles", "M"),
]


def test_what_a_model_said_counts() -> None:
    notes = {"granul colour": GroupNote("granule colour", None, ("Granularity", "Yes"))}
    groups = arrange(GRANULES, notes)
    assert [(group.name, group.under) for group in groups] == [
        ("granularity", None),
        ("extras", None),
        ("granule colour", ("granularity", "yes")),
    ]
    assert [group.exclusive for group in groups] == [True, False, True]


def test_the_table_by_class_says_it_where_no_model_does() -> None:
    (fine,) = [group for group in arrange(GRANULES, {}) if group.name == "granule colour"]
    assert fine.under == ("granularity", "yes")
    single = [*GRANULES, of("lobes", "two", "N", "B", part="nucleus"), of("rim", "thin", "L", part="granules")]
    under = {group.name: group.under for group in arrange(single, {})}
    assert under["lobes"] is None  # another part
    assert under["rim"] is None  # one class


def test_what_is_denied_is_known() -> None:
    (group,) = arrange([Candidate("other", "x", "x", None, frozenset({"N"}), frozenset({"L"}))], {})
    concepts = ConceptSet.from_yaml(concept_yaml([group], ["N", "L", "B"], name="x", about="y"))
    assert concepts.labels_of_class("L").tolist() == [0]
    assert concepts.labels_of_class("B").tolist() == [-1]


def test_what_is_gone_or_leads_back_is_left_out() -> None:
    notes = {
        "granul colour": GroupNote("granule colour", None, ("granularity", "sometimes")),
        "granularity": GroupNote("granularity", None, ("granule colour", None)),
        "extra": GroupNote("extras", None, ("wings", "yes")),
    }
    found = {group.name: group.under for group in arrange(GRANULES, notes)}
    assert found == {"granule colour": ("granularity", None), "granularity": None, "extras": None}


def test_the_file_can_be_read_back() -> None:
    notes = {"granul colour": GroupNote("granule colour", None, ("granularity", "yes"))}
    text = concept_yaml(arrange(GRANULES, notes), ["N", "B", "L", "M"], name="x", about="y")
    concepts = ConceptSet.from_yaml(text)
    assert concepts.levels == {"granularity": 0, "extras": 0, "granule colour": 1}
    assert concepts.group("granularity").values == ("yes", "no")  # words, not truth values
    assert concepts.by_class["M"] == {"granularity": ("no",), "extras": ("vacuoles",)}


def test_an_axis_with_two_values_of_one_class_is_independent() -> None:
    (group,) = arrange([of("a", "1", "N", "B"), of("a", "2", "N")], {})
    assert not group.exclusive
    concepts = ConceptSet.from_yaml(concept_yaml([group], ["N", "B"], name="x", about="y"))
    assert concepts.by_class["N"]["a"] == ("1", "2")
