"""Gram anchoring: patches shall stay as similar to each other as they were at the start (Siméoni et al., DINOv3, 2025).

With the patches of an image at unit length as rows of X, and those of a frozen anchor as rows of X_G,

    ‖X Xᵀ − X_G X_Gᵀ‖²_F.

Features may move as long as their mutual similarities stay. The anchor is the encoder that training started from.
"""

from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.nn.regularizers.regularizer import NOTHING, Context, Regularized, Regularizer, check_not_negative
from conceptlens.nn.setup import Setup


def similarities(patches: Tensor) -> Tensor:
    """Cosine of every pair of patches of an image: (B, L, D) → (B, L, L)."""
    unit = F.normalize(patches.float(), dim=-1)
    return unit @ unit.transpose(1, 2)


def gram_loss(
    patches: Tensor, anchor: Tensor, *, drop_negative: bool = False, reduction: Literal["mean", "sum"] = "mean"
) -> Tensor:
    """‖X Xᵀ − X_G X_Gᵀ‖² per image, (B,), for patches (B, L, D) of the encoder and of its anchor."""
    ours, theirs = similarities(patches), similarities(anchor)
    if drop_negative:
        ours, theirs = ours.clamp_min(0), theirs.clamp_min(0)
    squares = (ours - theirs).square().flatten(1)
    return squares.sum(1) if reduction == "sum" else squares.mean(1)


class Gram(Regularizer):
    """The anchor reads the same images as the encoder; the tokens pass unchanged."""

    anchored = True

    def __init__(
        self,
        setup: Setup,
        *,
        weight: float = 1.0,
        drop_negative: bool = False,
        reduction: Literal["mean", "sum"] = "mean",
    ) -> None:
        """Gram anchoring to the start encoder.

        Args:
            setup: What the model is built for.
            weight: Weight of the term in the total loss.
            drop_negative: Count negative similarities as 0, as the published code does by default.
            reduction: `mean` over pairs of patches, as the published code; `sum` as the norm is printed.
        """
        super().__init__()
        check_not_negative(weight=weight)
        self.weight, self.drop_negative, self.reduction = weight, drop_negative, reduction
        self._anchor: tuple[Encoder, ...] = ()  # in a tuple, so that it is no part of this module and of what is saved

    def attach(self, encoder: Encoder) -> None:
        self._anchor = (deepcopy(encoder).requires_grad_(False).eval(),)

    def detach(self) -> None:
        self._anchor = ()

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        if not self._anchor or context.images is None or not torch.is_grad_enabled():
            return Regularized(tokens)  # nothing learns, so there is nothing to hold
        with torch.no_grad():
            anchor = self._anchor[0].encode(context.images).patches
        with torch.autocast(tokens.patches.device.type, enabled=False):
            loss = gram_loss(tokens.patches, anchor, drop_negative=self.drop_negative, reduction=self.reduction)
        return Regularized(tokens, {"gram": self.weight * loss})
