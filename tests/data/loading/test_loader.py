import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource, Examples, no_concepts
from conceptlens.data.images.read import resize_square
from conceptlens.data.loading.loader import PixelReader


class Counting(DataSource):
    """Image i is filled with i; counts how often each is read, and refuses one."""

    name, classes, task = "counting", ("a",), "single"

    def __init__(self, n: int = 20, broken: int = -1) -> None:
        self.examples = Examples(tuple(map(str, range(n))), np.zeros(n, np.int64), no_concepts(n, 1))
        self.reads = [0] * n
        self.broken = broken

    def read(self, index: int) -> Image.Image:
        self.reads[index] += 1
        if index == self.broken:
            raise UserError(f"{index}.png: damaged")
        return Image.new("RGB", (10, 10), (index, 0, 255))


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("conceptlens-")}


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("cache_mb", [0, 1])
def test_batches(workers: int, cache_mb: int) -> None:
    source = Counting()
    with PixelReader(source, 8, cache_mb=cache_mb, workers=workers) as reader:
        assert reader.caches is (cache_mb == 1)
        indices = np.array([3, 1, 3, 19])
        for _ in range(2):
            batch = reader.batch(indices)
            assert batch.shape == (4, 3, 8, 8)
            assert batch.dtype == torch.uint8
            assert batch[:, 0, 0, 0].tolist() == [3, 1, 3, 19]
            batch.zero_()  # a batch is the caller's own
        assert source.reads[3] == (1 if cache_mb else 4)
        assert reader.batch(np.empty(0, dtype=np.int64)).shape == (0, 3, 8, 8)
    assert not threads()


def test_bytes_equal_a_plain_resize() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (30, 50, 3), dtype=np.uint8))

    class One(Counting):
        def read(self, index: int) -> Image.Image:
            return noise

    for fit in ("squash", "crop", "pad"):
        batch = PixelReader(One(2), 16, fit).batch(np.array([1]))  # type: ignore[arg-type]
        assert (batch[0].numpy() == resize_square(noise, 16, fit)).all()  # type: ignore[arg-type]


def test_cache_is_all_or_nothing() -> None:
    assert PixelReader(Counting(4), 256, cache_mb=1).caches  # 4 · 3 · 256 · 256 bytes = 0.75 MB
    assert not PixelReader(Counting(6), 256, cache_mb=1).caches


def test_reading_ahead_keeps_order_and_stays_near() -> None:
    source = Counting(20)
    asked: list[int] = []

    def batches() -> Iterator[np.ndarray]:
        for start in range(0, 20, 2):
            asked.append(start)
            yield np.array([start, start + 1])

    with PixelReader(source, 4, cache_mb=0, workers=2) as reader:
        for number, (indices, pixels) in enumerate(reader.prefetch(batches(), ahead=2)):
            assert pixels[:, 0, 0, 0].tolist() == indices.tolist() == [2 * number, 2 * number + 1]
            assert len(asked) <= number + 3
    assert number == 9
    assert source.reads == [1] * 20
    assert not threads()


def test_stopping_early_ends_the_thread() -> None:
    source = Counting(1000)
    reader = PixelReader(source, 4, cache_mb=0)
    stream = reader.prefetch(np.array([i]) for i in range(1000))
    next(stream)
    assert threads()
    stream.close()
    assert not threads()
    assert sum(source.reads) <= 4


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_arrive_where_they_are_awaited(workers: int) -> None:
    with PixelReader(Counting(20, broken=7), 4, workers=workers) as reader:
        stream = reader.prefetch(np.array([i]) for i in range(20))
        seen = []
        with pytest.raises(UserError, match=r"7\.png"):
            seen += [int(indices[0]) for indices, _ in stream for _ in [seen.append(int(indices[0]))]]
        assert seen == list(range(7))
        with pytest.raises(UserError, match=r"7\.png"):
            reader.batch(np.array([6, 7, 8]))
        assert reader.batch(np.array([6, 8]))[:, 0, 0, 0].tolist() == [6, 8]
    assert not threads()


def test_an_error_in_the_list_of_batches_is_passed_on() -> None:
    def batches() -> Iterator[np.ndarray]:
        yield np.array([0])
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        list(PixelReader(Counting(), 4).prefetch(batches()))
    assert not threads()
