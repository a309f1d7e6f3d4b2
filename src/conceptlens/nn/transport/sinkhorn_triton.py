"""Sinkhorn iterations on a GPU as one kernel: an image's potentials stay on the chip for all iterations.

One program an image reads the cost row by row, makes the rows right and sums the columns of what comes out, so that
each iteration reads the cost once, from cache, and takes one exponential an entry. The last iteration's row potentials
keep the exponents near zero, so that no maximum has to be found first, and columns are added up once an iteration, not
once a tile: what is left to wait for is one sum along the rows. Where a sum leaves the range of float32, as happens
before a plan of a small ε settles, that iteration is done again by logsumexp, first over rows, then over columns.
"""

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

MOST_COLUMNS = 2048  # that a program can hold
TILE = 4096  # entries it looks at together
WARPS = 8
STAGES = 2  # tiles that are on their way


def fits(cost: Tensor) -> bool:
    """Whether the kernel is made for this cost."""
    return cost.dtype == torch.float32 and cost.shape[2] <= MOST_COLUMNS


def solve(cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float) -> tuple[Tensor, Tensor]:
    """Potentials f (B, L) and g (B, K) in units of ε; see `sinkhorn.potentials`."""
    images, rows, columns = cost.shape
    f, g = cost.new_empty(images, rows), cost.new_empty(images, columns)
    width = triton.next_power_of_2(columns)
    kernel: Any = _kernel
    kernel[(images,)](
        cost.contiguous(),
        log_a.contiguous(),
        log_b.contiguous(),
        f,
        g,
        rows,
        columns,
        iterations,
        tolerance,
        ROWS=max(1, TILE // width),
        COLUMNS=width,
        STAGES=STAGES,
        num_warps=WARPS,
    )
    return f, g


@triton.jit  # type: ignore[untyped-decorator]
def _row_terms(cost, log_a, potential, start, n, m, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of some rows: their cost, e_ij ∝ exp(g_j − C_ij) with its sum over j, f, which rows exist, and their ln a."""
    rows = start + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    here, inside = rows < n, columns < m
    c = tl.load(cost + rows[:, None] * m + columns[None, :], mask=here[:, None] & inside[None, :], other=0.0)
    mass = tl.load(log_a + rows, mask=here, other=0.0)
    x = tl.where(inside[None, :], potential[None, :] - c, -float("inf"))
    peak = tl.max(x, 1)
    e = tl.exp(x - peak[:, None])
    total = tl.sum(e, 1)
    return c, e, total, mass - peak - tl.log(total), here, mass


@triton.jit  # type: ignore[untyped-decorator]
def _kernel(  # type: ignore[no-untyped-def]
    cost,
    log_a,
    log_b,
    f,
    g,
    n,
    m,
    iterations,
    tolerance,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    cost += image * n * m
    log_a += image * n
    log_b += image * m
    f += image * n
    g += image * m
    columns = tl.arange(0, COLUMNS)
    inside = columns < m
    wanted = tl.load(log_b + columns, mask=inside, other=0.0)
    potential = tl.zeros([COLUMNS], dtype=tl.float32)
    change = tolerance + 1.0
    step = 0
    for start in range(0, n, ROWS):
        rows = start + tl.arange(0, ROWS)
        tl.store(f + rows, tl.zeros([ROWS], dtype=tl.float32), mask=rows < n)
    while (step < iterations) & (change > tolerance):
        tl.debug_barrier()  # f was written by other threads
        plan = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        least = tl.full([ROWS], 1.0, dtype=tl.float32)
        most = tl.full([ROWS], 1.0, dtype=tl.float32)
        for start in tl.range(0, n, ROWS, num_stages=STAGES):
            rows = start + tl.arange(0, ROWS)
            here = rows < n
            valid = here[:, None] & inside[None, :]
            c = tl.load(cost + rows[:, None] * m + columns[None, :], mask=valid, other=0.0)
            mass = tl.load(log_a + rows, mask=here, other=0.0)
            before = tl.load(f + rows, mask=here, other=0.0)
            e = tl.where(valid, tl.exp(before[:, None] + potential[None, :] - c), 0.0)
            total = tl.where(here, tl.sum(e, 1), 1.0)
            tl.store(f + rows, before + mass - tl.log(total), mask=here)
            plan += e * (tl.exp(mass) / total)[:, None]
            least, most = tl.minimum(least, total), tl.maximum(most, total)
        found = tl.sum(plan, 0)
        if (tl.min(least, 0) < 1e-25) | (tl.max(most, 0) > 1e25):
            found = tl.zeros([COLUMNS], dtype=tl.float32)
            for start in range(0, n, ROWS):
                c, e, total, row, here, mass = _row_terms(cost, log_a, potential, start, n, m, ROWS, COLUMNS)
                tl.store(f + start + tl.arange(0, ROWS), row, mask=here)
                found += tl.sum(e * tl.where(here, tl.exp(mass) / total, 0.0)[:, None], 0)
        new = potential + wanted - tl.log(found)
        if tl.min(tl.where(inside, found, 1.0)) < 1e-25:  # entries that have vanished in float32 may count here
            top = tl.full([COLUMNS], -1e30, dtype=tl.float32)
            found = tl.zeros([COLUMNS], dtype=tl.float32)
            for start in range(0, n, ROWS):
                c, e, total, row, here, mass = _row_terms(cost, log_a, potential, start, n, m, ROWS, COLUMNS)
                y = tl.where(here[:, None], row[:, None] - c, -float("inf"))
                higher = tl.maximum(top, tl.max(y, 0))
                found = found * tl.exp(top - higher) + tl.sum(tl.exp(y - higher[None, :]), 0)
                top = higher
            new = wanted - top - tl.log(found)
        new = tl.where(inside, new, 0.0)
        change = tl.max(tl.abs(new - potential))
        potential = new
        step += 1
    tl.store(g + columns, potential, mask=inside)
