"""`key.json`: what the raters must not know. It stays with whoever runs the study."""

from typing import Literal

from conceptlens.core.documents import Document, Part
from conceptlens.workflows.study.power import Power
from conceptlens.workflows.study.shuffle import Control

Kind = Literal["choice", "likert", "attention"]


class TrialKey(Part):
    """The truth about one trial."""

    id: str
    kind: Kind
    image: str  # its name in the data; trials of one image share it
    class_name: str | None
    concept: str  # "group: value" whose map is shown, or asked about
    catch: bool  # the map is shuffled
    options: list[str] = []  # noqa: RUF012 - pydantic copies it
    answer: str | None = None  # of a choice: the right one; of an attention check: the number it asks for


class Key(Document):
    """The file."""

    remedy = "Make the pack again with `conceptlens study make RUN`."

    study: str
    run: str
    data: str
    method: str
    weights: str
    split: str
    map: str  # whose maps: the method's own evidence (what speaks for a concept) or attention, or Grad-CAM
    control: Control
    seed: int
    images: int  # with true maps
    catch: int  # with shuffled ones
    power: Power
    reached: float  # power of the study as it is, for the planned difference
    trials: list[TrialKey]
