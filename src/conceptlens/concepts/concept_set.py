"""The vocabulary of a model: groups of concepts a person can name, read from a YAML file written by hand.

A group is *exclusive* (exactly one of its values holds, as in "nucleus shape") or *independent* (each value is a yes/no
of its own, as in CUB's attributes). Groups may stand *under* a coarser one, which makes a coarse-to-fine hierarchy, or
under one of its values: "granule colour" says something of a cell with granules only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import dump_yaml, fingerprint, parse_yaml, read_yaml
from conceptlens.core.package_files import package_text, package_yaml_names
from conceptlens.core.validation import Place, explain_invalid

Kind = Literal["exclusive", "independent"]
_NONE: dict[str, Any] = {"name": "none", "groups": {}}  # the file of a run without concepts
UNKNOWN = -1  # a concept label nobody gave: masked in losses and metrics, never guessed
# Values that say that something is not there, unless a group's `placeless` says which do.
ABSENT = ("no", "none", "nil", "absent", "without")  # the value, or its first word
ABSENT_VALUES = ("false", "not present", "not visible", "unknown")


@dataclass(frozen=True)
class Concept:
    """One column of the bottleneck."""

    name: str  # "nucleus shape: irregular"
    group: str
    value: str
    text: str  # what the text encoder reads
    part: str | None = None
    phrase: str | None = None  # what a sentence says where it holds, as "the chromatin is dense"; no model reads it
    absent: str | None = None  # what a sentence says where a yes/no concept does not hold
    placeless: bool = False  # says that something is not there, which cannot be pointed at: it has no map


@dataclass(frozen=True)
class Group:
    """Concepts that belong together; `concepts` is their slice of the bottleneck."""

    name: str
    kind: Kind
    concepts: slice
    values: tuple[str, ...]
    column: str  # where a table has the group: one value, or for an independent group a list of those that hold
    columns: tuple[str, ...]  # independent groups: a yes/no column for each value, where there is no such list
    part: str | None
    under: tuple[str, str | None] | None  # (coarser group, the value of it under which this group has a meaning)
    otherwise: str | None = None  # the value that tables give where it has no meaning; its labels are then kept


class _GroupFile(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    kind: Kind = "exclusive"
    column: str | None = None
    part: str | None = None
    prompt: str = "{value}"
    under: str | dict[str, str] | None = None
    otherwise: str | None = None
    phrase: str | dict[str, str] | None = None
    values: dict[str, str] = Field(min_length=1)
    columns: dict[str, str] = Field(default_factory=dict)
    placeless: list[str] | None = None

    @field_validator("values", mode="before")
    @classmethod
    def _values(cls, values: Any) -> Any:
        """A list of values, or a mapping from a value to its words; a value without words describes itself."""
        if isinstance(values, list):
            pairs = [(_word(value), None) for value in values]
        elif isinstance(values, Mapping):
            pairs = [(_word(value), text) for value, text in values.items()]
        else:
            return values
        names = [name for name, _ in pairs]
        for name in names:
            if not isinstance(name, str):
                raise ValueError(f"must name values by a word each, but one is {name!r}")
            if names.count(name) > 1:
                raise ValueError(f"names the value {name!r} twice")
        return {name: name if text is None else text for name, text in pairs}

    @field_validator("placeless", mode="before")
    @classmethod
    def _placeless(cls, values: Any) -> Any:
        return [_word(value) for value in values] if isinstance(values, list) else values

    @field_validator("prompt")
    @classmethod
    def _prompt(cls, prompt: str) -> str:
        if "{value}" not in prompt:
            raise ValueError("must contain {value}, the place where a value's words go")
        return prompt

    @field_validator("phrase")
    @classmethod
    def _phrase(cls, phrase: Any) -> Any:
        if isinstance(phrase, str) and "{value}" not in phrase:
            raise ValueError("must contain {value}, or be a mapping from each value to its phrase")
        return phrase

    def phrases(self, value: str) -> tuple[str | None, str | None]:
        """What a sentence says where a value holds, and where it does not."""
        if isinstance(self.phrase, str):
            return self.phrase.replace("{value}", value), None
        return (None, None) if self.phrase is None else (self.phrase.get(value), self.phrase.get(f"not {value}"))

    def has_no_place(self, value: str) -> bool:
        """Whether a value says that something is not there."""
        if self.placeless is not None:
            return value in self.placeless
        return value.lower().partition(" ")[0] in ABSENT or value.lower() in ABSENT_VALUES


class _ConceptFile(BaseModel):
    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)
    schema_: int = Field(1, alias="schema")
    name: str | None = None
    about: str | None = None
    classes: list[str] = Field(default_factory=list)
    groups: dict[str, _GroupFile] = Field(min_length=1)
    by_class: dict[str, dict[str, str | list[str]]] = Field(default_factory=dict)
    left_out: dict[str, list[str]] = Field(default_factory=dict)

    @field_validator("left_out", mode="before")
    @classmethod
    def _left_out(cls, groups: Any) -> Any:
        if not isinstance(groups, Mapping):
            return groups
        return {
            name: [_word(value) for value in values] if isinstance(values, list) else values
            for name, values in groups.items()
        }


def _word(value: Any) -> Any:
    """YAML reads true, false and numbers as such; as a concept's value they are words."""
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else value


@dataclass(frozen=True)
class ConceptSet:
    """K concepts in groups, the classes they may decide between, and labels by class where there are none per image.

    >>> import conceptlens as cl
    >>> fruit = cl.ConceptSet.from_yaml("groups: {color: {values: [red, green]}, size: {values: [small, big]}}")
    >>> fruit.names
    ['color: red', 'color: green', 'size: small', 'size: big']
    """

    name: str
    classes: tuple[str, ...]
    groups: tuple[Group, ...]
    concepts: tuple[Concept, ...]
    by_class: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    columns: tuple[int, ...] | None = None  # positions in `chosen_from`, where some of the file's concepts are left out
    chosen_from: "ConceptSet | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def none(cls) -> "ConceptSet":
        """No concepts: what a black box is trained with where there are none yet."""
        return cls("none", (), (), (), source=_NONE)

    def __len__(self) -> int:
        return len(self.concepts)

    @property
    def texts(self) -> list[str]:
        """What a text encoder reads of each concept."""
        return [concept.text for concept in self.concepts]

    @property
    def names(self) -> list[str]:
        """Of each concept, as `group: value`."""
        return [concept.name for concept in self.concepts]

    @cached_property
    def group_of(self) -> npt.NDArray[np.int64]:
        """The group's position for each concept, (K,)."""
        index = np.empty(len(self), dtype=np.int64)
        for position, group in enumerate(self.groups):
            index[group.concepts] = position
        return index

    @cached_property
    def exclusive(self) -> npt.NDArray[np.bool_]:
        """Whether each concept belongs to an exclusive group, (K,)."""
        return np.array([self.groups[position].kind == "exclusive" for position in self.group_of], dtype=bool)

    @cached_property
    def placeless(self) -> npt.NDArray[np.bool_]:
        """Whether each concept says that something is not there, (K,): absence cannot be pointed at, and has no map."""
        return np.array([concept.placeless for concept in self.concepts], dtype=bool)

    @property
    def parts(self) -> list[str]:
        """Of the object that concepts speak of, each once."""
        return list(dict.fromkeys(concept.part for concept in self.concepts if concept.part))

    def group(self, name: str) -> Group:
        """The group of that name."""
        for group in self.groups:
            if group.name == name:
                return group
        raise unknown_name("concept group", name, [group.name for group in self.groups])

    def index(self, group: str, value: str) -> int:
        """The concept's column in the bottleneck."""
        found = self.group(group)
        if value not in found.values:
            raise unknown_name(f"value of {group!r}", value, found.values)
        return int(found.concepts.start) + found.values.index(value)

    @cached_property
    def levels(self) -> dict[str, int]:
        """Coarse to fine: 0 for a group that stands under no other."""
        depth: dict[str, int] = {}
        for group in self.groups:
            level, above = 0, group.under
            while above is not None:
                level, above = level + 1, self.group(above[0]).under
            depth[group.name] = level
        return depth

    def labels_of_class(self, name: str) -> npt.NDArray[np.int8]:
        """Concept labels (K,) that the class table gives: 1, 0, or UNKNOWN for groups it does not name."""
        if self.columns is not None:
            return self.whole.labels_of_class(name)[list(self.columns)]
        labels = np.full(len(self), UNKNOWN, dtype=np.int8)
        for group_name, values in self.by_class.get(name, {}).items():
            labels[self.group(group_name).concepts] = 0
            for value in values:
                labels[self.index(group_name, value)] = 1
        return np.asarray(self.mask_hierarchy(labels[None])[0])

    def held(self, probabilities: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """What probabilities (K,) say: the likeliest value of an exclusive group, else each from one half on."""
        shares = np.asarray(probabilities)
        held = shares >= 0.5
        for group in self.groups:
            if group.kind == "exclusive":
                held[group.concepts] = False
                held[group.concepts.start + int(shares[group.concepts].argmax())] = True
        return held

    def applying(self, held: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whether each concept (K,) belongs to a group that has a meaning where `held` (K,) holds."""
        applies = np.ones(len(self), dtype=bool)
        for group in sorted(self.groups, key=lambda group: self.levels[group.name]):
            if group.under is not None:
                above, value = group.under
                holds = value is None or held[self.index(above, value)]
                applies[group.concepts] = holds and applies[self.group(above).concepts.start]
        return applies

    def mask_hierarchy(self, labels: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
        """Make a group's labels (N, K) unknown where the coarser value it stands under is known not to hold."""
        masked = labels.copy()
        void: dict[str, npt.NDArray[np.bool_]] = {}
        for group in sorted(self.groups, key=lambda group: self.levels[group.name]):
            if group.under is not None:
                above, value = group.under
                # What stands under a group without a meaning has none either, though that group is unknown by now.
                empty = void.get(above, np.zeros(len(labels), dtype=bool))
                if value is not None and group.otherwise is None:
                    empty = empty | (masked[:, self.index(above, value)] == 0)
                masked[empty, group.concepts] = UNKNOWN
                void[group.name] = empty
        return masked

    @property
    def whole(self) -> "ConceptSet":
        """All concepts of the file: what tables of labels speak of, whichever of them a model uses."""
        return self.chosen_from or self

    def subset(self, keep: Sequence[int]) -> "ConceptSet":
        """Some of these concepts, by position; the file stays as it is but for `left_out`, so labels can still be read.

        An exclusive group that loses a value becomes independent: what is left no longer covers every image.
        """
        own = range(len(self)) if self.columns is None else self.columns
        whole, columns = self.whole, sorted({own[position] for position in keep})
        if not columns:
            raise UserError(f"{self.name}: every concept would be left out; a model needs one or more.")
        if len(columns) == len(whole):
            return whole
        groups: list[Group] = []
        left_out: dict[str, list[str]] = {}
        start = 0
        for group in whole.groups:
            kept = [at for at in range(len(group.values)) if group.concepts.start + at in columns]
            if len(kept) < len(group.values):
                left_out[group.name] = [value for at, value in enumerate(group.values) if at not in kept]
            if kept:
                values, yes_no = (tuple(part[at] for at in kept) for part in (group.values, group.columns))
                kind = "independent" if group.name in left_out else group.kind
                span = slice(start, start + len(kept))
                groups.append(replace(group, kind=kind, concepts=span, values=values, columns=yes_no))
                start += len(kept)
        left = {group.name: (None, *group.values) for group in groups}
        return replace(
            whole,
            # Labels are masked by the whole hierarchy when they are read; what stood under a lost value stands alone.
            groups=tuple(
                replace(group, under=None)
                if group.under and group.under[1] not in left.get(group.under[0], ())
                else group
                for group in groups
            ),
            concepts=tuple(whole.concepts[column] for column in columns),
            by_class={
                name: {
                    group: tuple(value for value in values if value in left[group])
                    for group, values in table.items()
                    if group in left
                }
                for name, table in whole.by_class.items()
            },
            source={**whole.source, "left_out": left_out},
            columns=tuple(columns),
            chosen_from=whole,
        )

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a model learns from: phrases and `placeless` are for people, `otherwise` keeps labels."""
        learned = dict(self.source)
        if "groups" in learned:
            learned["groups"] = {name: _learned(group) for name, group in learned["groups"].items()}
        return fingerprint(dump_yaml(learned))

    @cached_property
    def _yaml(self) -> str:
        return dump_yaml(dict(self.source))

    def to_yaml(self) -> str:
        """The concept file."""
        return self._yaml

    @classmethod
    def from_yaml(cls, text: str, *, where: str = "concept file", name: str = "concepts") -> "ConceptSet":
        """Read the text of a concept file."""
        return cls._build(parse_yaml(text, where=where), where=where, name=name)

    @classmethod
    def load(cls, path: str | Path) -> "ConceptSet":
        """A concept set from a file, or one of the ready ones by name (see `library()`)."""
        if str(path) in library():
            text = package_text("conceptlens.concepts", "library", f"{path}.yaml")
            return cls.from_yaml(text, where=f"concept set {path}", name=str(path))
        file = Path(path)
        if not file.suffix and not file.exists():
            raise unknown_name("concept set", str(path), library())
        return cls._build(read_yaml(file), where=str(file), name=file.stem)

    @classmethod
    def _build(cls, raw: Any, *, where: str, name: str) -> "ConceptSet":
        if not isinstance(raw, Mapping):
            raise UserError(f"{where}: expected a mapping with the key `groups`, found {type(raw).__name__}.")
        if raw.get("schema", 1) != 1:
            raise UserError(f"{where}: schema {raw['schema']!r} is unknown; this version reads schema 1.")
        if raw == _NONE:
            return cls.none()
        try:
            parsed = _ConceptFile.model_validate(raw)
        except ValidationError as error:
            raise UserError(f"{where}: {explain_invalid(error, _model_at, _PLAIN)}") from None
        concepts: list[Concept] = []
        groups: list[Group] = []
        for group_name, group in parsed.groups.items():
            start = len(concepts)
            for value, words in group.values.items():
                text = group.prompt.replace("{value}", words)
                name_, said = f"{group_name}: {value}", group.phrases(value)
                concepts.append(Concept(name_, group_name, value, text, group.part, *said, group.has_no_place(value)))
            if group.kind == "exclusive" and len(group.values) < 2:
                raise UserError(
                    f"{where}: the exclusive group {group_name!r} has one value; "
                    "give it the others or make it `kind: independent`."
                )
            if group.columns and group.kind == "exclusive":
                raise UserError(
                    f"{where}: `columns` in {group_name!r} is for independent groups; an exclusive one has a `column`."
                )
            for value in group.columns:
                if value not in group.values:
                    problem = unknown_name("value", value, group.values)
                    raise UserError(f"{where}: `columns` of {group_name!r}: {problem}")
            for value in group.placeless or ():
                if value not in group.values:
                    problem = unknown_name("value", value, group.values)
                    raise UserError(f"{where}: `placeless` of {group_name!r}: {problem}")
            if isinstance(group.phrase, dict):
                absent = [f"not {value}" for value in group.values] if group.kind == "independent" else []
                for value in group.phrase:
                    if value not in (*group.values, *absent):
                        problem = unknown_name("value", value, [*group.values, *absent])
                        raise UserError(f"{where}: `phrase` of {group_name!r}: {problem}")
            above = _condition(group.under, parsed.groups)
            if group.otherwise is not None:
                if group.otherwise not in group.values:
                    problem = unknown_name("value", group.otherwise, group.values)
                    raise UserError(f"{where}: `otherwise` of {group_name!r}: {problem}")
                if not isinstance(above, dict):
                    raise UserError(
                        f"{where}: `otherwise` of {group_name!r} needs `under` with a value, as {{granularity: yes}}."
                    )
            if isinstance(above, dict) and len(above) != 1:
                raise UserError(
                    f"{where}: `under` of {group_name!r} must name one group and one value, as {{granularity: yes}}."
                )
            under = next(iter(above.items())) if isinstance(above, dict) else (above, None) if above else None
            column = group.column or group_name.replace(" ", "_")
            columns = tuple(group.columns.get(value, value) for value in group.values)
            span = slice(start, len(concepts))
            values = tuple(group.values)
            groups.append(
                Group(group_name, group.kind, span, values, column, columns, group.part, under, group.otherwise)
            )
        by_class = {
            class_name: {
                group_name: (value,) if isinstance(value, str) else tuple(value) for group_name, value in table.items()
            }
            for class_name, table in parsed.by_class.items()
        }
        source = {key: value for key, value in raw.items() if key != "left_out"}
        built = cls(parsed.name or name, tuple(parsed.classes), tuple(groups), tuple(concepts), by_class, source)
        built._check(where)
        try:
            gone = {built.index(group, value) for group, values in parsed.left_out.items() for value in values}
            return built.subset([position for position in range(len(built)) if position not in gone]) if gone else built
        except UserError as error:
            raise UserError(f"{where}: left_out: {error}") from None

    def _check(self, where: str) -> None:
        if len(set(self.classes)) != len(self.classes):
            raise UserError(f"{where}: a class is named twice: {sorted(self.classes)}.")
        for group in self.groups:
            seen, above = {group.name}, group.under
            while above is not None:
                try:
                    parent = self.group(above[0])
                    if above[1] is not None:
                        self.index(above[0], above[1])
                except UserError as error:
                    raise UserError(f"{where}: `under` of {group.name!r}: {error}") from None
                if parent.name in seen:
                    raise UserError(f"{where}: `under` of {group.name!r} leads back to itself through {parent.name!r}.")
                seen.add(parent.name)
                above = parent.under
        for class_name, table in self.by_class.items():
            if self.classes and class_name not in self.classes:
                raise UserError(f"{where}: by_class names {unknown_name('class', class_name, self.classes)}")
            for group_name, values in table.items():
                try:
                    kind = self.group(group_name).kind
                    for value in values:
                        self.index(group_name, value)
                except UserError as error:
                    raise UserError(f"{where}: by_class of {class_name!r}: {error}") from None
                if kind == "exclusive" and len(values) != 1:
                    raise UserError(
                        f"{where}: by_class of {class_name!r}: {group_name!r} is exclusive and takes one value, "
                        f"found {list(values)}."
                    )


_PLAIN = {  # pydantic's kinds of error, for people who do not write Python
    "dict_type": "expected a mapping, as {name: …}",
    "model_type": "expected a mapping, as {values: …}",
    "list_type": "expected a list, as [one, two]",
    "string_type": "expected a word or a text",
    "missing": "is missing",
    "too_short": "must not be empty",
}


def _condition(under: str | dict[str, str] | None, groups: Mapping[str, Any]) -> str | dict[str, str] | None:
    """`under` as it is written: a group, {group: value}, or the name of a concept, "group: value"."""
    if isinstance(under, str) and under not in groups and ": " in under:
        group, _, value = under.partition(": ")
        return {group: value}
    return under


def _learned(group: Any) -> Any:
    """A group's source without what no model learns from."""
    if not isinstance(group, Mapping) or not {"phrase", "otherwise", "placeless"} & group.keys():
        return group
    kept = {key: value for key, value in group.items() if key not in ("phrase", "otherwise", "placeless")}
    if "otherwise" in group:  # labels are as under the group without a value
        under = _condition(group["under"], {})
        kept["under"] = next(iter(under)) if isinstance(under, dict) else under
    return kept


def _model_at(place: Place) -> type[BaseModel]:
    return _GroupFile if len(place) > 1 else _ConceptFile


def library() -> list[str]:
    """Names of the concept sets that come with the package."""
    return package_yaml_names("conceptlens.concepts", "library")
