"""A learnable Gaussian for each part, added to its attention logits (PF-CBM, section 3.3, Eq. 2 and 4).

    prior_pn = −‖Φ_n − μ_p‖² / (2 σ_p²) − log σ_p

Φ_n is the center of patch n as (row, column) in patches, counted from the upper left corner of the image, so a patch's
center is at a half. `diagonal` and `full` go beyond the paper, for elongated parts: with the precision LLᵀ of a lower
triangular L, the term is −½‖Lᵀ(Φ_n − μ_p)‖² + ½ log det L, which for L = 1/σ is that of the paper.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

Shape = Literal["isotropic", "diagonal", "full"]
SIGMA, PAPER_GRID = 5.0, 32  # the paper's width in patches belongs to its grid of 32 × 32


def patch_centers(grid: tuple[int, int], like: Tensor) -> Tensor:
    """Φ, (L, 2): row and column of each patch's center, in patches."""
    rows, columns = (torch.arange(0.5, side, device=like.device, dtype=torch.float32) for side in grid)
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij"), -1).reshape(-1, 2)


class GaussianPrior(nn.Module):
    """Where each of P parts is expected.

    Args:
        parts: P.
        sigma: Width at the start, in patches; by default the paper's share of the grid, once that is known.
        shape: One width a part as the paper, one for rows and one for columns, or any ellipse.
        rate: Learning rate of means and widths, relative to the stage's.
    """

    start_means: Tensor
    start_scale: Tensor

    def __init__(
        self, parts: int, *, sigma: float | None = None, shape: Shape = "isotropic", rate: float = 1.0
    ) -> None:
        super().__init__()
        self.shape, self.scales = shape, sigma is None
        sigma = SIGMA if sigma is None else sigma
        self.means = nn.Parameter(torch.zeros(parts, 2))
        self.log_sigma = nn.Parameter(torch.full((parts, 1 if shape == "isotropic" else 2), math.log(sigma)))
        self.slant = nn.Parameter(torch.zeros(parts)) if shape == "full" else None
        for parameter in self.parameters():
            parameter.rate = rate  # type: ignore[attr-defined]  # read by the optimizer
        # Kept for the eye: what training made of them.
        self.register_buffer("start_means", torch.zeros(parts, 2))
        self.register_buffer("start_scale", torch.full((parts, 2), sigma))

    @torch.no_grad()
    def start(self, means: Tensor, sigma: Tensor | None = None, *, grid: tuple[int, int] | None = None) -> None:
        """Begin at these means (P, 2), in patches, and at these widths (P,), or at the default of a grid (h, w)."""
        self.means.copy_(means)
        self.start_means.copy_(means)
        if sigma is None and self.scales and grid is not None:
            sigma = means.new_full((len(means),), SIGMA * math.sqrt(grid[0] * grid[1]) / PAPER_GRID)
        if sigma is not None:
            self.log_sigma.copy_(sigma.log()[:, None].expand_as(self.log_sigma))
        self.start_scale.copy_(self.log_sigma.exp().expand(-1, 2))

    def forward(self, places: Tensor) -> Tensor:
        """Places (…, L, 2) → (…, P, L), in float32. Places of one image are those of all, or each has its own frame."""
        away = places.float().unsqueeze(-3) - self.means.float()[:, None]  # (…, P, L, 2)
        log_sigma = self.log_sigma.float()
        if self.shape == "isotropic":
            return torch.addcmul(-log_sigma, away.square().sum(-1), torch.exp(-2 * log_sigma), value=-0.5)
        rows, columns = (away / log_sigma.exp()[:, None]).unbind(-1)
        if self.slant is not None:
            rows = rows + self.slant.float()[:, None] * columns
        return -(rows.square() + columns.square()) / 2 - log_sigma.mean(-1, keepdim=True)

    @torch.no_grad()
    def ellipses(self) -> tuple[Tensor, Tensor]:
        """Means (P, 2) and covariances (P, 2, 2), in patches."""
        sigma = self.log_sigma.float().exp().expand(-1, 2)
        factor = torch.diag_embed(1 / sigma)  # rows of Lᵀ: (Φ − μ) → what is squared
        if self.slant is not None:
            factor[:, 0, 1] = self.slant.float() / sigma[:, 1]
        return self.means.float().clone(), torch.linalg.inv(factor.mT @ factor)


def mean_places(points: Tensor, seen: Tensor) -> Tensor:
    """Eq. 4: the mean place of each part over the images in which it is visible, (P, 2); NaN for one that never is.

    Args:
        points: (N, P, 2).
        seen: (N, P), bool.
    """
    shown = seen.unsqueeze(-1)
    return torch.where(shown, points, 0).sum(0) / shown.sum(0).where(shown.any(0), torch.nan)
