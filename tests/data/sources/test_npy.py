import pickle
from pathlib import Path

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.sources.npy import NpyPair
from conceptlens.recipes.schema import DataConfig

CONFIG = DataConfig("x")


def save(folder: Path, images: object, labels: object, **options: object) -> Path:
    np.save(folder / "dataList.npy", np.asarray(images), **options)  # type: ignore[arg-type]
    np.save(folder / "labelList.npy", np.asarray(labels), **options)  # type: ignore[arg-type]
    return folder


def test_channels_are_turned_round(tmp_path: Path, cells: ConceptSet) -> None:
    images = np.zeros((3, 4, 5, 3), dtype=np.uint8)
    images[1, 0, 0] = (10, 20, 30)  # blue, green, red
    pair = NpyPair(save(tmp_path, images, np.array([0, 1, 0], dtype=np.uint8)), CONFIG, cells)
    assert pair.classes == ("Neutrophil", "Monocyte")
    assert pair.examples.labels.tolist() == [0, 1, 0]
    assert pair.examples.concepts[1, :3].tolist() == [0, 0, 1]
    assert pair.read(1).size == (5, 4)
    assert pair.read(1).getpixel((0, 0)) == (30, 20, 10)
    straight = NpyPair(tmp_path, CONFIG, cells, channel_order="rgb")
    assert straight.read(1).getpixel((0, 0)) == (10, 20, 30)


def test_pixels_stay_on_disk(tmp_path: Path, cells: ConceptSet) -> None:
    pair = NpyPair(save(tmp_path, np.zeros((200, 64, 64, 3), dtype=np.uint8), np.arange(200) % 2), CONFIG, cells)
    assert isinstance(pair._map(), np.memmap)
    copied = pickle.dumps(pair)
    assert len(copied) < 100_000
    assert pickle.loads(copied).read(7).size == (64, 64)


def test_gray_and_other_numbers_of_classes(tmp_path: Path, cells: ConceptSet) -> None:
    pair = NpyPair(save(tmp_path, np.full((3, 2, 2), 9, dtype=np.uint8), [[0], [-1], [2]]), CONFIG, cells)
    assert pair.classes == ("class 0", "class 1", "class 2")
    assert pair.examples.labels.tolist() == [0, -1, 2]
    assert (pair.examples.concepts == -1).all()
    assert pair.read(0).getpixel((1, 1)) == (9, 9, 9)
    named = NpyPair(
        tmp_path,
        DataConfig("x", classes=["a", "b", "c"]),
        ConceptSet.from_yaml("groups: {g: [1]}".replace("[1]", "{values: [1, 2]}")),
    )
    assert named.classes == ("a", "b", "c")


def test_several_labels(tmp_path: Path, cells: ConceptSet) -> None:
    pair = NpyPair(
        save(tmp_path, np.zeros((2, 2, 2, 3), np.uint8), [[1, 0], [1, 1]]), DataConfig("x", task="multilabel"), cells
    )
    assert pair.examples.labels.tolist() == [[1, 0], [1, 1]]


IMAGES = np.zeros((2, 2, 2, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (IMAGES.astype(np.float32), [0, 1], "uint8"),
        (IMAGES[..., :2], [0, 1], "uint8"),
        (IMAGES[:0], [], "uint8"),
        (IMAGES, [0, 1, 1], r"shape \(2,\), found \(3,\)"),
        (IMAGES, [0.5, 1], "whole numbers"),
        (IMAGES, [-2, 1], "class numbers from 0"),
        (IMAGES, [[0, 1], [1, 0]], "whole numbers of shape"),
    ],
)
def test_arrays_that_will_not_do(tmp_path: Path, cells: ConceptSet, images: object, labels: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        NpyPair(save(tmp_path, images, labels), CONFIG, cells)


def test_python_objects_are_never_read(tmp_path: Path, cells: ConceptSet) -> None:
    ragged = np.empty(2, dtype=object)
    ragged[:] = [np.zeros((2, 2, 3)), np.zeros((3, 3, 3))]
    with pytest.raises(UserError, match="may run code"):
        NpyPair(save(tmp_path, ragged, [0, 1], allow_pickle=True), CONFIG, cells)
    save(tmp_path, IMAGES, np.array(["a", 1], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="may run code"):
        NpyPair(tmp_path, CONFIG, cells)


def test_files_that_are_cut_or_absent(tmp_path: Path, cells: ConceptSet) -> None:
    with pytest.raises(UserError, match="no such file"):
        NpyPair(tmp_path, CONFIG, cells)
    save(tmp_path, IMAGES, [0, 1])
    whole = (tmp_path / "dataList.npy").read_bytes()
    for length in (0, 5, 50, len(whole) - 3):
        (tmp_path / "dataList.npy").write_bytes(whole[:length])
        with pytest.raises(UserError, match="not a whole"):
            NpyPair(tmp_path, CONFIG, cells)


@pytest.mark.parametrize("shape", [b"(1L, 8L", b"-" * 5000 + b"1}", b"(10000000000, 3000000000000)}"])
def test_a_header_that_is_no_header(tmp_path: Path, cells: ConceptSet, shape: bytes) -> None:
    save(tmp_path, IMAGES, [0, 1])
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': " + shape
    size = len(header).to_bytes(2, "little")
    (tmp_path / "labelList.npy").write_bytes(b"\x93NUMPY\x01\x00" + size + header)
    with pytest.raises(UserError, match="not a whole"):
        NpyPair(tmp_path, CONFIG, cells)
