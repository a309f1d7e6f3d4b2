"""Data that is passed: arrays, PIL images, paths, a data frame, a `Dataset` or a stream, with labels and concepts.

Labels go through the same reader as a table's columns, so words, blanks, splits and groups mean the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import UNLABELED, DataSource, Examples, no_concepts
from conceptlens.data.images.objects import as_image
from conceptlens.data.images.window import Window
from conceptlens.data.labels.columns import columns_of, text_of
from conceptlens.data.labels.rename import rename_table
from conceptlens.data.labels.rows import examples_of
from conceptlens.data.labels.words import printable
from conceptlens.data.sources.streamed import Streamed, StreamLabels, is_stream
from conceptlens.recipes.schema import DataConfig

MEMORY = "memory"  # `data.source` of a run whose data was in memory
ATTRIBUTES = "attributes"  # the group of yes/no concepts whose set was not given


@dataclass
class ImageData:
    """Images with what is known of them.

    Args:
        images: N images: paths, PIL images, arrays or tensors; or one array (N, H, W, 3); or a torch `Dataset` whose
            items are images or begin with one.
        labels: N classes as words or numbers; lists of them for a multi-label task.
        concepts: Columns of N concept values by name (a mapping or a data frame), or an array (N, K) of 0, 1 and NaN.
        groups: N names of what must not be split, as patients.
        splits: N of `train`, `val`, `test` or blank.
        metadata: Further columns by name.

    >>> import numpy as np, conceptlens as cl
    >>> images = np.zeros((3, 8, 8, 3), np.uint8)
    >>> data = cl.ImageData(images, ["ripe", "ripe", "raw"], {"color": ["red", "red", None]}, groups=["tree 1"] * 3)
    >>> len(data.images)
    3
    """

    images: Any
    labels: Any = None
    concepts: Any = None
    groups: Any = None
    splits: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class HeldImages(DataSource):
    """Images that the caller holds, without labels.

    Args:
        images: As in `ImageData`.
        window: Which values of deep gray become black and white.
    """

    def __init__(self, images: Any, window: Window = "file") -> None:
        if not len(images):
            raise UserError("data: expected images, found none.")
        self.name, self.classes, self.task, self.window = MEMORY, (), "single", window
        self._images = images
        unlabeled = np.full(len(images), UNLABELED, dtype=np.int64)
        self.examples = Examples(_ids(images), unlabeled, no_concepts(len(images), 0))

    def read(self, index: int) -> Image.Image:
        return self.read_at_least(index, 0)

    def read_at_least(self, index: int, side: int) -> Image.Image:
        item = self._images[index]
        item = item[0] if isinstance(item, tuple | list) else item
        return as_image(item, name=self.examples.ids[index], at_least=side or None, window=self.window)


class MemorySource(HeldImages):
    """Images that the caller holds, with their labels."""

    def __init__(
        self, data: ImageData, config: DataConfig, concepts: ConceptSet, problems: Problems | None = None
    ) -> None:
        super().__init__(data.images, config.window)
        self.task = config.task
        count = len(data.images)
        named = {
            config.class_column: data.labels,
            config.group_column: data.groups,
            config.split_column: data.splits,
            **_concept_columns(data.concepts),
            **data.metadata,
        }
        columns = {name: list(values) for name, values in named.items() if values is not None}
        for name, values in columns.items():
            if len(values) != count:
                raise UserError(f"data: {count} images, but {len(values)} values of {name!r}: expected one an image.")
        table = rename_table(columns_of(columns, count, source="data"), config, concepts)
        self.classes, self.examples = examples_of(table, self.examples.ids, config, concepts, problems or Problems())


def image_data(data: Any, config: DataConfig) -> ImageData:
    """What is passed as `data`: `ImageData`, a tuple, a mapping, a data frame, a Hugging Face or torch `Dataset`."""
    if isinstance(data, ImageData):
        return data
    if isinstance(data, tuple) and 2 <= len(data) <= 3:
        return ImageData(*data)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return _from_frame(data, config)
    if hasattr(data, "column_names") and hasattr(data, "features"):
        return _from_hugging_face(data, config)
    if isinstance(data, Mapping):
        unknown = [key for key in data if key not in ImageData.__dataclass_fields__]
        if "images" not in data or unknown:
            raise UserError(
                f"data: expected a mapping with images, labels, concepts, groups, splits and metadata, found "
                f"{', '.join(map(str, data)) or 'nothing'}."
            )
        return ImageData(**data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return _from_dataset(data)
    raise UserError(
        "data: expected (images, labels, concepts), a data frame, a torch Dataset or the name of a source, found "
        f"{type(data).__name__}."
    )


def open_memory(
    data: Any, config: DataConfig, concepts: ConceptSet | None, problems: Problems | None = None
) -> tuple[DataSource, ConceptSet]:
    """A source of data in memory, and its concept set: the one given, or one made of the columns' own values."""
    if isinstance(data, DataSource):
        own = concepts or getattr(data, "concepts", None)
        if own is None:
            raise UserError("data: this source needs a concept set: pass `concepts` in the recipe.")
        return data, own
    if is_stream(data):
        labels = StreamLabels(data, config)
        concepts = concepts or concept_set_of(labels.concepts(config))
        return Streamed(labels, config, concepts, problems), concepts
    held = image_data(data, config)
    concepts = concepts or concept_set_of(held.concepts, held.labels)
    return MemorySource(held, config, concepts, problems), concepts


def concept_set_of(concepts: Any, labels: Any = None) -> ConceptSet:
    """A concept set from columns of labels: yes/no columns are independent concepts, others exclusive groups."""
    columns = _concept_columns(concepts)
    if not columns:
        raise UserError("data: no concepts were given. Pass concept labels, or a concept file that names them.")
    groups: dict[str, Any] = {}
    yes_no: list[str] = []
    for name, values in columns.items():
        words = sorted({text_of(value) for value in values} - {""})
        if set(words) <= {"0", "1", "true", "false"}:
            yes_no.append(name)
        else:
            groups[name] = {"values": words}
    if yes_no:
        groups[ATTRIBUTES] = {"kind": "independent", "values": yes_no, "columns": {name: name for name in yes_no}}
    tree: dict[str, Any] = {"groups": groups}
    return ConceptSet.from_yaml(dump_yaml(tree), where="data", name=MEMORY)


def _concept_columns(concepts: Any) -> dict[str, Sequence[Any]]:
    if concepts is None:
        return {}
    if hasattr(concepts, "columns") and hasattr(concepts, "iloc"):
        return {str(name): concepts[name].tolist() for name in concepts.columns}
    if isinstance(concepts, Mapping):
        return {str(name): list(values) for name, values in concepts.items()}
    array = np.asarray(concepts.detach().cpu() if hasattr(concepts, "detach") else concepts)
    if array.ndim != 2:
        raise UserError(f"data: expected concepts as columns by name, or an array (N, K), found shape {array.shape}.")
    return {f"concept {k}": array[:, k].tolist() for k in range(array.shape[1])}


def _from_frame(frame: Any, config: DataConfig) -> ImageData:
    """A data frame: columns are named as in a table, the images in `data.image_column`."""
    if config.image_column not in frame.columns:
        raise UserError(
            f"data: expected a column {config.image_column!r} with images or their paths, found "
            f"{', '.join(map(str, frame.columns))}. Set data.image_column."
        )
    own = {config.image_column, config.class_column, config.group_column, config.split_column}

    def column(name: str) -> Any:
        return frame[name].tolist() if name in frame.columns else None

    rest = {str(name): frame[name].tolist() for name in frame.columns if name not in own}
    return ImageData(
        column(config.image_column),
        column(config.class_column),
        rest or None,
        column(config.group_column),
        column(config.split_column),
    )


class _ImageColumn:
    """The images of a `datasets.Dataset`, decoded one at a time."""

    def __init__(self, dataset: Any, name: str) -> None:
        self.dataset, self.name = dataset, name

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[index][self.name]


def _from_hugging_face(dataset: Any, config: DataConfig) -> ImageData:
    """A `datasets.Dataset`: columns are named as in a table; a `ClassLabel`'s numbers are read as its names."""
    names = list(dataset.column_names)
    if config.image_column not in names:
        raise UserError(
            f"data: expected a column {config.image_column!r}, found {', '.join(names)}. Set data.image_column."
        )

    def column(name: str) -> Any:
        if name not in names:
            return None
        words = getattr(dataset.features[name], "names", None)
        values = list(dataset[name])
        return values if words is None else [None if value is None or value < 0 else words[value] for value in values]

    class_column = config.class_column if config.class_column in names or "label" not in names else "label"
    own = {config.image_column, class_column, config.group_column, config.split_column}
    return ImageData(
        _ImageColumn(dataset, config.image_column),
        column(class_column),
        {name: column(name) for name in names if name not in own} or None,
        column(config.group_column),
        column(config.split_column),
    )


def _from_dataset(dataset: Any) -> ImageData:
    """A torch `Dataset` of (image, label) or (image, label, concepts): labels are read once, images when asked for."""
    labels: list[Any] = []
    concepts: list[Any] = []
    for index in range(len(dataset)):
        item = dataset[index]
        if not isinstance(item, tuple | list) or not 2 <= len(item) <= 3:
            raise UserError(
                "data: expected a Dataset of (image, label) or (image, label, concepts), found items of "
                f"{type(item).__name__}."
            )
        labels.append(item[1])
        concepts += [item[2]] if len(item) == 3 else []
    if not concepts:
        return ImageData(dataset, labels)
    if isinstance(concepts[0], Mapping):
        return ImageData(dataset, labels, {name: [row.get(name) for row in concepts] for name in concepts[0]})
    return ImageData(dataset, labels, np.stack([np.asarray(row) for row in concepts]))


def _ids(images: Any) -> tuple[str, ...]:
    """A name for each image: its path, or its number; made unique."""
    names: list[str] = []
    seen: set[str] = set()
    for number in range(len(images)):
        item = images[number] if isinstance(images, list | tuple) else None
        name = printable(str(item)) if isinstance(item, str) or hasattr(item, "__fspath__") else f"{number:06d}"
        name = f"{name} ({number})" if name in seen else name
        seen.add(name)
        names.append(name)
    return tuple(names)
