"""A `datasets.Dataset` as data: columns as in a table, names of a `ClassLabel`, images decoded when asked for."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.sources.memory import open_memory
from conceptlens.recipes import DataConfig


class Dataset:
    """What of `datasets.Dataset` is used."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns, self.decoded = columns, 0
        self.column_names = list(columns)
        self.features = dict.fromkeys(columns, SimpleNamespace()) | {"label": SimpleNamespace(names=["cat", "dog"])}

    def __len__(self) -> int:
        return len(self.columns["label"])

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, str):
            assert place != "image", "all images at once"
            return self.columns[place]
        self.decoded += 1
        return {name: values[place] for name, values in self.columns.items()}


def test_columns_become_labels_and_concepts() -> None:
    images = [Image.fromarray(np.full((4, 4, 3), shade, np.uint8)) for shade in (0, 100, 200)]
    data = Dataset(image=images, label=[1, 0, -1], color=["red", "blue", "red"], tail=[1, 0, 1])
    source, concepts = open_memory(data, DataConfig("memory"), None)
    assert source.classes == ("cat", "dog")
    assert source.examples.labels.tolist() == [1, 0, -1]
    assert [group.name for group in concepts.groups] == ["color", "attributes"]
    assert source.examples.concepts.shape == (3, 3)
    assert data.decoded == 0
    assert source.read(1).getpixel((0, 0)) == (100, 100, 100)
    assert data.decoded == 1


def test_a_dataset_without_images_is_refused() -> None:
    with pytest.raises(UserError, match=r"expected a column 'image', found picture, label"):
        open_memory(Dataset(picture=[], label=[]), DataConfig("memory"), None)
