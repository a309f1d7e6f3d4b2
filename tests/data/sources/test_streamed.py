"""Streams of `datasets`: labels in one pass, images by their place, the order of any other data, exact after a stop."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources import streamed
from conceptlens.data.sources.memory import open_memory
from conceptlens.recipes import DataConfig
from tests.training.tiny import tiny, train_interrupted

datasets = pytest.importorskip("datasets", reason="datasets is not installed")
CONFIG = DataConfig("memory")
ROWS = 23


def picture(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 90, (32, 32, 3), np.uint8)
    pixels[8:24, 8:24, number % 3] = 230
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("stream")
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    features = datasets.Features({**kinds, "color": datasets.Value("string"), "tail": datasets.Value("int64")})
    for shard in range(3):
        numbers = range(shard * ROWS, (shard + 1) * ROWS)
        columns = {
            "image": [picture(number) for number in numbers],
            "label": [number % 2 for number in numbers],
            "color": [("red", "green", "blue")[number % 3] for number in numbers],
            "tail": [number % 2 for number in numbers],
        }
        datasets.Dataset.from_dict(columns, features=features).to_parquet(str(folder / f"{shard}.parquet"))
    return sorted(map(str, folder.glob("*.parquet")))


def stream(files: Any, split: str | None = "train") -> Any:
    return datasets.load_dataset("parquet", data_files=files, split=split, streaming=True)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(streamed, "BLOCK", 5)
    monkeypatch.setattr(streamed, "KEPT", 2)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)


def test_images_are_read_by_their_place(files: list[str]) -> None:
    source, concepts = open_memory(stream(files), CONFIG, None)
    assert source.classes == ("cat", "dog")
    assert source.examples.labels.tolist() == [number % 2 for number in range(3 * ROWS)]
    assert [group.name for group in concepts.groups] == ["color", "attributes"]
    assert source.blocks is not None
    assert source.blocks.tolist() == [ROWS * shard + start for shard in range(3) for start in range(0, ROWS, 5)]
    for index in np.random.default_rng(0).permutation(3 * ROWS).tolist():
        np.testing.assert_array_equal(np.asarray(source.read(index)), np.asarray(picture(index)))


def test_threads_see_the_same(files: list[str]) -> None:
    source, _ = open_memory(stream(files), CONFIG, None)
    order = np.random.default_rng(1).permutation(3 * ROWS)
    with PixelReader(source, 32, workers=0) as one, PixelReader(source, 32, cache_mb=0, workers=3) as many:
        assert (one.batch(order) == many.batch(order)).all()


def test_splits_by_name(files: list[str]) -> None:
    source, _ = open_memory(stream({"train": files[:2], "validation": files[2:]}, None), CONFIG, None)
    assert source.examples.split == ("train",) * 2 * ROWS + ("val",) * ROWS
    np.testing.assert_array_equal(np.asarray(source.read(2 * ROWS + 1)), np.asarray(picture(2 * ROWS + 1)))


def test_decoded_images_of_a_generator() -> None:
    def rows() -> Any:
        for number in range(7):
            yield {"image": picture(number), "class": "ab"[number % 2], "color": ("red", "blue")[number % 2]}

    source, _ = open_memory(datasets.IterableDataset.from_generator(rows), CONFIG, None)
    np.testing.assert_array_equal(np.asarray(source.read(6)), np.asarray(picture(6)))


def test_another_order_is_refused(files: list[str]) -> None:
    times: list[int] = []

    def rows() -> Any:
        times.append(1)
        for number in range(len(times), len(times) + 9):
            yield {"image": picture(number), "class": "ab"[number % 2], "color": ("red", "blue")[number % 2]}

    source, _ = open_memory(datasets.IterableDataset.from_generator(rows), CONFIG, None)
    with pytest.raises(UserError, match=r"without shuffle\(\)"):
        source.read(4)
    with pytest.raises(UserError, match="expected a column 'image'"):
        open_memory(stream(files).remove_columns("image"), CONFIG, None)


@pytest.mark.slow
def test_a_training_goes_on_exactly(files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same weights as of a list of the same images, whole or stopped in the middle and resumed."""
    recipe = tiny(tmp_path / "whole", method={"name": "cbm"}, data={"source": "memory", "cache_mb": 0})
    recipe["training"] |= {"epochs": 2}
    held = cl.ImageData(
        [picture(number) for number in range(3 * ROWS)],
        [("cat", "dog")[number % 2] for number in range(3 * ROWS)],
        {
            "color": [("red", "green", "blue")[number % 3] for number in range(3 * ROWS)],
            "tail": [number % 2 for number in range(3 * ROWS)],
        },
    )
    whole = cl.train(recipe, data=stream(files), quiet=True).path
    stopped = {**recipe, "out": str(tmp_path / "stopped")}
    train = cl.train
    with monkeypatch.context() as patch:
        patch.setattr(cl, "train", lambda recipe, **words: train(recipe, data=stream(files), **words))
        train_interrupted(stopped, 4, monkeypatch)
    resumed = cl.resume(tmp_path / "stopped", data=stream(files), quiet=True).path
    weights = [(run / "model" / "weights.safetensors").read_bytes() for run in (whole, resumed)]
    assert weights[0] == weights[1]
    listed = train({**recipe, "out": str(tmp_path / "listed")}, data=held, quiet=True)
    assert listed.source.examples.fingerprint == cl.load(whole, data=stream(files)).source.examples.fingerprint
