"""A concept set with other words, other names or fewer concepts says what it should and nothing else."""

import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.workflows.refine.edit import Replacement, drop, find, parse_replacement, replace_words

CONCEPTS = ConceptSet.from_yaml(
    """
classes: [benign, malignant]
groups:
  texture:
    prompt: "a lesion that looks {value}"
    values: {rough: rough, smooth: smooth and even}
  color: {values: [red, blue, 3]}
  signs: {kind: independent, values: [hair, ruler], columns: {hair: has_hair}}
  hair kind: {under: {signs: hair}, values: [thick, thin]}
by_class:
  benign: {texture: smooth, signs: [hair]}
  malignant: {texture: rough, signs: [hair, ruler]}
"""
)


def test_other_words_keep_their_labels() -> None:
    made = replace_words(CONCEPTS, [parse_replacement(CONCEPTS, "texture: rough=streaked = irregular")])
    assert made.renamed == {}
    assert made.concepts.names == CONCEPTS.names
    assert made.concepts.texts[0] == "a lesion that looks streaked = irregular"
    assert made.concepts.texts[1:] == CONCEPTS.texts[1:]
    assert made.concepts.labels_of_class("malignant").tolist() == CONCEPTS.labels_of_class("malignant").tolist()
    assert CONCEPTS.texts[0] == "a lesion that looks rough"
    again = ConceptSet.from_yaml(made.concepts.to_yaml())
    assert again.texts == made.concepts.texts


def test_words_of_a_list() -> None:
    made = replace_words(CONCEPTS, [Replacement(find(CONCEPTS, "blue"), "navy")])
    assert made.concepts.texts[2:5] == ["red", "navy", "3"]


def test_another_name() -> None:
    made = replace_words(CONCEPTS, [parse_replacement(CONCEPTS, "rough=streaks")], rename=True)
    assert made.concepts.names[0] == "texture: streaks"
    assert made.renamed == {"texture": {"rough": "streaks"}}
    assert made.concepts.by_class["malignant"]["texture"] == ("streaks",)
    assert made.concepts.by_class["benign"]["texture"] == ("smooth",)


def test_another_name_of_a_yes_or_no() -> None:
    hair, ruler = (
        replace_words(CONCEPTS, [Replacement(find(CONCEPTS, name), "curls")], rename=True) for name in ("hair", "ruler")
    )
    signs = hair.concepts.group("signs")
    assert signs.values == ("curls", "ruler")
    assert signs.columns == ("has_hair", "ruler")  # the table's own columns
    assert hair.concepts.group("hair kind").under == ("signs", "curls")
    assert hair.concepts.by_class["benign"]["signs"] == ("curls",)
    assert hair.renamed == {}
    assert ruler.concepts.group("signs").columns == ("has_hair", "ruler")


def test_another_name_where_phrases_and_conditions_speak_of_it() -> None:
    concepts = ConceptSet.from_yaml(
        "groups: {granules: {values: [yes, no], phrase: {yes: there are granules, no: there are none}}, "
        "colour: {under: 'granules: yes', otherwise: nil, values: [red, nil], phrase: 'it is {value}'}}"
    )
    made = replace_words(concepts, [Replacement(0, "many"), Replacement(3, "none")], rename=True).concepts
    assert made.group("colour").under == ("granules", "many")
    assert made.group("colour").otherwise == "none"
    assert [each.phrase for each in made.concepts] == [None, "there are none", "it is red", "it is none"]


def test_fewer_concepts() -> None:
    made = drop(CONCEPTS, [find(CONCEPTS, "rough")]).concepts
    assert "texture: rough" not in made.names
    assert made.group("texture").kind == "independent"
    assert ConceptSet.from_yaml(made.to_yaml()).names == made.names


def test_what_cannot_be_meant() -> None:
    with pytest.raises(UserError, match="expected OLD=NEW"):
        parse_replacement(CONCEPTS, "rough")
    with pytest.raises(UserError, match="Did you mean 'texture: rough'"):
        parse_replacement(CONCEPTS, "texture: rouhg=x")
    with pytest.raises(UserError, match="these words already"):
        parse_replacement(CONCEPTS, "smooth=smooth and even")
    with pytest.raises(UserError, match="has a value 'smooth' already"):
        replace_words(CONCEPTS, [Replacement(0, "smooth")], rename=True)
    twice = ConceptSet.from_yaml("groups: {a: {values: [x, y]}, b: {values: [x, z]}}")
    with pytest.raises(UserError, match="several groups: 'a: x', 'b: x'"):
        find(twice, "x")
