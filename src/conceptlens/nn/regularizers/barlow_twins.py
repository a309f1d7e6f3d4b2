"""Barlow Twins: two views of an image shall agree, and no two channels shall say the same (Zbontar et al., ICML 2021).

C is the cross-correlation of the channels of two views, and the loss (their Eq. 1 and 2)

    Σ_i (1 − C_ii)² + λ Σ_{i ≠ j} C_ij².

It is taken on the tokens themselves: behind a projector, as in self-supervised learning, the projector would be
decorrelated and not the tokens whose rank is at stake. The statistics are those of the batch, over all processes;
where a batch is cut by `training.accumulate`, each piece has its own.
"""

from typing import Literal

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.regularizers.global_sum import global_sum
from conceptlens.nn.regularizers.regularizer import (
    NOTHING,
    Context,
    Regularized,
    Regularizer,
    SecondView,
    check_not_negative,
)
from conceptlens.nn.setup import Setup

TINY = 1e-12  # of a channel that never changes; it correlates with nothing


def cross_correlation(first: Tensor, second: Tensor) -> Tensor:
    """C (D, D) of the channels of two views, rows (N, D) each, over the rows of all processes."""
    rows = global_sum(torch.full((), float(len(first)), device=first.device))
    both = torch.stack((first, second))
    mean = global_sum(both.sum(1)) / rows  # (2, D)
    a, b = both - mean.unsqueeze(1)
    lengths = global_sum(torch.stack((a, b)).square().sum(1)).clamp_min(TINY).sqrt()
    return global_sum(a.T @ b) / (lengths[0].unsqueeze(1) * lengths[1])


def barlow_loss(correlation: Tensor, off_diagonal: float) -> Tensor:
    """Their Eq. 1 for C (D, D); a scalar."""
    diagonal = correlation.diagonal()
    agree = (1 - diagonal).square().sum()
    redundant = correlation.square().sum() - diagonal.square().sum()
    return agree + off_diagonal * redundant


class BarlowTwins(Regularizer):
    """Invariance to the view and decorrelation of the channels; the tokens pass unchanged."""

    def __init__(
        self,
        setup: Setup,
        *,
        weight: float = 1.0,
        over: Literal["images", "patches"] = "images",
        off_diagonal: float = 0.005,
        color: float = 0.4,
        reduction: Literal["mean", "sum"] = "mean",
    ) -> None:
        """Barlow Twins.

        Args:
            setup: What the model is built for.
            weight: Weight of the term in the total loss.
            over: What the correlation is taken over: `images`, each the mean of its patches, with a second view that
                has its own crop and flips; or `patches`, all of the batch, with a second view of the same crop and
                flips, so that patch j of both shows the same place.
            off_diagonal: λ, the weight of the redundancy between channels.
            color: Largest relative change of brightness, contrast and saturation in the second view, where
                training.augment has less. The first view is what every other method is trained on.
            reduction: `mean` divides by the number of channels, so that the weight fits any encoder; `sum` as printed.
        """
        super().__init__()
        check_not_negative(weight=weight, off_diagonal=off_diagonal)
        if not 0 <= color < 1:
            raise UserError(f"regularizer.color: expected 0 to below 1, found {color}.")
        self.weight, self.over, self.off_diagonal, self.reduction = weight, over, off_diagonal, reduction
        self.second_view = SecondView(same_place=over == "patches", color=color)

    def rows(self, tokens: Tokens) -> Tensor:
        """What is correlated, (N, D)."""
        patches = tokens.patches.float()
        return patches.mean(1) if self.over == "images" else patches.flatten(0, 1)

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        if context.second is None:
            return Regularized(tokens)
        with torch.autocast(tokens.patches.device.type, enabled=False):
            correlation = cross_correlation(self.rows(tokens), self.rows(context.second))
            loss = self.weight * barlow_loss(correlation, self.off_diagonal)
            if self.reduction == "mean":
                loss = loss / len(correlation)
        return Regularized(tokens, {"barlow": loss.expand(len(tokens.patches))})
