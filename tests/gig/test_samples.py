"""The PFV-iERF data set: what is drawn, kept, gone on with and refused."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.gig import samples
from conceptlens.gig.attribution.srd import Graph, relevance
from conceptlens.gig.network import Network, open_network
from conceptlens.gig.samples import Samples, collect


class Pictures:
    """Random images; remembers which were asked for."""

    def __init__(self, number: int) -> None:
        self.pixels = torch.randn(number, 3, 12, 12, generator=torch.Generator().manual_seed(0))
        self.asked: list[int] = []
        self.fingerprint = "pictures"

    def __len__(self) -> int:
        return len(self.pixels)

    def batches(self, size: int, indices: Sequence[int]) -> Iterator[tuple[list[int], Tensor]]:
        for start in range(0, len(indices), size):
            some = list(indices[start : start + size])
            self.asked += some
            yield some, self.pixels[some]


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    monkeypatch.setattr(samples, "SHARD", 4)
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 8, 3, stride=2), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)),
    )
    return open_network(model, ["0", "2"], image_size=12)


def test_samples_are_the_networks_vectors_with_their_contribution_and_field(network: Network, tmp_path: Path) -> None:
    pictures = Pictures(10)
    found = collect(network, pictures, tmp_path, per_image=2, field_side=6, dtype="float32", batch=3)
    truth = relevance(network, pictures.pixels)
    for layer, taken in found.items():
        assert taken.image.tolist() == [i for i in range(10) for _ in range(2)]
        at = (taken.image, taken.position)
        torch.testing.assert_close(taken.features(), truth.features[layer][at])
        torch.testing.assert_close(taken.contribution, truth.layers[layer][at])
        pairs = taken.position.view(-1, 2)
        assert (pairs[:, 0] != pairs[:, 1]).all()
        fields = taken.fields()
        assert fields is not None
        assert fields.shape == (20, 6, 6)
        second = Graph(network, pictures.pixels, [layer]).receptive_field(layer, taken.position[1::2])
        small = second.view(10, 6, 2, 6, 2).mean((2, 4)).clamp_min(0)
        torch.testing.assert_close(fields[1::2], small / small.amax((1, 2), keepdim=True), atol=0.003, rtol=0)


def test_positions_are_drawn_by_what_they_contribute() -> None:
    shares = torch.tensor([[9.0, 0.0, -5.0, 1.0, 0.0]]).expand(2000, -1)
    drawn = samples._positions(shares, 1, 1, (0, 0), list(range(2000))).flatten()
    assert set(drawn.tolist()) == {3}  # the prefix is never drawn, nor what is against the output
    half = torch.tensor([[0.0, 3.0, 1.0]]).expand(2000, -1)
    drawn = samples._positions(half, 0, 1, (0, 0), list(range(2000))).flatten()
    assert abs((drawn == 1).float().mean() - 0.75) < 0.04
    none = samples._positions(torch.zeros(300, 3), 0, 1, (0, 0), list(range(300)))
    assert set(none.flatten().tolist()) == {0, 1, 2}
    assert samples._positions(torch.tensor([[1.0, 0.0]]), 0, 5, (0, 0), [0]).shape == (1, 2)


def drawn(found: dict[str, Samples]) -> list[Tensor]:
    return [part for taken in found.values() for part in (taken.position, taken.features(), taken.contribution)]


def test_a_run_that_was_stopped_or_shared_ends_in_the_same_data(network: Network, tmp_path: Path) -> None:
    whole = drawn(collect(network, Pictures(10), tmp_path / "whole"))
    half = Pictures(10)
    collect(network, half, tmp_path / "half")
    (tmp_path / "half" / "00000004.safetensors").unlink()
    (tmp_path / "half" / ".00000004.safetensors.1.tmp").write_bytes(b"half")
    half.asked.clear()
    again = drawn(collect(network, half, tmp_path / "half", batch=2))
    assert half.asked == [4, 5, 6, 7]
    assert not list((tmp_path / "half").glob(".*"))
    assert collect(network, Pictures(10), tmp_path / "shared", share=(1, 2)) == {}
    shared = drawn(collect(network, Pictures(10), tmp_path / "shared", share=(0, 2)))
    for one, two, three in zip(whole, again, shared, strict=True):
        torch.testing.assert_close(one, two)
        torch.testing.assert_close(one, three)


def test_bad_input_is_told_and_nothing_half_written(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage(NamedTuple):
        total: int
        used: int
        free: int

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(10, 0, 10))
        with pytest.raises(UserError, match="are free"):
            collect(network, Pictures(10), tmp_path / "full")
    assert not list((tmp_path / "full").glob("*.safetensors"))
    collect(network, Pictures(5), tmp_path)
    with pytest.raises(UserError, match="other per image"):
        collect(network, Pictures(5), tmp_path, per_image=2)
    with pytest.raises(UserError, match="other number"):
        collect(network, Pictures(6), tmp_path)
    (tmp_path / "00000000.safetensors").write_bytes(b"broken")
    with pytest.raises(UserError, match="expected a shard"):
        collect(network, Pictures(5), tmp_path)
    with pytest.raises(UserError, match="no images"):
        collect(network, Pictures(0), tmp_path / "none")
    large = Pictures(4)
    large.pixels = large.pixels * 1e6
    with pytest.raises(UserError, match="float32"):
        collect(network, large, tmp_path / "large")
    assert not list((tmp_path / "large").glob("*.safetensors"))


def test_outputs_come_with_samples_but_not_those_of_shards_that_are_there(network: Network, tmp_path: Path) -> None:
    pictures = Pictures(10)
    seen: dict[int, Tensor] = {}

    def keep(numbers: list[int], outputs: Tensor) -> None:
        seen.update(zip(numbers, outputs, strict=True))

    collect(network, pictures, tmp_path, batch=3, seen=keep)
    assert pictures.asked == sorted(seen) == list(range(10))  # every image once
    torch.testing.assert_close(torch.stack([seen[number] for number in range(10)]), network.logits(pictures.pixels))
    seen.clear()
    (tmp_path / "00000004.safetensors").unlink()
    collect(network, pictures, tmp_path, batch=3, seen=keep)
    assert sorted(seen) == [4, 5, 6, 7]
