"""LF-CBM's concept projection: a linear map whose outputs vary over the images as target activations do.

Label-Free Concept Bottleneck Models (T. Oikarinen et al., ICLR 2023), section 3.3. The similarity of a concept's
outputs q and targets p over N images is the cosine of (q̄)³ and (p̄)³, q̄ and p̄ being standardized: the cube lets the
images with the strongest activations speak loudest.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

Rows = Callable[
    [npt.NDArray[np.int64]], tuple[Tensor, Tensor]
]  # rows → vectors (n, D) and targets (n, K), on the device


def cubed_cosine(outputs: Tensor, targets: Tensor) -> Tensor:
    """The similarity of each concept's outputs and targets, (N, K) each → (K,)."""
    return F.cosine_similarity(_cubed(outputs), _cubed(targets), dim=0)


def _cubed(values: Tensor) -> Tensor:
    centered = values - values.mean(0)
    return (centered / centered.square().mean(0).sqrt().clamp_min(1e-12)) ** 3


@dataclass(frozen=True)
class Projection:
    """W_c and how well it does on held-out images."""

    weight: Tensor  # (K, D)
    similarity: Tensor  # (K,) on validation
    steps: int  # after which it was taken


def fit_projection(
    train: tuple[Rows, int],
    val: tuple[Rows, int],
    *,
    seed: int,
    rate: float = 1e-3,
    steps: int = 1000,
    check_every: int = 50,
    batch: int = 50_000,
) -> Projection:
    """Maximize the mean similarity by Adam; stop at the first check at which validation does not gain.

    Args:
        train: What reads training images, and their number.
        val: The same for validation.
        seed: Of the start and of the batches.
        rate: Adam's.
        steps: At most so many.
        check_every: Steps between looks at validation.
        batch: Images a step; all of them if there are not more.
    """
    read, n = train
    chance = np.random.default_rng([seed, 13])
    x, p = read(np.arange(n) if n <= batch else np.sort(chance.choice(n, batch, replace=False)))
    held_x, held_p = val[0](np.arange(val[1]))
    bound = x.shape[1] ** -0.5
    start = torch.empty(p.shape[1], x.shape[1]).uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
    weight = start.to(x).requires_grad_()
    optimizer = torch.optim.Adam([weight], lr=rate)
    best: Projection | None = None
    for step in range(steps + 1):
        if step % check_every == 0 or step == steps:
            with torch.no_grad():
                similarity = cubed_cosine(held_x @ weight.T, held_p)
            if best is not None and float(similarity.mean()) <= float(best.similarity.mean()):
                break
            best = Projection(weight.detach().clone(), similarity, step)
        loss = -cubed_cosine(x @ weight.T, p).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if n > batch:
            x, p = read(np.sort(chance.choice(n, batch, replace=False)))
    assert best is not None  # the start was looked at
    return best
