"""Sinkhorn iterations as matrix-vector products, with potentials absorbed into the kernel from time to time.

B. Schmitzer, Stabilized Sparse Scaling Algorithms for Entropy Regularized Transport Problems, SIAM J. Sci. Comput.,
2019. With K_ij = exp(f_i + g_j − C_ij), an iteration is u = a / (K v), v = b / (Kᵀ u): no exponentials. Every few
iterations ln u and ln v go into f and g, and K is made anew. Should they grow beyond what the precision of K bears, as
happens while a plan of a small ε is far from its solution, fewer iterations are done at a time. One iteration alone
moves ln u and ln v by no more than the smallest mass allows; an image out of range even so takes it by logsumexp.
"""

from collections.abc import Callable

import torch
from torch import Tensor

FIRST, MOST = 4, 32  # iterations between two absorptions: at the start, and once little changes
LARGEST = 15.0  # of |ln u| and |ln v| within a block
CUT = -60.0  # ln K below which an entry is left out: e^(−60 + 2 · 15) of a mass, and no slow subnormal numbers

LogDomain = Callable[[Tensor, Tensor, Tensor, int, Tensor | None], tuple[Tensor, Tensor]]


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """(B, L, K) · (B, K) → (B, L), in full precision."""
    if matrix.is_cuda:  # a product of matrices might be allowed to round its inputs there
        return (matrix * vector.unsqueeze(1)).sum(2)
    return torch.bmm(vector.unsqueeze(1), matrix.mT).squeeze(1)  # a row from the left is ten times as fast as a column


def solve(
    cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float, log_domain: LogDomain
) -> tuple[Tensor, Tensor]:
    """Potentials f (B, L) and g (B, K) in units of ε.

    Args:
        cost: (B, L, K) in units of ε.
        log_a: ln a, (B, L).
        log_b: ln b, (B, K).
        iterations: At most so many.
        tolerance: An image is done when the last iteration of a block changes no g by more; 0: never.
        log_domain: The same steps by logsumexp.
    """
    f, g = log_domain(cost, log_a, log_b, 1, None)  # from here on the columns of K sum to b: its entries are bounded
    open_images = torch.arange(len(cost), device=cost.device)
    done, block = 1, FIRST
    while done < iterations and len(open_images):
        steps = min(block, iterations - done)
        at = slice(None) if len(open_images) == len(cost) else open_images
        c, la, lb, old_g = cost[at], log_a[at], log_b[at], g[at]
        log_u, log_v, change = _block(c, la, lb, f[at], old_g, steps)
        reach = torch.maximum(log_u.abs().amax(1), log_v.abs().amax(1)).nan_to_num(nan=torch.inf)
        far = reach > LARGEST
        if bool(far.any()) and steps > 1:
            block = steps // 2
            continue
        new_f, new_g = f[at] + log_u, old_g + log_v
        if bool(far.any()):
            new_f[far], new_g[far] = log_domain(c[far], la[far], lb[far], 1, old_g[far])
        elif float(reach.max()) < LARGEST / 4:
            block = min(2 * block, MOST)
        f[at], g[at] = new_f, new_g
        done += steps
        if tolerance > 0:
            open_images = open_images[far | (change > tolerance)]
    return f, g


def _block(
    cost: Tensor, log_a: Tensor, log_b: Tensor, f: Tensor, g: Tensor, steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """ln u, ln v after some iterations from 1, and the largest change of ln v in the last of them, (B,)."""
    kernel = f.unsqueeze(2) + g.unsqueeze(1)
    kernel -= cost
    kernel = kernel.masked_fill_(kernel < CUT, -torch.inf).exp_()
    flipped = kernel.mT
    a, b = log_a.exp(), log_b.exp()
    v = before = torch.ones_like(b)
    u = torch.ones_like(a)
    for _ in range(steps):
        before = v
        u = a / times(kernel, v)
        v = b / times(flipped, u)
    log_u, log_v = u.log(), v.log()
    return log_u, log_v, (log_v - before.log()).abs().amax(1)
