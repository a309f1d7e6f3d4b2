"""The comparison file: which recipes, on which data, with which seeds and trials (docs/compare.md)."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_yaml
from conceptlens.core.upgrades import SCHEMA, upgrade
from conceptlens.core.validation import Place, explain_invalid
from conceptlens.recipes.paths import beside_recipe

Supervision = Literal["text", "class-table", "image-labels", "class-labels"]
SUPERVISIONS: tuple[str, ...] = get_args(Supervision)
PRIMARY = "class.balanced_accuracy"
_NAME = re.compile(r"[^\W_][\w .+()-]{0,60}")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class EntryFile(_Part):
    """One row of the table.

    Attributes:
        recipe: A recipe file (beside this one, or from where the command runs), or the name of a ready one.
        changes: `set` in the file: settings laid over it, nested or dotted.
        supervision: What told the method about concepts; the method's own word if not given.
        trials: Dotted key → values to try on validation.
        random_text: Whether to add a row with random text vectors; for methods that read texts if not given.
    """

    recipe: str | None = None
    changes: dict[str, Any] = Field(default_factory=dict, alias="set")
    supervision: Supervision | None = None
    trials: dict[str, list[Any]] | None = None
    random_text: bool | None = None


class TrialsFile(_Part):
    """How settings are tuned: the same number of trials for every method.

    Attributes:
        number: Trials a method; drawn from its grid where the grid holds more. All of the grid if not given.
        grid: Dotted key → values, for entries without their own.
        seed: Training seed of the trials; the first of the seeds if not given.
    """

    number: int | None = Field(default=None, ge=1, le=1000)
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    seed: int | None = Field(default=None, ge=0)


class FoldsFile(_Part):
    """Repeated cross-validation: k folds of whole units, drawn anew in each repeat."""

    k: int = Field(default=5, ge=2, le=100)
    repeats: int = Field(default=1, ge=1, le=100)


class StatisticsFile(_Part):
    """How differences are judged.

    Attributes:
        primary: The measure whose verdict stands in the table.
        resamples: Of the bootstrap.
        permutations: Of the test.
        confidence: Of the intervals.
        alpha: Level of the tests, after Holm's correction.
        power: Of the smallest detectable difference.
    """

    primary: str = PRIMARY
    resamples: int = Field(default=1000, ge=20, le=100_000)
    permutations: int = Field(default=10_000, ge=20, le=1_000_000)
    confidence: float = Field(default=0.95, gt=0, lt=1)
    alpha: float = Field(default=0.05, gt=0, lt=1)
    power: float = Field(default=0.8, gt=0, lt=1)


class ComparisonFile(_Part):
    """Everything a comparison is made from.

    Attributes:
        base: A recipe, or the settings themselves, that lie beneath every entry.
        recipes: Name of the row → entry; just a recipe's name, or settings over the base.
        data: Name → a recipe's `data` section, besides `concepts` and `set` for settings on these data only.
        seeds: Training seeds.
    """

    schema_: int = Field(default=SCHEMA, alias="schema")
    name: str | None = None
    base: str | dict[str, Any] = Field(default_factory=dict)
    recipes: dict[str, EntryFile] = Field(min_length=1)
    data: dict[str, dict[str, Any]] = Field(min_length=1)
    seeds: list[int] = Field(default=[0, 1, 2], min_length=1)
    trials: TrialsFile | None = None
    folds: FoldsFile | None = None
    statistics: StatisticsFile = StatisticsFile()
    out: str | None = None

    @field_validator("recipes", mode="before")
    @classmethod
    def _entries(cls, entries: Any) -> Any:
        """A word is a recipe's name; nothing is the base as it is."""
        if not isinstance(entries, Mapping):
            return entries
        return {
            str(name): {"recipe": entry} if isinstance(entry, str) else {} if entry is None else entry
            for name, entry in entries.items()
        }

    @field_validator("data", mode="before")
    @classmethod
    def _sources(cls, sets: Any) -> Any:
        if not isinstance(sets, Mapping):
            return sets
        return {str(name): {"source": each} if isinstance(each, str) else each for name, each in sets.items()}

    @field_validator("seeds")
    @classmethod
    def _seeds(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) != len(seeds) or min(seeds) < 0:
            raise ValueError(f"must be different whole numbers from 0, but are {seeds}")
        return seeds


def found_beside(raw: Any, folder: Path) -> Any:
    """The same comparison, in which files of its data (and of `base`) that lie beside it have their full paths."""
    if not isinstance(raw, Mapping):
        return raw
    whole, moved = folder.resolve(), dict(raw)
    if isinstance(base := raw.get("base"), Mapping):
        moved["base"] = beside_recipe(base, whole)
    if isinstance(sets := raw.get("data"), Mapping):
        moved["data"] = {name: _found_beside(section, whole) for name, section in sets.items()}
    return moved


def _found_beside(section: Any, folder: Path) -> Any:
    if not isinstance(section, Mapping):
        return beside_recipe({"data": section}, folder)["data"]
    named = {"concepts": section["concepts"]} if "concepts" in section else {}
    moved = beside_recipe({"data": section, **named}, folder)
    return {**moved.pop("data"), **moved}


def read_comparison(path: str | Path) -> ComparisonFile:
    """Read and check a comparison file.

    Raises:
        UserError: It is not one; says what was expected where.
    """
    file = Path(path)
    raw = found_beside(read_yaml(file), file.parent)
    if not isinstance(raw, dict):
        raise UserError(
            f"{file}: expected a mapping with the keys `recipes` and `data`, found {type(raw).__name__}. "
            "See docs/compare.md for an example."
        )
    raw = upgrade(raw, where=str(file))
    try:
        parsed = ComparisonFile.model_validate(raw)
    except ValidationError as error:
        raise UserError(f"{file}: {explain_invalid(error, _model_at, _PLAIN)}") from None
    for kind, names in (("recipes", parsed.recipes), ("data", parsed.data)):
        for name in names:
            if not _NAME.fullmatch(name):
                raise UserError(f"{file}: {kind}: {name!r} cannot name a row; use letters, digits, spaces and .+-().")
        slugs = [slug(name) for name in names]
        twice = [name for name, short in zip(names, slugs, strict=True) if slugs.count(short) > 1]
        if twice:
            raise UserError(f"{file}: {kind}: {' and '.join(map(repr, twice))} are too alike; rename one of them.")
    for name, section in parsed.data.items():
        if not isinstance(section.get("source"), str):
            raise UserError(f"{file}: data: {name!r} needs a `source`, as {{source: blood-cells}}.")
    return parsed


def slug(name: str) -> str:
    """A name as part of a folder's name."""
    return re.sub(r"[^\w.+]+", "-", name.lower()).strip("-")


_PARTS: dict[str, type[BaseModel]] = {
    "recipes": EntryFile,
    "trials": TrialsFile,
    "folds": FoldsFile,
    "statistics": StatisticsFile,
}
_PLAIN = {"missing": "is missing. A comparison needs `recipes` and `data`; see docs/compare.md"}


def _model_at(place: Place) -> type[BaseModel]:
    return ComparisonFile if len(place) == 1 else _PARTS.get(str(place[0]), ComparisonFile)
