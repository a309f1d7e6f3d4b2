"""Implicit vector quantisation and its controls (IVQ-CBM paper, section 3.2, Eq. 3, 4, 10, 11, 17, 18).

IVQ takes the loss of a vector quantiser and leaves the forward pass alone; explicit VQ hands the quantised tokens on.
Plain L2 is the control without a codebook: an IVQ whose codes stay near zero cannot be told from it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from conceptlens.bottleneck.clusters import kmeans, squared_distances
from conceptlens.bottleneck.regulariser import Regularised, Regulariser, check_not_negative
from conceptlens.bottleneck.setup import Setup
from conceptlens.encoders.contract import Tokens
from conceptlens.errors import UserError

Reduction = Literal["mean", "sum"]


def nearest_codes(patches: Tensor, codebook: Tensor) -> Tensor:
    """Eq. 3: k_j = argmin_k ‖z_j − c_k‖² for patches (B, L, D) and codes (M, D): (B, L). ‖z_j‖² cancels."""
    return (codebook.square().sum(-1) - 2 * (patches @ codebook.T)).argmin(-1)


def ivq_loss(patches: Tensor, codebook: Tensor, codes: Tensor, beta: float, reduction: Reduction = "mean") -> Tensor:
    """Eq. 4 per image, (B,): ‖sg(Z) − Z_q‖² + β ‖Z − sg(Z_q)‖².

    With `sum` the gradients of Eq. 11, 17 and 18 hold as printed; `mean` divides by L · D.
    """
    quantised = codebook[codes]
    codebook_loss = (patches.detach() - quantised).square()
    commitment = (patches - quantised.detach()).square()
    total = (codebook_loss + beta * commitment).flatten(1)
    return total.sum(1) if reduction == "sum" else total.mean(1)


class ImplicitVQ(Regulariser):
    """IVQ: each patch is drawn to its nearest code and each code to its patches; the tokens pass unchanged."""

    def __init__(
        self,
        setup: Setup,
        *,
        weight: float = 1.0,
        beta: float = 0.25,
        codebook_multiple: float = 1.0,
        codebook_size: int | None = None,
        per: Literal["concept", "axis"] = "concept",
        reduction: Reduction = "mean",
        init: Literal["kmeans", "uniform", "normal"] = "kmeans",
        learn: bool = True,
        rate: float = 10.0,
        revive: bool = True,
    ) -> None:
        """Implicit vector quantisation.

        Args:
            setup: What the model is built for.
            weight: Weight of the term in the total loss, Eq. 9.
            beta: Commitment cost β.
            codebook_multiple: Codebook size M as a multiple of the number of concepts K (or axes).
            codebook_size: M itself, if it shall not follow from K.
            per: Whether the multiple counts concepts, as the paper, or axes, as its published code.
            reduction: Sum or mean over patches and channels.
            init: Start of the codes: k-means of training tokens, uniform in ±1/M as the published code, or normal.
            learn: Whether the codebook learns; in the published code it does not.
            rate: The codebook's learning rate as a multiple of the training's.
            revive: Move codes that no patch chose in an epoch to the patches that are served worst.
        """
        super().__init__()
        check_not_negative(weight=weight, beta=beta, rate=rate)
        base = len(setup.concepts) if per == "concept" else len(setup.concepts.groups)
        size = codebook_size if codebook_size is not None else round(codebook_multiple * base)
        if size < 1:
            raise UserError(
                f"regulariser.codebook_size: expected at least one code, found {size}."
                if codebook_size is not None
                else f"regulariser: the codebook needs at least one code; {codebook_multiple} × {base} gives {size}."
            )
        self.weight, self.beta, self.reduction, self.init, self.revives = (
            weight,
            beta,
            reduction,
            init,
            revive and learn,
        )
        self.codebook = nn.Parameter(torch.empty(size, setup.width), requires_grad=learn)
        self.codebook.rate = rate  # type: ignore[attr-defined]  # read by the optimiser
        if init == "normal":
            nn.init.normal_(self.codebook)
        else:
            nn.init.uniform_(self.codebook, -1 / size, 1 / size)
        self.register_buffer("uses", torch.zeros(size, dtype=torch.int64))  # in the epoch so far
        self.uses: Tensor

    @torch.no_grad()
    def prepare(self, tokens: Iterable[Tokens]) -> None:
        if self.init == "kmeans":
            self.codebook.copy_(
                kmeans(torch.cat([piece.patches.flatten(0, 1) for piece in tokens]), len(self.codebook))
            )

    def forward(self, tokens: Tokens) -> Regularised:
        with torch.autocast(tokens.patches.device.type, enabled=False):
            patches = tokens.patches.to(self.codebook.dtype)
            with torch.no_grad():
                codes = nearest_codes(patches, self.codebook)
                if self.training:
                    self.uses += torch.bincount(codes.flatten(), minlength=len(self.codebook))
            loss = self.weight * ivq_loss(patches, self.codebook, codes, self.beta, self.reduction)
        return Regularised(self.hand_on(tokens, codes), {"ivq": loss}, codes)

    def hand_on(self, tokens: Tokens, codes: Tensor) -> Tokens:
        """What the aggregator sees: for IVQ the tokens themselves."""
        return tokens

    @torch.no_grad()
    def end_epoch(self, tokens: Tokens, total: Callable[[Tensor], Tensor]) -> dict[str, float]:
        uses = total(self.uses)
        dead = (uses == 0).nonzero().squeeze(-1)
        if self.revives and len(dead):
            patches = tokens.patches.flatten(0, 1).to(self.codebook.dtype)
            served = squared_distances(patches, self.codebook).min(-1).values
            worst = served.topk(min(len(dead), len(patches))).indices
            self.codebook[dead[: len(worst)]] = patches[worst]
        self.uses.zero_()
        share = uses.double() / uses.sum().clamp_min(1)
        perplexity = torch.special.entr(share).sum().exp()
        return {"codes_dead": float(len(dead)), "codes_perplexity": float(perplexity)}


class ExplicitVQ(ImplicitVQ):
    """Explicit VQ, the paper's ablation: the aggregator sees the codes; gradients pass straight through."""

    def hand_on(self, tokens: Tokens, codes: Tensor) -> Tokens:
        quantised = self.codebook[codes].to(tokens.patches.dtype)
        return replace(tokens, patches=tokens.patches + (quantised - tokens.patches).detach())


class PlainL2(Regulariser):
    """The control: weight · ‖Z‖², no codebook."""

    def __init__(self, setup: Setup, *, weight: float = 0.25, reduction: Reduction = "mean") -> None:
        """L2 shrink of the patch tokens.

        Args:
            setup: What the model is built for.
            weight: Weight of the term in the total loss; 0.25 is IVQ's commitment at its default.
            reduction: Sum or mean over patches and channels.
        """
        super().__init__()
        check_not_negative(weight=weight)
        self.weight, self.reduction = weight, reduction

    def forward(self, tokens: Tokens) -> Regularised:
        squares = tokens.patches.float().square().flatten(1)
        return Regularised(
            tokens, {"l2": self.weight * (squares.sum(1) if self.reduction == "sum" else squares.mean(1))}
        )
