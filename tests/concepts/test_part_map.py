"""Which part each concept speaks of: the ready maps, and what cannot be meant."""

from pathlib import Path

import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.concepts.part_map import part_map, part_maps
from conceptlens.core.errors import UserError

TABLE_1 = {
    "tail": 40, "wing": 39, "back": 34, "belly": 34, "bill": 27, "crown": 26,
    "breast": 19, "forehead": 15, "leg": 15, "nape": 15, "throat": 15, "eye": 14, "whole": 19,
}  # fmt: skip
CONCEPTS = """
groups:
  wing colour: {part: wing, values: [red, blue]}
  size: {values: [small, large]}
"""


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "map.yaml"
    file.write_text(text)
    return str(file)


def test_cub_has_the_counts_of_table_1() -> None:
    assert part_map(ConceptSet.load("cub-312")).counts() == TABLE_1
    assert sum(TABLE_1.values()) == 312


def test_examples_of_table_1() -> None:
    concepts, found = ConceptSet.load("cub-312"), part_map(ConceptSet.load("cub-312"))
    for group, part in (
        ("bill shape", "bill"),
        ("wing colour", "wing"),
        ("belly pattern", "belly"),
        ("eye colour", "eye"),
    ):
        assert {found.parts[place] for place in found.of[concepts.group(group).concepts]} == {part}
    assert set(found.of[concepts.group("size").concepts]) == {-1}


def test_the_112_are_routed_as_the_312() -> None:
    small, large = ConceptSet.load("cub-112"), ConceptSet.load("cub-312")
    few, all_ = part_map(small), part_map(large)
    assert few.parts == all_.parts
    place = dict(zip(large.names, all_.of.tolist(), strict=True))
    assert few.of.tolist() == [place[name] for name in small.names]


def test_every_ready_map_fits_its_concepts() -> None:
    for name in part_maps():
        concepts = ConceptSet.load(name)
        found = part_map(concepts)
        assert len(found.of) == len(concepts)
        assert set(found.of.tolist()) - {-1} == set(range(len(found.parts)))
        for concept, place in zip(concepts.concepts, found.of.tolist(), strict=True):
            if place >= 0 and concept.part:
                assert found.parts[place] == concept.part
    assert set(part_map(ConceptSet.load("blood-cells")).parts) == {"cell", "nucleus", "cytoplasm", "granules"}


def test_concepts_that_were_left_out_leave_no_empty_part() -> None:
    concepts = ConceptSet.load("shapes")
    some = concepts.subset([at for at, each in enumerate(concepts.concepts) if each.part != "antennae"])
    found = part_map(some)
    assert "antennae" not in found.parts
    assert len(found.of) == len(some)


def test_a_single_concept_may_differ_from_its_group(tmp_path: Path) -> None:
    concepts = ConceptSet.from_yaml(CONCEPTS)
    file = write(tmp_path, "parts: {wing: [wing colour, 'size: large']}\nwhole: [size]")
    assert part_map(concepts, file).of.tolist() == [0, 0, -1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: {wing: [wing colour]}", "names no part for 'size'. List each under a part, or under `whole`"),
        ("parts: {wing: [wing color, size]}", "Unknown concept or group 'wing color'. Did you mean 'wing colour'"),
        ("parts: {wing: [wing colour], tail: [wing colour]}\nwhole: [size]", "stands under 'wing' and under 'tail'"),
        (
            "parts: {wing: [wing colour]}\nwhole: [size]\nplaces: {wng: [0.5, 0.5, 0.1]}",
            "places: Unknown part 'wng'. Did you mean 'wing'",
        ),
        ("parts: {wing: [wing colour]}\nwhole: [size]\nplaces: {wing: [5, 0.5, 0.1]}", "expected x, y and spread"),
        ("part: {wing: [wing colour]}", "A part map has `parts`"),
    ],
)
def test_what_cannot_be_meant(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(").replace("`", ".")):
        part_map(ConceptSet.from_yaml(CONCEPTS), write(tmp_path, text))


def test_a_concept_without_a_part() -> None:
    with pytest.raises(UserError, match=r"no part is named for 'size'\. Give each a `part`"):
        part_map(ConceptSet.from_yaml(CONCEPTS))
    with pytest.raises(UserError, match="Unknown part map 'cub'"):
        part_map(ConceptSet.from_yaml(CONCEPTS), "cub")
