"""Barlow Twins against numbers worked out by hand, a naive float64 loop, and one process where two share the batch."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.regularizers.barlow_twins import BarlowTwins, barlow_loss, cross_correlation
from conceptlens.nn.regularizers.regularizer import Context
from conceptlens.nn.setup import Setup


def test_correlation_by_hand() -> None:
    # Channel 0 goes up in both views, channel 1 up in the first and down in the second.
    first = torch.tensor([[1.0, 10.0], [2.0, 20.0]])
    second = torch.tensor([[5.0, 1.0], [9.0, 0.0]])
    torch.testing.assert_close(cross_correlation(first, second), torch.tensor([[1.0, -1.0], [1.0, -1.0]]))


def test_loss_by_hand() -> None:
    # Diagonal 0.5 and 1: (1 − 0.5)² + 0; off the diagonal 0.2 and −0.4: λ (0.04 + 0.16).
    correlation = torch.tensor([[0.5, 0.2], [-0.4, 1.0]])
    assert barlow_loss(correlation, 0.1).item() == pytest.approx(0.25 + 0.02)


def naive(first: Tensor, second: Tensor, off_diagonal: float) -> float:
    total, width = 0.0, first.shape[1]
    for i in range(width):
        for j in range(width):
            a, b = first[:, i] - first[:, i].mean(), second[:, j] - second[:, j].mean()
            c = float((a * b).sum() / (a.norm() * b.norm()))
            total += (1 - c) ** 2 if i == j else off_diagonal * c**2
    return total


@pytest.mark.parametrize("over", ["images", "patches"])
def test_equals_a_naive_loop(setup: Setup, over: str) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(5, 4, 8), torch.randn(5, 4, 8)
    regularizer = BarlowTwins(setup, weight=2.0, over=over, off_diagonal=0.1)
    found = regularizer(Tokens(first, (2, 2)), Context(second=Tokens(second, (2, 2))))
    assert found.tokens.patches is first
    rows = (
        (first.double().mean(1), second.double().mean(1))
        if over == "images"
        else (first.double().reshape(20, 8), second.double().reshape(20, 8))
    )
    assert found.losses["barlow"].shape == (5,)  # one value for every image: its mean over the batch is the loss
    assert found.losses["barlow"].mean().item() == pytest.approx(2.0 * naive(*rows, 0.1) / 8, rel=1e-4)
    printed = BarlowTwins(setup, weight=2.0, over=over, off_diagonal=0.1, reduction="sum")
    whole = printed(Tokens(first, (2, 2)), Context(second=Tokens(second, (2, 2)))).losses["barlow"].mean()
    assert whole.item() == pytest.approx(2.0 * naive(*rows, 0.1), rel=1e-4)


def test_gradient_is_that_of_differences(setup: Setup) -> None:
    torch.manual_seed(1)
    first, second = (torch.randn(6, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda a, b: barlow_loss(cross_correlation(a, b), 0.3), (first, second))


def test_both_views_learn_and_without_a_second_there_is_no_loss(setup: Setup) -> None:
    first, second = torch.randn(4, 4, 8, requires_grad=True), torch.randn(4, 4, 8, requires_grad=True)
    regularizer = BarlowTwins(setup)
    assert regularizer(Tokens(first, (2, 2))).losses == {}
    regularizer(Tokens(first, (2, 2)), Context(second=Tokens(second, (2, 2)))).losses["barlow"].sum().backward()
    for view in (first, second):
        assert view.grad is not None
        assert float(view.grad.abs().sum()) > 0


def test_a_channel_that_never_changes_is_no_danger(setup: Setup) -> None:
    first = torch.randn(4, 4, 8)
    first[..., 3] = 7.0
    first.requires_grad_()
    loss = BarlowTwins(setup)(Tokens(first, (2, 2)), Context(second=Tokens(first, (2, 2)))).losses["barlow"]
    loss.sum().backward()
    assert bool(torch.isfinite(loss).all())
    assert bool(torch.isfinite(first.grad).all())


def test_a_descent_on_the_loss_raises_the_rank() -> None:
    """What it is for: channels that say the same part."""
    torch.manual_seed(0)
    features = torch.randn(64, 1) @ torch.ones(1, 6) + 0.1 * torch.randn(64, 6)
    features.requires_grad_()
    optimizer = torch.optim.Adam([features], lr=0.05)

    def worst() -> float:
        correlation = cross_correlation(features, features).detach()
        return float((correlation - torch.eye(6)).abs().max())

    assert worst() > 0.9
    for _ in range(300):
        optimizer.zero_grad()
        barlow_loss(cross_correlation(features, features + 0.01 * torch.randn(64, 6)), 0.1).backward()
        optimizer.step()
    assert worst() < 0.3


def test_options_out_of_range(setup: Setup) -> None:
    with pytest.raises(UserError, match=r"regularizer\.color"):
        BarlowTwins(setup, color=1.0)
    with pytest.raises(UserError, match=r"regularizer\.weight"):
        BarlowTwins(setup, weight=-1)


SHARE = """
import sys
import torch
from conceptlens.nn.regularizers.barlow_twins import barlow_loss, cross_correlation

rank, store = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
torch.manual_seed(0)
rows, other, weight = torch.randn(8, 5), torch.randn(8, 5), torch.randn(5, 5, requires_grad=True)
mine = slice(0, 3) if rank == 0 else slice(3, 8)  # unequal shares
loss = barlow_loss(cross_correlation(rows[mine] @ weight, other[mine] @ weight), 0.2)
share = len(rows[mine]) / 8 * loss  # as training does: each process adds its images' part of the loss
share.backward()
torch.distributed.all_reduce(weight.grad)
if rank == 0:
    print(float(loss), *weight.grad.flatten().tolist())
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_have_the_loss_and_the_gradient_of_one(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHARE]
    pair = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store"), str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=120)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    together = torch.tensor([float(word) for word in said[0].split()])
    torch.manual_seed(0)
    rows, other, weight = torch.randn(8, 5), torch.randn(8, 5), torch.randn(5, 5, requires_grad=True)
    loss = barlow_loss(cross_correlation(rows @ weight, other @ weight), 0.2)
    loss.backward()
    assert weight.grad is not None
    alone = torch.cat([loss.detach().view(1), weight.grad.flatten()])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-4)
