"""Implicit vector quantization and its controls (IVQ-CBM paper, section 3.2, Eq. 3, 4, 10, 11, 17, 18).

IVQ takes the loss of a vector quantizer and leaves the forward pass alone; explicit VQ hands the quantized tokens on.
Plain L2 is the control without a codebook: an IVQ whose codes stay near zero cannot be told from it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.quantization.clusters import kmeans, squared_distances
from conceptlens.nn.regularizers.regularizer import NOTHING, Context, Regularized, Regularizer, check_not_negative
from conceptlens.nn.setup import Setup

Reduction = Literal["mean", "sum"]


def nearest_codes(patches: Tensor, codebook: Tensor) -> Tensor:
    """Eq. 3: k_j = argmin_k ‖z_j − c_k‖² for patches (B, L, D) and codes (M, D): (B, L). ‖z_j‖² cancels."""
    return (codebook.square().sum(-1) - 2 * (patches @ codebook.T)).argmin(-1)


def chosen(codes: Tensor, size: int) -> Tensor:
    """Which of `size` codes each patch chose: (…) → (N, M), one True a row."""
    return codes.flatten().unsqueeze(1) == torch.arange(size, device=codes.device)


class _IVQ(torch.autograd.Function):
    """Eq. 4 summed over patches and channels, (B,), with its gradients as the paper prints them.

    Both terms have one value, (1 + β) ‖z − c‖² together, so nothing is kept but what came in. All patches of a code are
    added up by one matrix product: in the same order every time, and without thousands of them waiting for one row.
    """

    @staticmethod
    def forward(ctx: Any, patches: Tensor, codebook: Tensor, codes: Tensor, beta: float) -> Tensor:
        ctx.save_for_backward(patches, codebook, codes)
        ctx.beta = beta
        return (1 + beta) * (patches - codebook[codes]).square().flatten(1).sum(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        patches, codebook, codes = ctx.saved_tensors
        to_patches = to_codes = None
        with torch.autocast(patches.device.type, enabled=False):
            pull = 2 * gradient.view(-1, 1, 1) * (patches - codebook[codes])
            if ctx.needs_input_grad[0]:
                to_patches = ctx.beta * pull  # Eq. 11, 18
            if ctx.needs_input_grad[1]:
                to_codes = -(chosen(codes, len(codebook)).to(pull.dtype).T @ pull.flatten(0, 1))  # Eq. 17
        return to_patches, to_codes, None, None


def ivq_loss(patches: Tensor, codebook: Tensor, codes: Tensor, beta: float, reduction: Reduction = "mean") -> Tensor:
    """Eq. 4 per image, (B,): ‖sg(Z) − Z_q‖² + β ‖Z − sg(Z_q)‖².

    With `sum` the gradients of Eq. 11, 17 and 18 hold as printed; `mean` divides by L · D.
    """
    total: Tensor = _IVQ.apply(patches, codebook, codes, beta)
    return total if reduction == "sum" else total / (patches.shape[1] * patches.shape[2])


def count_codes(setup: Setup, multiple: float, size: int | None, per: Literal["concept", "group"]) -> int:
    """Codebook size M: as given, or a multiple of the number of concepts K, or of groups."""
    base = len(setup.concepts) if per == "concept" else len(setup.concepts.groups)
    found = size if size is not None else round(multiple * base)
    if found < 1:
        raise UserError(
            f"regularizer.codebook_size: expected at least one code, found {found}."
            if size is not None
            else f"regularizer: the codebook needs at least one code; {multiple} × {base} gives {found}."
        )
    return found


def worst_served(patches: Tensor, codebook: Tensor, wanted: int) -> Tensor:
    """Of patches (N, D), up to `wanted` that lie farthest from their nearest code."""
    served = squared_distances(patches, codebook).min(-1).values
    return patches[served.topk(min(wanted, len(patches))).indices]


def use_notes(uses: Tensor) -> dict[str, float]:
    """How a codebook was used in an epoch, from the uses (M,) of each code: for the history."""
    share = uses.double() / uses.sum().clamp_min(1)
    perplexity = torch.special.entr(share).sum().exp()
    return {"codes_dead": float((uses == 0).sum()), "codes_perplexity": float(perplexity)}


class ImplicitVQ(Regularizer):
    """IVQ: each patch is drawn to its nearest code and each code to its patches; the tokens pass unchanged."""

    def __init__(
        self,
        setup: Setup,
        *,
        weight: float = 1.0,
        beta: float = 0.25,
        codebook_multiple: float = 1.0,
        codebook_size: int | None = None,
        per: Literal["concept", "group"] = "concept",
        reduction: Reduction = "mean",
        init: Literal["kmeans", "uniform", "normal"] = "kmeans",
        learn: bool = True,
        rate: float = 10.0,
        revive: bool = True,
    ) -> None:
        """Implicit vector quantization.

        Args:
            setup: What the model is built for.
            weight: Weight of the term in the total loss, Eq. 9.
            beta: Commitment cost β.
            codebook_multiple: Codebook size M as a multiple of the number of concepts K (or groups).
            codebook_size: M itself, if it shall not follow from K.
            per: Whether the multiple counts concepts, as the paper, or groups, as its published code.
            reduction: Sum or mean over patches and channels.
            init: Start of the codes: k-means of training tokens, uniform in ±1/M as the published code, or normal.
            learn: Whether the codebook learns; in the published code it does not.
            rate: The codebook's learning rate as a multiple of the training's.
            revive: Move codes that no patch chose in an epoch to the patches that are served worst.
        """
        super().__init__()
        check_not_negative(weight=weight, beta=beta, rate=rate)
        size = count_codes(setup, codebook_multiple, codebook_size, per)
        self.weight, self.beta, self.reduction = weight, beta, reduction
        self.init, self.revives = init, revive and learn
        self.codebook = nn.Parameter(torch.empty(size, setup.width), requires_grad=learn)
        self.codebook.rate = rate  # type: ignore[attr-defined]  # read by the optimizer
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

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        with torch.autocast(tokens.patches.device.type, enabled=False):
            patches = tokens.patches.to(self.codebook.dtype)
            with torch.no_grad():
                codes = nearest_codes(patches, self.codebook)
                if self.training:
                    self.uses += chosen(codes, len(self.codebook)).sum(0)
            loss = self.weight * ivq_loss(patches, self.codebook, codes, self.beta, self.reduction)
        return Regularized(self.hand_on(tokens, codes), {"ivq": loss}, codes)

    def hand_on(self, tokens: Tokens, codes: Tensor) -> Tokens:
        """What the aggregator sees: for IVQ the tokens themselves."""
        return tokens

    @torch.no_grad()
    def end_epoch(self, tokens: Tokens, total: Callable[[Tensor], Tensor]) -> dict[str, float]:
        uses = total(self.uses)
        dead = (uses == 0).nonzero().squeeze(-1)
        if self.revives and len(dead):
            patches = tokens.patches.flatten(0, 1).to(self.codebook.dtype)
            fresh = worst_served(patches, self.codebook, len(dead))
            self.codebook[dead[: len(fresh)]] = fresh
        self.uses.zero_()
        return use_notes(uses)


class ExplicitVQ(ImplicitVQ):
    """Explicit VQ, the paper's ablation: the aggregator sees the codes; gradients pass straight through."""

    def hand_on(self, tokens: Tokens, codes: Tensor) -> Tokens:
        quantized = self.codebook[codes].to(tokens.patches.dtype)
        return replace(tokens, patches=tokens.patches + (quantized - tokens.patches).detach())


class PlainL2(Regularizer):
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

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        squares = tokens.patches.float().square().flatten(1)
        return Regularized(
            tokens, {"l2": self.weight * (squares.sum(1) if self.reduction == "sum" else squares.mean(1))}
        )
