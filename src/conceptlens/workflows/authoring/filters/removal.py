"""Why something should not be a concept: one of a few codes, and a sentence that says what gave it away."""

from typing import Literal

from pydantic import Field

from conceptlens.core.documents import Part

Code = Literal[
    "names a class",
    "says nothing to look for",
    "not visible",
    "too long",
    "second model objects",
    "repeats another",
    "tells no classes apart",
]


class Removal(Part):
    """One removal."""

    concept: str  # "group: value"
    text: str
    code: Code
    reason: str
    classes: list[str] = Field(default_factory=list)  # those that were said to show it
    merged_into: str | None = None  # the concept that speaks for them now
    overruled: bool = False  # kept all the same, because the user said so
