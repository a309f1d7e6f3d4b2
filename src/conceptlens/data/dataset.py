"""What a data source hands to the rest of the house: a table of labels in memory, pixels only when asked for."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.concepts import UNKNOWN
from conceptlens.core.files import fingerprint
from conceptlens.data.images.read import Fit, resize_square
from conceptlens.data.images.window import Window

Task = Literal["single", "multilabel", "ordinal"]
SPLITS = ("train", "val", "test")
UNLABELED = -1  # a class label nobody gave


@dataclass(frozen=True)
class Examples:
    """Everything known of N images but their pixels."""

    ids: tuple[str, ...]  # unique, stable: a path relative to the source, or a row's name
    labels: npt.NDArray[np.int64]  # (N,) class index or UNLABELED; multi-label: (N, C) of 0, 1, UNKNOWN
    concepts: npt.NDArray[np.int8]  # (N, K) of 0, 1, UNKNOWN
    split: tuple[str, ...] | None = None  # given splits: "train", "val", "test" or "" for unused
    group: tuple[str, ...] | None = None  # a patient or a lesion: never on two sides of a split
    certainty: npt.NDArray[np.float32] | None = None  # (N, K) weight of each concept label in the loss, 0 to 1
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # age band, sex, site, …
    whole: str | None = None  # fingerprint with the labels of all concepts, where those of some were left out

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def fingerprint(self) -> str:
        """A hash of everything here but the metadata: what a run was trained on, pixels aside.

        It is that of the data with all their concepts, whichever of them are in use.
        """
        if self.whole is not None:
            return self.whole
        words = ["\n".join(part) if part else "" for part in (self.ids, self.split, self.group)]
        certainty = b"" if self.certainty is None else self.certainty.tobytes()
        return fingerprint(*words, self.labels.tobytes(), self.concepts.tobytes(), certainty)

    def with_concepts(self, columns: Sequence[int]) -> "Examples":
        """The same images with the labels of some concepts only."""
        certainty = None if self.certainty is None else self.certainty[:, list(columns)]
        return replace(self, concepts=self.concepts[:, list(columns)], certainty=certainty, whole=self.fingerprint)


@dataclass(frozen=True)
class Annotation:
    """Where things are in one image, in pixels of the image that `read` returns."""

    keypoints: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # part → (x, y); absent: not visible
    masks: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)  # part or "object" → (H, W)
    boxes: Mapping[str, tuple[float, float, float, float]] = field(
        default_factory=dict
    )  # part or "object" → x0, y0, x1, y1
    size: tuple[int, int] | None = None  # width and height of that image, where the source knows it without reading


class Places(Protocol):
    """Known truth about places in the images of a source, beside its labels (see `region_files`)."""

    names: tuple[str, ...]  # every part that is known in some image

    def annotation(self, index: int) -> Annotation | None: ...


class DataSource(ABC):
    """Images with labels. Subclasses read one format each; pixels are read lazily, one image at a time."""

    name: str
    classes: tuple[str, ...]
    task: Task
    examples: Examples
    window: Window = "file"  # which values of deep gray become black and white
    blocks: npt.NDArray[np.int64] | None = None  # where pieces begin that are cheap to read together, if any are
    places: Places | None = None  # where things are, if a recipe's `data.regions` says so

    @abstractmethod
    def read(self, index: int) -> Image.Image:
        """The image as RGB, upright; raises `UserError` naming the file if it cannot be read."""

    def read_at_least(self, index: int, side: int) -> Image.Image:
        """The image as `read` gives it, or smaller where that decodes faster, but not below `side` pixels a side."""
        return self.read(index)

    def read_square(self, index: int, side: int, fit: Fit) -> npt.NDArray[np.uint8]:
        """The image as an encoder gets it, (3, side, side); see `resize_square`."""
        return resize_square(self.read_at_least(index, side), side, fit)

    def annotation(self, index: int) -> Annotation | None:
        """Known truth about places in the image, where there is any."""
        return None if self.places is None else self.places.annotation(index)

    @property
    def region_names(self) -> tuple[str, ...]:
        """Every part, or `object`, that `annotation` knows in some image."""
        return () if self.places is None else self.places.names

    def __len__(self) -> int:
        return len(self.examples)


def no_concepts(n: int, k: int) -> npt.NDArray[np.int8]:
    """Concept labels (N, K) of images about which nothing is known."""
    return np.full((n, k), UNKNOWN, dtype=np.int8)
