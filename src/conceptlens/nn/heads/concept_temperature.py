"""A temperature for each concept (PF-CBM, Eq. 6): ℓ_c / τ_c with τ_c = clamp(exp λ_c, 0.5, 5)."""

import torch
from torch import Tensor, nn

LOWEST, HIGHEST = 0.5, 5.0


class ConceptTemperature(nn.Module):
    """Logits (B, K) → logits (B, K), softer or sharper."""

    def __init__(self, concepts: int) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.zeros(concepts))

    @property
    def value(self) -> Tensor:
        """τ, (K,)."""
        return self.log.exp().clamp(LOWEST, HIGHEST)

    def forward(self, logits: Tensor) -> Tensor:
        return logits / self.value.to(logits.dtype)
