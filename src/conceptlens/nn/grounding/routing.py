"""Fixed routing: each concept reads one slot, by copying it (PF-CBM, section 3.4, Eq. 5 and 6).

    R_c = T_{c2p[c]}      ℓ_c = R_c · W_c + b_c

The copy is what guarantees that a concept's score cannot depend on any other slot, whatever training does. It
guarantees slots, not pixels: patches of a transformer have seen the whole image.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RoutedScores(nn.Module):
    """Slots (B, S, d) → concept logits (B, K).

    Args:
        slot: (K,) the slot that each concept reads.
        width: d.
    """

    slot: Tensor

    def __init__(self, slot: Tensor, width: int) -> None:
        super().__init__()
        self.register_buffer("slot", slot, persistent=False)
        bound = 1 / math.sqrt(width)  # as a linear layer starts
        self.weight = nn.Parameter(torch.empty(len(slot), width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(len(slot)).uniform_(-bound, bound))

    def forward(self, slots: Tensor) -> Tensor:
        # Every concept of every slot, and of those each concept's own: one product, where a copy of the slot for each
        # concept would be read and written many times over. What other slots score is dropped, not weighed.
        with torch.autocast(slots.device.type, enabled=False):
            scores = F.linear(slots.to(self.weight.dtype), self.weight, self.bias)  # (B, S, K)
        return scores.gather(1, self.slot.expand(slots.shape[0], 1, -1)).squeeze(1)
