"""A soft foreground map from the principal components of an image's own patches (PF-CBM, section 3.5).

Of the first few components, either way round, the one is taken whose activation is largest in the middle of the image
compared with its border, both after the activation is brought to [0, 1]. `tight` sets to 0 what is below the map's mean
and stretches the rest: what a component marks weakly no longer counts. Used to make a training target only.
"""

import torch
from torch import Tensor

COMPONENTS = 3
WINDOW, BORDER = 0.5, 0.125  # shares of a side: the window in the middle, the frame along the edge
ROUNDS = 12


def principal_components(centered: Tensor, count: int, rounds: int = ROUNDS) -> Tensor:
    """Directions (B, D, count) of largest variance of rows (B, L, D) that have mean zero, largest first.

    Orthogonal iteration on twice as many directions, from a fixed start: a few products with the rows in place of a
    decomposition of each image's covariance.
    """
    batch, rows, width = centered.shape
    wide = min(2 * count, rows, width)
    start = torch.randn(width, wide, generator=torch.Generator().manual_seed(0)).to(centered)
    basis = orthonormal(start.expand(batch, -1, -1))
    for _ in range(rounds):
        basis = orthonormal(centered.mT @ (centered @ basis))
    basis = orthonormal(basis)  # what rounding left
    projected = centered @ basis
    order = torch.linalg.eigh(projected.mT @ projected).eigenvectors.flip(-1)
    found: Tensor = (basis @ order)[..., :count]
    return found


def orthonormal(columns: Tensor) -> Tensor:
    """An orthonormal basis (B, D, n) of the span of columns (B, D, n), by Cholesky's factor of their products.

    A QR decomposition would go through the matrices of a batch one by one on a GPU. Squaring doubles the digits that
    are needed, hence fp64; columns of zeros stay zero.
    """
    fine = torch.nn.functional.normalize(columns.double(), dim=-2, eps=torch.finfo(torch.float32).tiny)
    gram = fine.mT @ fine
    gram = gram + 1e-14 * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    factor, _ = torch.linalg.cholesky_ex(gram)
    found: Tensor = torch.linalg.solve_triangular(factor.mT, fine, upper=True, left=False)
    return found.to(columns.dtype)


@torch.no_grad()
def pca_foreground(patches: Tensor, grid: tuple[int, int], *, tight: bool = False) -> Tensor:
    """Patches (B, L, D) → a map (B, L) in [0, 1]."""
    rows = patches.float()
    centered = rows - rows.mean(1, keepdim=True)
    count = min(COMPONENTS, *centered.shape[1:])
    along = (centered @ principal_components(centered, count)).mT  # (B, components, L)
    both = stretched(torch.cat((along, -along), 1))
    window, border = windows(grid, patches.device)
    middle, edge = ((both * part).sum(-1) / part.sum() for part in (window, border))
    best = (middle - edge).argmax(1)
    found = both[torch.arange(len(both), device=both.device), best]
    return stretched((found - found.mean(-1, keepdim=True)).clamp_min(0)) if tight else found


def stretched(maps: Tensor) -> Tensor:
    """Maps (…, L) brought to [0, 1]; the same everywhere: zero."""
    low, high = maps.amin(-1, keepdim=True), maps.amax(-1, keepdim=True)
    return (maps - low) / (high - low).clamp_min(1e-12)


def windows(grid: tuple[int, int], device: torch.device) -> tuple[Tensor, Tensor]:
    """The patches of the window in the middle and of the frame along the edge, (L,) of 0 and 1; never empty."""

    def inside(share: float) -> Tensor:
        near = []
        for side in grid:
            away = (torch.arange(side, device=device) + 0.5 - side / 2).abs()
            near.append(away <= max(share * side / 2, 0.5))
        return (near[0][:, None] & near[1][None, :]).flatten()

    edge = ~inside(1 - 2 * max(BORDER, 1 / min(grid)))
    return inside(WINDOW).float(), (edge if bool(edge.any()) else torch.ones_like(edge)).float()
