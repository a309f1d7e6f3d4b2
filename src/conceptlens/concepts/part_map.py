"""Which part of the object each concept speaks of: a committed file, nothing that is learned (PF-CBM, section 3.4).

A map names every group, or single concepts, under the part whose slot they read, or under `whole`. It may say roughly
where parts are, for data in which nobody marked any.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conceptlens.concepts.concept_set import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import parse_yaml, read_yaml
from conceptlens.core.package_files import package_text, package_yaml_names

WHOLE = -1


@dataclass(frozen=True)
class PartMap:
    """P parts, the part of each of K concepts, and rough places where the map knows them."""

    parts: tuple[str, ...]
    of: npt.NDArray[np.int64]  # (K,): a part's position, or WHOLE
    places: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)  # part → x, y, spread in sides

    def counts(self) -> dict[str, int]:
        """How many concepts read each part, and the whole."""
        counted = {part: int((self.of == place).sum()) for place, part in enumerate(self.parts)}
        return {**counted, "whole": int((self.of == WHOLE).sum())}


class _MapFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schema_: int = Field(1, alias="schema")
    about: str | None = None
    parts: dict[str, list[str]] = Field(min_length=1)
    whole: list[str] = Field(default_factory=list)
    places: dict[str, tuple[float, float, float]] = Field(default_factory=dict)


def part_maps() -> list[str]:
    """Maps that come with the package, by the name of their concept set."""
    return package_yaml_names("conceptlens.concepts", "part_maps")


def part_map(concepts: ConceptSet, name: str = "auto", *, bare_is_whole: bool = False) -> PartMap:
    """The map of a concept set.

    Args:
        concepts: Whose concepts are to be routed.
        name: A file, the name of a ready map, `concepts` for the parts that the concept file names, or `auto`: the
            ready map of the concept set's name, else `concepts`.
        bare_is_whole: Whether a concept for which the concept file names no part speaks of the whole.

    Raises:
        UserError: A concept has no part, or the map names something that does not exist.
    """
    if name == "auto":
        name = concepts.name if concepts.name in part_maps() else "concepts"
    if name == "concepts":
        return _from_concepts(concepts, bare_is_whole)
    if name in part_maps():
        text = package_text("conceptlens.concepts", "part_maps", f"{name}.yaml")
        return _from_file(parse_yaml(text, where=f"part map {name}"), concepts, f"part map {name}")
    if not Path(name).suffix and not Path(name).exists():
        raise unknown_name("part map", name, ["auto", "concepts", *part_maps()])
    return _from_file(read_yaml(Path(name)), concepts, name)


def _from_concepts(concepts: ConceptSet, bare_is_whole: bool) -> PartMap:
    parts = concepts.parts
    bare = list(dict.fromkeys(concept.group for concept in concepts.concepts if concept.part is None))
    if bare and not bare_is_whole:
        raise UserError(
            f"{concepts.name}: no part is named for {_listed(bare)}. Give each a `part` in the concept file, or write "
            "a part map (`parts: {wing: [wing colour]}`, `whole: [size]`) and name it in method.parts."
        )
    of = [WHOLE if concept.part is None else parts.index(concept.part) for concept in concepts.concepts]
    return PartMap(tuple(parts), np.array(of, dtype=np.int64))


def _from_file(raw: Any, concepts: ConceptSet, where: str) -> PartMap:
    try:
        parsed = _MapFile.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise UserError(f"{where}: {place}: {first['msg']}. A part map has `parts`, `whole` and `places`.") from None
    if parsed.schema_ != 1:
        raise UserError(f"{where}: schema {parsed.schema_} is unknown; this version reads schema 1.")
    everything = concepts.whole
    groups = {group.name: range(group.concepts.start, group.concepts.stop) for group in everything.groups}
    singles = {name: range(at, at + 1) for at, name in enumerate(everything.names)}
    owner: dict[int, str | None] = {}
    said: dict[str, str | None] = {}
    listed = [(part, name) for part, names in parsed.parts.items() for name in names]
    for part, name in [*listed, *((None, name) for name in parsed.whole)]:
        if name not in groups and name not in singles:
            raise UserError(
                f"{where}: {part or 'whole'}: {unknown_name('concept or group', name, [*groups, *singles])}"
            )
        if name in said:
            raise UserError(f"{where}: {name!r} stands under {said[name] or 'whole'!r} and under {part or 'whole'!r}.")
        said[name] = part
    for name in sorted(said, key=lambda name: name not in groups):  # groups first: a concept may differ from its group
        for at in groups[name] if name in groups else singles[name]:
            owner[at] = said[name]
    bare = list(dict.fromkeys(each.group for at, each in enumerate(everything.concepts) if at not in owner))
    if bare:
        raise UserError(f"{where}: names no part for {_listed(bare)}. List each under a part, or under `whole`.")
    for name, (x, y, spread) in parsed.places.items():
        if name not in parsed.parts:
            raise UserError(f"{where}: places: {unknown_name('part', name, parsed.parts)}")
        if not (0 <= x <= 1 and 0 <= y <= 1 and 0 < spread <= 1):
            raise UserError(f"{where}: places: {name}: expected x, y and spread in sides of the image, 0 to 1.")
    columns = range(len(everything)) if concepts.columns is None else concepts.columns
    owners = [owner[at] for at in columns]
    # A part whose concepts are all left out would be a slot that nothing reads.
    parts = tuple(part for part in parsed.parts if part in owners)
    of = np.array([WHOLE if part is None else parts.index(part) for part in owners], dtype=np.int64)
    return PartMap(parts, of, {part: place for part, place in parsed.places.items() if part in parts})


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
