"""Scores of a distribution of vectors, learned by sliced score matching, and Langevin steps along them.

Sliced score matching (Song et al., UAI 2019), with the expectation over directions v ~ N(0, I) taken where it is known:

    L(x) = ½ ‖s(x)‖² + vᵀ ∇ₓ(vᵀ s(x))          s(x) → ∇ₓ log p(x)

Langevin steps: x ← x + ε/2 · s(x) + √ε z, z ~ N(0, I). CLEAR (Dikter et al., WACV 2025) learns s from the vectors of
texts and images in one vision-language space and takes the steps from its concept vectors.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScoreNet(nn.Sequential):
    """s: two hidden layers with sigmoids, as in CLEAR's published code."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(
            nn.Linear(width, hidden), nn.Sigmoid(), nn.Linear(hidden, hidden), nn.Sigmoid(), nn.Linear(hidden, width)
        )


def sliced_score_loss(score: nn.Module, x: Tensor, directions: Tensor) -> Tensor:
    """L of each x, (B,), with a graph to the parameters of the score; x and directions (B, D)."""
    x = x.detach().requires_grad_()
    found = score(x)
    (slope,) = torch.autograd.grad((found * directions).sum(), x, create_graph=True)
    loss: Tensor = 0.5 * found.square().sum(-1) + (directions * slope).sum(-1)
    return loss


def fit_score(
    kinds: Sequence[Tensor], *, hidden: int, steps: int, batch: int, rate: float, seed: int
) -> tuple[ScoreNet, float]:
    """A score of all kinds of vectors together, frozen, and its mean loss over the last tenth of the steps.

    Args:
        kinds: Vectors (N, D) each, such as texts and images; they take turns, so that no kind outweighs another.
        hidden: Width of the hidden layers.
        steps: Of Adam.
        batch: Vectors a step.
        rate: Adam's.
        seed: Of the start, the batches and the directions.
    """
    device = kinds[0].device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = ScoreNet(kinds[0].shape[1], hidden).to(device)
    chance = torch.Generator(device).manual_seed(seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=rate)
    total, counted = torch.zeros((), device=device), 0
    for step in range(steps):
        kind = kinds[step % len(kinds)]
        rows = kind[torch.randint(len(kind), (min(batch, len(kind)),), generator=chance, device=device)]
        directions = torch.randn(rows.shape, generator=chance, device=device)
        loss = sliced_score_loss(net, rows, directions).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step >= steps - max(steps // 10, 1):
            total, counted = total + loss.detach(), counted + 1
    return net.requires_grad_(False), float(total / max(counted, 1))


def langevin(score: nn.Module, x: Tensor, *, step: float, steps: int, chance: torch.Generator) -> Tensor:
    """x (B, D) after so many Langevin steps of size ε; gradients reach the start."""
    for _ in range(steps):
        noise = torch.randn(x.shape, generator=chance, device=x.device, dtype=x.dtype)
        x = x + 0.5 * step * score(x) + step**0.5 * noise
    return x
