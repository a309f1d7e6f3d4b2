"""Explicit VQ by vector-quantize-pytorch: our part against a stand-in of its interface, and, where it is installed, all
of it against the equations of its papers."""

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.quantization.library_vq import EmaVQ, RotationVQ
from conceptlens.nn.quantization.quantization import nearest_codes
from conceptlens.nn.setup import Setup

INSTALLED = importlib.util.find_spec("vector_quantize_pytorch") is not None


class StandIn(nn.Module):
    """The part of `VectorQuantize` that is used: codes with a leading dimension, a moving average while training."""

    def __init__(self, *, dim: int, codebook_size: int, decay: float, rotation_trick: bool, **rest: Any) -> None:
        super().__init__()
        assert rest == {"commitment_weight": 0.0, "threshold_ema_dead_code": 0, "sync_codebook": False}
        self.decay, self.rotation_trick, self._codebook = decay, rotation_trick, nn.Module()
        start = torch.rand(1, codebook_size, dim) / codebook_size
        self._codebook.register_buffer("embed", start)
        self._codebook.register_buffer("embed_avg", start.clone())
        self._codebook.register_buffer("cluster_size", torch.ones(1, codebook_size))

    @property
    def codebook(self) -> Tensor:
        return self._codebook.embed[0]

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inside = self._codebook
        codes = nearest_codes(patches, self.codebook)
        quantized = self.codebook[codes]
        if self.training:
            quantized = patches + (quantized - patches).detach()
            with torch.no_grad():
                chosen = nn.functional.one_hot(codes.flatten(), len(self.codebook)).float()
                inside.cluster_size[0].lerp_(chosen.sum(0), 1 - self.decay)
                inside.embed_avg[0].lerp_(chosen.T @ patches.flatten(0, 1), 1 - self.decay)
                inside.embed[0] = inside.embed_avg[0] / inside.cluster_size[0].unsqueeze(-1)
        return quantized, codes, torch.zeros(())


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vector_quantize_pytorch")
    module.VectorQuantize = StandIn
    monkeypatch.setitem(sys.modules, "vector_quantize_pytorch", module)


def tokens(seed: int = 0, *, learns: bool = False) -> Tokens:
    patches = torch.randn(4, 9, 8, generator=torch.Generator().manual_seed(seed))
    return Tokens(patches.requires_grad_(learns), (3, 3))


def test_a_missing_library_is_named(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vector_quantize_pytorch", None)
    with pytest.raises(UserError, match=r"conceptlens\[vq\]"):
        EmaVQ(setup)


@pytest.mark.usefixtures("stand_in")
def test_the_aggregator_sees_codes_and_the_loss_is_the_commitment(setup: Setup) -> None:
    regularizer = EmaVQ(setup, weight=2.0, beta=0.25)
    seen = tokens(learns=True)
    regularizer.prepare([tokens()])
    codebook = regularizer.codebook.clone()
    found = regularizer.train()(seen)
    assert torch.equal(found.codes, nearest_codes(seen.patches, codebook))
    torch.testing.assert_close(found.tokens.patches, codebook[found.codes])
    squares = (seen.patches - codebook[found.codes]).square()
    torch.testing.assert_close(found.losses["commitment"], 2.0 * 0.25 * squares.mean((1, 2)))
    summed = EmaVQ(setup, beta=1.0, reduction="sum")
    summed.load_state_dict({**regularizer.state_dict(), "quantizer._codebook.embed": codebook.unsqueeze(0)})
    torch.testing.assert_close(summed(seen).losses["commitment"], squares.sum((1, 2)))


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_gradients_reach_the_encoder_by_both_ways(setup: Setup, mode: str) -> None:
    regularizer = EmaVQ(setup)
    getattr(regularizer, mode)()
    for part in ("tokens", "losses"):
        seen = tokens(learns=True)
        found = regularizer(seen)
        (found.tokens.patches if part == "tokens" else found.losses["commitment"]).sum().backward()
        assert float(seen.patches.grad.abs().sum()) > 0


@pytest.mark.usefixtures("stand_in")
def test_codes_start_from_the_data_and_the_unused_are_revived(setup: Setup) -> None:
    regularizer, seen = EmaVQ(setup).train(), tokens()
    regularizer.prepare([seen])
    assert nearest_codes(seen.patches, regularizer.codebook).unique().numel() == len(setup.concepts)
    regularizer.place(torch.tensor([0, 3]), torch.full((2, 8), 1000.0))  # no patch will choose these
    regularizer(seen)
    assert regularizer.uses[[0, 3]].tolist() == [0, 0]
    assert int(regularizer.uses.sum()) == 36
    notes = regularizer.end_epoch(seen, torch.clone)
    assert notes["codes_dead"] == 2.0
    assert int(regularizer.uses.sum()) == 0
    assert float(regularizer.codebook.max()) < 10
    regularizer(seen)
    assert int((regularizer.uses == 0).sum()) == 0


@pytest.mark.usefixtures("stand_in")
def test_evaluation_moves_nothing(setup: Setup) -> None:
    regularizer = RotationVQ(setup).eval()
    before = {name: value.clone() for name, value in regularizer.state_dict().items()}
    regularizer(tokens())
    assert all(torch.equal(value, before[name]) for name, value in regularizer.state_dict().items())


@pytest.mark.usefixtures("stand_in")
def test_sizes_and_options(setup: Setup) -> None:
    assert len(EmaVQ(setup, codebook_multiple=5).codebook) == 5 * len(setup.concepts)
    assert len(EmaVQ(setup, codebook_size=1).codebook) == 1
    assert len(EmaVQ(setup, per="group").codebook) == len(setup.concepts.groups)
    assert RotationVQ(setup).quantizer.rotation_trick
    with pytest.raises(UserError, match=r"regularizer\.decay"):
        EmaVQ(setup, decay=1.0)
    with pytest.raises(UserError, match="at least one code"):
        EmaVQ(setup, codebook_multiple=0)


@pytest.mark.skipif(not INSTALLED, reason="vector-quantize-pytorch is not installed (conceptlens[vq])")
def test_the_library_moves_codes_to_the_average_of_their_patches(setup: Setup) -> None:
    """One code, decay d: N ← d + (1 − d) n, sum ← d c + (1 − d) Σ z, c ← sum / N."""
    regularizer, seen = EmaVQ(setup, codebook_size=1, decay=0.9).train(), tokens()
    regularizer.place(torch.tensor([0]), torch.ones(1, 8))
    found = regularizer(seen)
    torch.testing.assert_close(found.tokens.patches, torch.ones(4, 9, 8))
    expected = (0.9 + 0.1 * seen.patches.sum((0, 1))) / (0.9 + 0.1 * 36)
    torch.testing.assert_close(regularizer.codebook[0], expected, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not INSTALLED, reason="vector-quantize-pytorch is not installed (conceptlens[vq])")
@pytest.mark.parametrize("kind", [EmaVQ, RotationVQ])
def test_the_library_passes_gradients_as_its_papers_say(setup: Setup, kind: type[EmaVQ]) -> None:
    """Straight through: g. Rotation trick: (|q| / |z|) Rᵀ g, where R turns z's direction into q's."""
    regularizer, seen = kind(setup).train(), tokens(learns=True)
    regularizer.prepare([tokens()])
    found = regularizer(seen)
    gradient = torch.randn(4, 9, 8, generator=torch.Generator().manual_seed(3))
    found.tokens.patches.backward(gradient)
    for b in range(4):
        for j in range(9):
            z, q, g = seen.patches[b, j].detach(), found.tokens.patches[b, j].detach(), gradient[b, j]
            expected = g
            if kind is RotationVQ:
                e, t = z / z.norm(), q / q.norm()
                r = (e + t) / (e + t).norm()
                turn = torch.eye(8) - 2 * torch.outer(r, r) + 2 * torch.outer(t, e)
                torch.testing.assert_close(turn @ e, t, atol=1e-5, rtol=1e-4)
                expected = q.norm() / z.norm() * turn.T @ g
            torch.testing.assert_close(seen.patches.grad[b, j], expected, atol=1e-4, rtol=1e-3)
