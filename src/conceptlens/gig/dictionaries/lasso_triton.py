"""Coordinate descent of the lasso on a GPU as one kernel: one program a vector, all coordinates of all sweeps in it.

By torch alone every coordinate is five launches, and the GPU waits for the host. Here a vector's coefficients and
correlations stay on the chip; each step reads one row of its inner products.
"""

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

MOST = 1024  # coordinates that a program can hold


def fits(matrices: Tensor) -> bool:
    """Whether the kernel is made for these inner products (B, m, m)."""
    return matrices.dtype == torch.float32 and matrices.shape[1] <= MOST


def sweep(matrices: Tensor, slack: Tensor, u: Tensor, limit: Tensor, sweeps: int) -> tuple[Tensor, Tensor]:
    """⟨v_j, residual⟩ and coefficients (B, m) after some sweeps; see `lasso._sweep`."""
    batch, size = u.shape
    slack, u = slack.clone().contiguous(), u.clone().contiguous()
    width = max(16, triton.next_power_of_2(size))
    kernel: Any = _kernel
    kernel[(batch,)](
        matrices.contiguous(), slack, u, limit.contiguous(), size, sweeps, WIDTH=width, num_warps=max(1, width // 128)
    )
    return slack, u


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(products, slack, u, limit, size, sweeps, WIDTH: tl.constexpr):  # type: ignore[no-untyped-def]
    vector = tl.program_id(0).to(tl.int64)
    products += vector * size * size
    place = tl.arange(0, WIDTH)
    inside = place < size
    mine = vector * size + place
    residual = tl.load(slack + mine, mask=inside, other=0.0)
    weight = tl.load(u + mine, mask=inside, other=0.0)
    bounds = tl.load(limit + mine, mask=inside, other=0.0)
    for _ in range(sweeps):
        for j in range(size):
            here = place == j
            row = tl.load(products + j * size + place, mask=inside, other=0.0)
            old = tl.sum(tl.where(here, weight, 0.0))
            free = tl.sum(tl.where(here, residual + weight, 0.0))
            bound = tl.sum(tl.where(here, bounds, 0.0))
            new = free - tl.minimum(tl.maximum(free, -bound), bound)  # what is left beyond ±λ_j
            residual -= row * (new - old)
            weight = tl.where(here, new, weight)
    tl.store(slack + mine, residual, mask=inside)
    tl.store(u + mine, weight, mask=inside)
