"""The shapes of annotations: names, groups and notes that people gave."""

from typing import Annotated

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.runs.annotations import Kind
from conceptlens.web.schemas.runs import Answer

Thing = Annotated[str, Field(min_length=1, max_length=1000)]


class AnnotateRequest(Part):
    """What a person says of some things; null leaves a field as it is, an empty text removes it."""

    author: str = Field(min_length=1, max_length=80)
    kind: Kind
    of: Annotated[list[Thing], Field(min_length=1, max_length=100_000)]
    name: str | None = Field(default=None, max_length=200)
    group: str | None = Field(default=None, max_length=200)
    note: str | None = Field(default=None, max_length=2000)


class AnnotationPart(Part):
    """What is said of one thing by now."""

    name: str
    group: str
    note: str
    author: str
    time: str


Things = dict[str, AnnotationPart]


class AnnotationsAnswer(Answer):
    """All that is said, by kind and by the thing's own name."""

    file: str
    nodes: Things
    codes: Things
    tokens: Things
    images: Things
    run: AnnotationPart | None


class Proposal(Part):
    """A text near to what a thing stands for."""

    text: str
    similarity: float


class Proposals(Answer):
    """Names to choose from, nearest first."""

    proposals: list[Proposal]
