"""The pair dataList.npy and labelList.npy in which the IVQ-CBM paper's published code keeps its images.

dataList holds N images of one size as bytes, (N, H, W, 3), labelList their class numbers, (N,). The published builder
reads images with OpenCV, so their channels lie in the order blue, green, red. It numbers class folders alphabetically:
the concept file should list its classes in that order.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import DAMAGED_ARRAY, UserError
from conceptlens.core.regular import check_regular
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import UNLABELED, DataSource, Examples
from conceptlens.data.labels.classes import concepts_of_classes, order_classes
from conceptlens.recipes.schema import DataConfig

IMAGES, LABELS = "dataList.npy", "labelList.npy"


class NpyPair(DataSource):
    """Images in one array on disk; only those asked for are read into memory.

    Args:
        path: The folder with the two files.
        config: Task and order of the classes.
        concepts: The concept set; label i is its i-th class if it has as many classes as the labels use.
        problems: Receives what deserves a look.
        channel_order: `bgr`, as published, or `rgb`.
    """

    def __init__(
        self,
        path: Path,
        config: DataConfig,
        concepts: ConceptSet,
        problems: Problems | None = None,
        channel_order: Literal["bgr", "rgb"] = "bgr",
    ) -> None:
        problems = problems or Problems()
        self.name = path.resolve().name
        self.task = config.task
        self.channel_order = channel_order
        self._file = path / IMAGES
        self._images: npt.NDArray[np.uint8] | None = None
        shape = self._map().shape
        labels = _labels(path / LABELS, shape[0], several=config.task == "multilabel")
        count = labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=-1)) + 1
        self.classes = _names(count, config, concepts, str(path))
        shown = ", ".join(f"{number} is {name}" for number, name in enumerate(self.classes[:12]))
        problems.add(
            "info", "class-numbers", f"{path / LABELS}: its numbers are read as: {shown}. Check that this is meant."
        )
        self.examples = Examples(
            ids=tuple(f"{number:06d}" for number in range(shape[0])),
            labels=labels,
            concepts=concepts_of_classes(concepts, self.classes, labels, self.task),
        )

    def read(self, index: int) -> Image.Image:
        pixels = np.asarray(self._map()[index])
        if pixels.ndim == 2 or pixels.shape[-1] == 1:
            return Image.fromarray(np.ascontiguousarray(pixels.reshape(pixels.shape[:2]))).convert("RGB")
        return Image.fromarray(np.ascontiguousarray(pixels[..., ::-1] if self.channel_order == "bgr" else pixels))

    def _map(self) -> npt.NDArray[np.uint8]:
        """The array on disk, mapped once per process."""
        if self._images is None:
            array = _load(self._file, mmap=True)
            gray = array.ndim == 3 or (array.ndim == 4 and array.shape[-1] == 1)
            if array.dtype != np.uint8 or not (gray or (array.ndim == 4 and array.shape[-1] == 3)) or 0 in array.shape:
                raise UserError(
                    f"{self._file}: expected images as bytes, (N, H, W, 3) or (N, H, W) of uint8, "
                    f"found {array.shape} of {array.dtype}."
                )
            self._images = array
        return self._images

    def __getstate__(self) -> dict[str, Any]:
        # A mapped array would be copied whole into another process.
        return {**self.__dict__, "_images": None}


def _load(path: Path, *, mmap: bool = False) -> npt.NDArray[Any]:
    """An array of plain numbers; an array of Python objects would run code when it is read."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            dtype = header(file)[2]
        if dtype.hasobject:
            raise UserError(
                f"{path}: holds Python objects, which are not read because they may run code. Images of one size, "
                "saved as np.asarray(images, dtype=np.uint8), make a plain array."
            )
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
        return array
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; expected {IMAGES} and {LABELS} side by side.") from None
    except DAMAGED_ARRAY as error:
        raise UserError(f"{path}: not a whole .npy file: {error}.") from None


def _labels(path: Path, n: int, *, several: bool) -> npt.NDArray[np.int64]:
    array = _load(path)
    if not several and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    kind = (2 if several else 1), True
    if array.shape[:1] != (n,) or (array.ndim, array.dtype.kind in "iub") != kind or 0 in array.shape:
        wanted = f"({n}, classes)" if several else f"({n},)"
        raise UserError(f"{path}: expected whole numbers of shape {wanted}, found {array.shape} of {array.dtype}.")
    labels = array.astype(np.int64)
    low, high = labels.min(), labels.max()
    if low < UNLABELED or (several and high > 1) or high >= 100_000:
        wanted = "0 and 1 (-1: unknown)" if several else "class numbers from 0 (-1: no class)"
        raise UserError(f"{path}: expected {wanted}, found numbers from {low} to {high}.")
    return labels


def _names(count: int, config: DataConfig, concepts: ConceptSet, source: str) -> tuple[str, ...]:
    for declared in (config.classes, concepts.classes):
        if declared and len(declared) == count:
            return order_classes([], wanted=declared, concepts=concepts, task=config.task, source=source)
    if config.classes and len(config.classes) > count and config.task != "multilabel":
        # Classes at the end of the list that no image has.
        return order_classes([], wanted=config.classes, concepts=concepts, task=config.task, source=source)
    if config.classes:
        raise UserError(f"data.classes: names {len(config.classes)} classes, but the labels of {source} have {count}.")
    return tuple(f"class {number}" for number in range(count))
