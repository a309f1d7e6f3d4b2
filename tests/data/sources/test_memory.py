"""Data in memory: every form gives the same examples; labels mean what they mean in a table."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.memory import ImageData
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
LABELS = ["cat", "dog"] * 3
COLOR, SPOTS = ["red", "blue", None] * 2, [1.0, 0.0, float("nan")] * 2


class Pairs:
    """As a torch `Dataset`: items by number."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> tuple[Any, str, dict[str, Any]]:
        return Image.fromarray(IMAGES[index]), LABELS[index], {"color": COLOR[index], "spots": SPOTS[index]}


def opened(data: Any, concepts: ConceptSet | None = None) -> tuple[DataSource, ConceptSet]:
    return open_source(DataConfig("memory"), concepts, data=data)


@pytest.mark.parametrize(
    "data",
    [
        (IMAGES, LABELS, {"color": COLOR, "spots": SPOTS}),
        (list(map(Image.fromarray, IMAGES)), np.array(LABELS), pd.DataFrame({"color": COLOR, "spots": SPOTS})),
        ImageData(IMAGES, LABELS, {"color": COLOR, "spots": SPOTS}),
        {"images": IMAGES, "labels": LABELS, "concepts": {"color": COLOR, "spots": SPOTS}},
        pd.DataFrame({"image": list(map(Image.fromarray, IMAGES)), "class": LABELS, "color": COLOR, "spots": SPOTS}),
        Pairs(),
    ],
    ids=["tuple", "PIL and frame", "ImageData", "mapping", "frame", "dataset"],
)
def test_every_form_gives_the_same(data: Any) -> None:
    source, concepts = opened(data)
    assert source.classes == ("cat", "dog")
    assert concepts.names == ["color: blue", "color: red", "attributes: spots"]
    assert source.examples.labels.tolist() == [0, 1] * 3
    assert source.examples.concepts.tolist() == [[0, 1, 1], [1, 0, 0], [-1, -1, -1]] * 2
    assert np.array_equal(np.asarray(source.read(4)), IMAGES[4])


def test_a_concept_set_that_is_given_is_used() -> None:
    known = ConceptSet.from_yaml("classes: [dog, cat]\ngroups: {color: {values: [red, green, blue]}}")
    source, concepts = opened((IMAGES, LABELS, {"color": COLOR}), known)
    assert concepts is known
    assert source.classes == ("dog", "cat")
    assert source.examples.concepts[0].tolist() == [1, 0, 0]


def test_an_array_of_concepts() -> None:
    source, concepts = opened((IMAGES, LABELS, np.array([[1, 0], [0, 1], [1, np.nan]] * 2)))
    assert concepts.names == ["attributes: concept 0", "attributes: concept 1"]
    assert source.examples.concepts[:3].tolist() == [[1, 0], [0, 1], [1, -1]]


def test_groups_splits_and_names() -> None:
    held = ImageData(["a.png", "a.png"], ["x", "y"], {"color": ["red", "blue"]}, groups=[1, 1], splits=["train", "dev"])
    source, _ = opened(held)
    assert source.examples.group == ("1", "1")
    assert source.examples.split == ("train", "val")
    assert source.examples.ids == ("a.png", "a.png (1)")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((IMAGES, LABELS[:4], {"color": COLOR}), "6 images, but 4 values of 'class'"),
        ((IMAGES, LABELS), "no concepts were given"),
        ((IMAGES[:0], []), "no concepts were given|found none"),
        (pd.DataFrame({"file": [1]}), "expected a column 'image'"),
        ({"pictures": 1}, "expected a mapping with images"),
        (3, "found int"),
        ((IMAGES, LABELS, np.zeros(6)), r"found shape \(6,\)"),
    ],
)
def test_what_does_not_fit_is_refused(data: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        opened(data)


def test_a_run_whose_data_was_in_memory_asks_for_it() -> None:
    with pytest.raises(UserError, match=r"was in memory.*cl.load\(run, data="):
        opened(None)
