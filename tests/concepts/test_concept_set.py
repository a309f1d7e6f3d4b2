"""Concept files as people write them, good and bad."""

from pathlib import Path

import numpy as np
import pytest

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError

GOOD = """
schema: 1
name: cells
about: for tests
classes: [small cell, large cell]
groups:
  granularity: {prompt: "a cell {value}", part: granules, values: {yes: with granules, no: without granules}}
  granule colour:
    part: granules
    under: {granularity: yes}
    prompt: "granules that are {value}"
    values: [red, blue, 3]
  granule shade: {under: {granule colour: blue}, values: [light, dark]}
  extras:
    kind: independent
    column: list of extras
    values: {spots: a cell with spots, halo:}
    columns: {spots: has_spots}
  size: {under: granularity, values: {true: 1, false: 2.5}}
by_class:
  small cell: {granularity: no, granule colour: red, extras: []}
  large cell: {granularity: yes, granule colour: blue, extras: [spots, halo]}
"""


@pytest.fixture
def good() -> ConceptSet:
    return ConceptSet.from_yaml(GOOD)


def test_concepts_follow_the_file(good: ConceptSet) -> None:
    assert good.name == "cells"
    assert good.classes == ("small cell", "large cell")
    assert len(good) == 11
    assert good.names[:5] == [
        "granularity: yes",  # yes and no are words here, not booleans
        "granularity: no",
        "granule colour: red",
        "granule colour: blue",
        "granule colour: 3",
    ]
    assert good.texts[0] == "a cell with granules"
    assert good.texts[3] == "granules that are blue"  # a value without words describes itself
    assert good.texts[5:] == ["light", "dark", "a cell with spots", "halo", "1", "2.5"]
    assert good.concepts[2].part == "granules"
    assert good.concepts[8].part is None
    assert good.parts == ["granules"]


def test_groups_are_slices_of_the_bottleneck(good: ConceptSet) -> None:
    spans = [(group.name, group.kind, group.concepts.start, group.concepts.stop) for group in good.groups]
    assert spans == [
        ("granularity", "exclusive", 0, 2),
        ("granule colour", "exclusive", 2, 5),
        ("granule shade", "exclusive", 5, 7),
        ("extras", "independent", 7, 9),
        ("size", "exclusive", 9, 11),
    ]
    assert good.group_of.tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4]
    assert good.exclusive.tolist() == [True] * 7 + [False] * 2 + [True] * 2
    assert good.index("granule colour", "blue") == 3
    assert good.index("size", "false") == 10


def test_columns(good: ConceptSet) -> None:
    assert good.group("granule colour").column == "granule_colour"
    assert good.group("extras").column == "list of extras"
    assert good.group("extras").columns == ("has_spots", "halo")


def test_levels_run_from_coarse_to_fine(good: ConceptSet) -> None:
    assert good.levels == {"granularity": 0, "granule colour": 1, "granule shade": 2, "extras": 0, "size": 1}
    assert good.group("granule colour").under == ("granularity", "yes")
    assert good.group("size").under == ("granularity", None)


def test_labels_of_class(good: ConceptSet) -> None:
    n = UNKNOWN
    # The color of granules that are not there is unknown although the table names one; groups not named are unknown.
    assert good.labels_of_class("small cell").tolist() == [0, 1, n, n, n, n, n, 0, 0, n, n]
    assert good.labels_of_class("large cell").tolist() == [1, 0, 0, 1, 0, n, n, 1, 1, n, n]
    assert good.labels_of_class("another").tolist() == [n] * 11


def test_hierarchy_masks_what_has_no_meaning(good: ConceptSet) -> None:
    n = UNKNOWN
    labels = np.array(
        [
            [1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1],  # blue granules: all have a meaning
            [1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1],  # red granules: no shade of blue
            [0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1],  # no granules: neither color nor shade; the size stands under no value
            [n, n, 0, 1, 0, 1, 0, 1, 1, 0, 1],  # granules unknown: labels stay
        ],
        dtype=np.int8,
    )
    expected = labels.copy()
    expected[1, 5:7] = n
    expected[2, 2:7] = n
    before = labels.copy()
    np.testing.assert_array_equal(good.mask_hierarchy(labels), expected)
    np.testing.assert_array_equal(labels, before)


CELLS = """
groups:
  granularity: {values: [yes, no]}
  colour: {under: {granularity: yes}, otherwise: nil, values: [red, blue, nil], phrase: "it is {value}"}
  shade: {under: "colour: red", values: [dark, light], phrase: {dark: it is dark}}
  marks: {kind: independent, under: granularity, values: [dot], phrase: {dot: a dot, not dot: no dot}}
"""


def test_what_holds_decides_which_groups_apply() -> None:
    concepts = ConceptSet.from_yaml(CELLS)
    assert concepts.group("shade").under == ("colour", "red")  # the name of a concept is as good as {group: value}
    held = concepts.held([0.4, 0.3, 0.9, 0.1, 0.0, 0.2, 0.8, 0.5])
    assert held.tolist() == [True, False, True, False, False, False, True, True]
    assert concepts.applying(held).all()
    held[2:4] = False, True  # blue
    assert concepts.applying(held).tolist() == [True] * 5 + [False] * 2 + [True]
    held[[0, 2, 3]] = False, True, False  # red granules that are not there have no shade either
    assert concepts.applying(held).tolist() == [True] * 2 + [False] * 5 + [True]


def test_otherwise_keeps_labels_and_phrases_change_nothing_that_is_learned() -> None:
    concepts = ConceptSet.from_yaml(CELLS)
    labels = np.array([[0, 1, 0, 0, 1, 0, 1, 1]], dtype=np.int8)
    assert concepts.mask_hierarchy(labels).tolist() == [[0, 1, 0, 0, 1, UNKNOWN, UNKNOWN, 1]]
    assert [(each.phrase, each.absent) for each in concepts.concepts[2:]] == [
        ("it is red", None), ("it is blue", None), ("it is nil", None), ("it is dark", None), (None, None),
        ("a dot", "no dot"),
    ]  # fmt: skip
    assert ConceptSet.from_yaml(concepts.to_yaml()) == concepts
    plain = CELLS.replace(' phrase: "it is {value}"', "").replace(", phrase: {dark: it is dark}", "")
    plain = plain.replace(", phrase: {dot: a dot, not dot: no dot}", "").replace(
        "{granularity: yes}, otherwise: nil", "granularity"
    )
    assert ConceptSet.from_yaml(plain).fingerprint == concepts.fingerprint
    assert ConceptSet.from_yaml(CELLS.replace("otherwise: nil, ", "")).fingerprint != concepts.fingerprint


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("otherwise: nil", "otherwise: nul", r"`otherwise` of 'colour'.*'nul'"),
        (
            "under: {granularity: yes}, otherwise",
            "under: granularity, otherwise",
            r"`otherwise` of 'colour' needs `under`",
        ),
        ("colour: red", "colour: reed", r"`under` of 'shade'.*'reed'"),
        ("colour: red", "color: red", r"`under` of 'shade'.*'color'"),
        ("granularity: {values", "granularity: {under: {shade: dark}, values", "leads back to itself"),
        ("{dark: it", "{drak: it", r"`phrase` of 'shade'.*Did you mean 'dark'"),
        ("{dark: it", "{not dark: it", r"`phrase` of 'shade'.*'not dark'"),
        ("it is {value}", "it is so", "must contain {value}"),
    ],
)
def test_conditions_and_phrases_that_mean_nothing_are_refused(old: str, new: str, words: str) -> None:
    assert old in CELLS
    with pytest.raises(UserError, match=words):
        ConceptSet.from_yaml(CELLS.replace(old, new))


def test_written_and_read_again_it_is_the_same(good: ConceptSet) -> None:
    again = ConceptSet.from_yaml(good.to_yaml())
    assert again == good
    assert again.fingerprint == good.fingerprint
    assert ConceptSet.from_yaml(GOOD.replace("with spots", "with dots")).fingerprint != good.fingerprint


def test_unknown_names_bring_the_closest(good: ConceptSet) -> None:
    with pytest.raises(UserError, match=r"'granule color'.*Did you mean 'granule colour'"):
        good.group("granule color")
    with pytest.raises(UserError, match=r"'bleu'.*Did you mean 'blue'"):
        good.index("granule colour", "bleu")


def test_load_from_a_file_or_by_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD.replace("name: cells", ""), "utf-8")
    assert ConceptSet.load(file).name == "mine"
    assert ConceptSet.load(str(file)) == ConceptSet.load(file)
    assert ConceptSet.load("blood-cells").name == "blood-cells"
    with pytest.raises(UserError, match=r"'blod-cells'.*Did you mean 'blood-cells'"):
        ConceptSet.load("blod-cells")
    with pytest.raises(UserError, match=r"nowhere\.yaml: no such file"):
        ConceptSet.load(tmp_path / "nowhere.yaml")
    with pytest.raises(UserError, match="found a folder"):
        ConceptSet.load(tmp_path)
    file.write_bytes(b"groups: {a: {values: [\xff, b]}}")
    with pytest.raises(UserError, match="UTF-8"):
        ConceptSet.load(file)


OK = "groups: {a: {values: [x, y]}}\n"
BAD = {
    "an empty file": ("", "expected a mapping with the key `groups`, found NoneType"),
    "a list": ("[a, b]", "found list"),
    "another schema": ("schema: 2\n" + OK, "schema 2 is unknown; this version reads schema 1"),
    "no groups": ("classes: [a]", "groups: is missing"),
    "empty groups": ("groups: {}", "groups: must not be empty"),
    "groups as a list": ("groups: [a]", "groups: expected a mapping"),
    "an empty group": ("groups: {a: }", "groups → a: expected a mapping"),
    "a misspelled key": (OK + "clases: [a]", "clases: this key is not known. Did you mean 'classes'?"),
    "a misspelled group key": (
        "groups: {a: {promt: b, values: [x, y]}}",
        "a → promt: this key is not known. Did you mean 'prompt'?",
    ),
    "an unknown kind": (
        "groups: {a: {kind: exclusve, values: [x, y]}}",
        "'exclusive' or 'independent', found 'exclusve'",
    ),
    "no values": ("groups: {a: {part: b}}", "a → values: is missing"),
    "empty values": ("groups: {a: {values: []}}", "a → values: must not be empty"),
    "values as a word": ("groups: {a: {values: x}}", "a → values: expected a mapping"),
    "one exclusive value": ("groups: {a: {values: [x]}}", "the exclusive group 'a' has one value"),
    "a value twice": ("groups: {a: {values: [x, y, x]}}", "names the value 'x' twice"),
    "a number and its word": ("groups: {a: {values: {1: b, '1': c}}}", "names the value '1' twice"),
    "a list as a value": ("groups: {a: {values: [[x], y]}}", "one is ['x']"),
    "nothing as a value": ("groups: {a: {values: [null, y]}}", "one is None"),
    "a list as words": ("groups: {a: {values: {x: [b], y: c}}}", "values → x: expected a word or a text"),
    "a prompt without a place": ("groups: {a: {prompt: b, values: [x, y]}}", "prompt: must contain {value}"),
    "columns of an exclusive group": (
        "groups: {a: {values: [x, y], columns: {x: c}}}",
        "`columns` in 'a' is for independent groups",
    ),
    "a column of no value": (
        "groups: {a: {kind: independent, values: [stripes], columns: {stripe: c}}}",
        "`columns` of 'a': Unknown value 'stripe'. Did you mean 'stripes'?",
    ),
    "under two": ("groups: {a: {values: [x, y], under: {b: x, c: y}}}", "must name one group and one value"),
    "under an unknown group": (
        "groups: {size: {values: [x, y]}, b: {under: sise, values: [x, y]}}",
        "`under` of 'b': Unknown concept group 'sise'. Did you mean 'size'?",
    ),
    "under an unknown value": (
        "groups: {a: {values: [big, small]}, b: {under: {a: bigg}, values: [x, y]}}",
        "`under` of 'b': Unknown value of 'a' 'bigg'. Did you mean 'big'?",
    ),
    "under itself": ("groups: {a: {under: a, values: [x, y]}}", "'a' leads back to itself"),
    "under in a circle": (
        "groups: {a: {under: b, values: [x, y]}, b: {under: a, values: [x, y]}}",
        "leads back to itself",
    ),
    "an unknown placeless value": (
        "groups: {a: {values: [x, none], placeless: [nnoe]}}",
        "`placeless` of 'a': Unknown value 'nnoe'",
    ),
    "a class twice": ("classes: [b, b]\n" + OK, "a class is named twice"),
    "classes as a word": ("classes: b\n" + OK, "classes: expected a list, as [one, two], found 'b'"),
    "an unknown class": ("classes: [mel, nv]\nby_class: {mell: {a: x}}\n" + OK, "'mell'. Did you mean 'mel'?"),
    "an unknown group of a class": ("by_class: {mel: {aa: x}}\n" + OK, "by_class of 'mel': Unknown concept group 'aa'"),
    "an unknown value of a class": ("by_class: {mel: {a: xx}}\n" + OK, "by_class of 'mel': Unknown value of 'a' 'xx'"),
    "two values of an exclusive group": ("by_class: {mel: {a: [x, y]}}\n" + OK, "'a' is exclusive and takes one value"),
    "a group twice": ("groups: {a: {values: [x, y]}, a: {values: [x, y]}}", "the key 'a' is given twice"),
    "aliases": ("groups: {a: &a {values: [x, y]}, b: *a}", "aliases (*name) are not read"),
    "broken YAML": ("groups: {a: [", "line 1, column 14 is not valid YAML"),
    "code": ("groups: !!python/object/apply:os.system [ls]", "is not valid YAML"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_say_what_is_wrong(kind: str) -> None:
    text, message = BAD[kind]
    with pytest.raises(UserError) as caught:
        ConceptSet.from_yaml(text, where="mine.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.yaml:")


def test_the_good_part_of_the_bad_files_is_good() -> None:
    assert len(ConceptSet.from_yaml(OK)) == 2


def test_absence_has_no_place() -> None:
    told = ConceptSet.from_yaml(
        """
groups:
  granularity: {values: [yes, no]}
  vessels: {values: [None, no vessels, northern, without halo, not parallel, not visible, nil]}
  grade: {values: [0, 1], placeless: [0]}
  sign: {kind: independent, values: [none, absent], placeless: []}
"""
    )
    without = [name for name, flag in zip(told.names, told.placeless, strict=True) if flag]
    assert without == [
        "granularity: no",
        "vessels: None",
        "vessels: no vessels",
        "vessels: without halo",
        "vessels: not visible",
        "vessels: nil",
        "grade: 0",
    ]
    assert told.subset([1, 2]).placeless.tolist() == [True, True]


def test_what_is_placeless_changes_nothing_that_is_learned() -> None:
    plain = ConceptSet.from_yaml("groups: {grade: {values: [low, high]}}")
    said = ConceptSet.from_yaml("groups: {grade: {values: [low, high], placeless: [low]}}")
    assert said.fingerprint == plain.fingerprint
    assert ConceptSet.from_yaml(said.to_yaml()).placeless.tolist() == [True, False]
