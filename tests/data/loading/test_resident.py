"""Images on the device: the same bytes as without, by a rule that is stated; here the CPU stands for the device."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.resident import SHARE, ResidentReader, stays_resident
from conceptlens.data.loading.transfer import send, to_device
from tests.data.loading.test_loader import Counting

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_the_same_bytes_as_without() -> None:
    source = Counting(20)
    reader = PixelReader(source, 8, cache_mb=0)
    resident = ResidentReader(reader, np.array([19, 3, 7, 3]), CPU)
    assert sum(source.reads) == 3  # each once, however often it is named
    asked = np.array([7, 19, 7])
    expected = reader.batch(asked)
    for _ in range(2):
        batch = resident.batch(asked)
        assert torch.equal(batch, expected)
        batch.zero_()  # a batch is the caller's own
    for indices, pixels in resident.prefetch(iter([asked, asked[:1]])):
        assert torch.equal(pixels, expected[: len(indices)])
    assert resident.batch(np.empty(0, dtype=np.int64)).shape == (0, 3, 8, 8)


def test_every_image_is_counted_as_it_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.data.loading.resident.CHUNK", 4)
    seen: list[int] = []
    ResidentReader(PixelReader(Counting(20), 4), np.arange(10), CPU, seen.append)
    assert seen == [4, 4, 2]


def test_an_image_that_was_not_read_is_never_made_up() -> None:
    resident = ResidentReader(PixelReader(Counting(20), 4), np.arange(10), CPU)
    with pytest.raises(AssertionError, match="not read"):
        resident.batch(np.array([1, 12]))


def test_auto_stays_below_its_share_of_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    bytes_of_ten = 10 * 3 * 8 * 8
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (bytes_of_ten / SHARE, 1e12))
    assert stays_resident("auto", 10, 8, GPU)
    assert not stays_resident("auto", 11, 8, GPU)
    assert stays_resident(True, 11, 8, GPU)
    assert not stays_resident(False, 1, 8, GPU)
    with pytest.raises(UserError, match=r"data\.resident: 41 images of 8 pixels need .* Set data\.resident to auto"):
        stays_resident(True, 41, 8, GPU)


def test_on_a_cpu_only_where_it_is_asked_for() -> None:
    assert [stays_resident(setting, 1, 8, CPU) for setting in ("auto", False, True)] == [False, False, True]


def batches(closed: list[bool]) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    try:
        for number in range(5):
            yield np.array([number]), torch.full((2,), number)
    finally:
        closed.append(True)


def check_stream(device: torch.device) -> None:
    closed: list[bool] = []
    for number, (indices, values) in enumerate(to_device(batches(closed), device)):
        assert values.device.type == device.type
        assert indices.tolist() == [number]
        assert values.tolist() == [number, number]
    assert number == 4
    source = batches(closed)
    stream = to_device(source, device)
    next(stream)
    stream.close()
    assert closed == [True, True]  # though someone still holds the source
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("conceptlens-copy")]


def test_batches_arrive_in_order_and_the_source_is_closed() -> None:
    check_stream(CPU)
    assert send(torch.arange(3), CPU).tolist() == [0, 1, 2]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_same_on_a_gpu() -> None:
    check_stream(GPU)
    reader = PixelReader(Counting(20), 8, cache_mb=0, workers=2)
    resident = ResidentReader(reader, np.arange(20), GPU)
    asked = np.array([7, 19, 7])
    assert torch.equal(resident.batch(asked).cpu(), reader.batch(asked))
    for _, pixels in to_device(resident.prefetch(iter([asked])), GPU):
        assert torch.equal(pixels.cpu(), reader.batch(asked))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_errors_arrive_from_the_copying_thread() -> None:
    reader = PixelReader(Counting(20, broken=7), 4)
    stream = to_device(reader.prefetch(np.array([i]) for i in range(20)), GPU)
    seen = []
    with pytest.raises(UserError, match=r"7\.png"):
        seen += [int(indices[0]) for indices, _ in stream for _ in [seen.append(int(indices[0]))]]
    assert seen == list(range(7))
