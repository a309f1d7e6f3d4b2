"""The shapes of concepts and codes."""

from typing import Literal

from conceptlens.core.documents import Part
from conceptlens.web.schemas.image import ImageName
from conceptlens.web.schemas.runs import Answer, Split


class Flag(Part):
    """Something to look at."""

    name: str
    why: str


class PatchRef(ImageName):
    """A patch of an image."""

    cell: int
    value: float


class ImageRef(ImageName):
    """An image and how sure the model is of the concept in it."""

    probability: float


class Projection(Part):
    """What places on the map are made of."""

    of: Literal["texts", "class weights", "codes"] | None
    explained: list[float]


class Quality(Part):
    """How well a group is read."""

    balanced_accuracy: float | None
    auc: float | None
    auc_within_class: float | None
    ece: float | None


class ConceptEntry(Part):
    """One concept over all images."""

    index: int
    name: str
    group: str
    value: str
    kind: Literal["exclusive", "independent"]
    part: str | None
    text: str
    slot: int | None
    labeled: int | None
    positive: float | None
    mean_probability: float | None
    auc: float | None
    group_quality: Quality | None
    weights: list[float] | None
    influence: float | None
    by_class: list[float | None] | None
    flags: list[Flag]
    place: tuple[float, float, float] | None
    patches: list[PatchRef]
    images: list[ImageRef]


class Concepts(Answer):
    """All concepts; not `complete` where images were not looked at yet, so that patches are missing."""

    complete: bool
    split: Split | None
    images: int
    grid: tuple[int, int] | None
    why: str | None
    map: Projection
    classes: list[str]
    concepts: list[ConceptEntry]


class NearCode(Part):
    """Another code."""

    code: int
    similarity: float


class CodeEntry(Part):
    """One code over the sampled images."""

    code: int
    name: str
    level: Literal["concept", "group"] | None
    confidence: float | None
    chance: float | None
    color: str
    count: int | None
    use: float | None
    by_class: list[float] | None
    flags: list[Flag]
    place: tuple[float, float, float]
    nearest: list[NearCode]
    patches: list[PatchRef]


class Codebook(Answer):
    """All codes. Before a sample of images was read, `complete` is false, and use and patches are missing."""

    complete: bool
    split: Split | None
    images: int
    grid: tuple[int, int] | None
    patches: int
    perplexity: float | None
    why: str | None
    map: Projection
    classes: list[str]
    codes: list[CodeEntry]
