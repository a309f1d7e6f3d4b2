"""Explicit VQ with codes that follow a moving average, and with the rotation trick, by vector-quantize-pytorch.

`explicit-vq-ema`: each code is the moving average of its patches (van den Oord et al., 2017, Appendix A.1); gradients
pass straight through. `explicit-vq-rotation`: the same codes, and gradients are rotated and scaled as the patch is on
its way to its code (Fifty et al., ICLR 2025, section 4.2). The commitment loss, the start and the revival of codes are
those of the other quantizers, so that only the two ideas differ.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.quantization.clusters import kmeans
from conceptlens.nn.quantization.quantization import Reduction, chosen, count_codes, use_notes, worst_served
from conceptlens.nn.regularizers.regularizer import NOTHING, Context, Regularized, Regularizer, check_not_negative
from conceptlens.nn.setup import Setup


def _quantizer(width: int, codes: int, decay: float, rotation: bool) -> nn.Module:
    try:
        from vector_quantize_pytorch import VectorQuantize
    except ImportError:
        raise UserError(
            "regularizer.name: the moving-average and rotation variants of explicit VQ need vector-quantize-pytorch. "
            "Install it with `pip install 'conceptlens[vq]'`, or use `explicit-vq`."
        ) from None
    made: nn.Module = VectorQuantize(
        dim=width,
        codebook_size=codes,
        decay=decay,
        rotation_trick=rotation,
        commitment_weight=0.0,  # ours is per image
        threshold_ema_dead_code=0,  # the library would replace codes by chance; ours are revived at an epoch's end
        sync_codebook=torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1,
    )
    return made


class EmaVQ(Regularizer):
    """The aggregator sees the codes, which follow their patches by a moving average."""

    rotation: ClassVar[bool] = False

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
        decay: float = 0.99,
        init: Literal["kmeans", "uniform"] = "kmeans",
        revive: bool = True,
    ) -> None:
        """Explicit vector quantization by vector-quantize-pytorch.

        Args:
            setup: What the model is built for.
            weight: Weight of the commitment term in the total loss.
            beta: Commitment cost β; the codes themselves have no loss.
            codebook_multiple: Codebook size M as a multiple of the number of concepts K (or groups).
            codebook_size: M itself, if it shall not follow from K.
            per: Whether the multiple counts concepts, as the paper, or groups, as its published code.
            reduction: Sum or mean over patches and channels.
            decay: Of the moving average, for each forward pass while training.
            init: Start of the codes: k-means of training tokens, or the library's uniform values.
            revive: Move codes that no patch chose in an epoch to the patches that are served worst.
        """
        super().__init__()
        check_not_negative(weight=weight, beta=beta)
        if not 0 <= decay < 1:
            raise UserError(f"regularizer.decay: expected 0 to below 1, found {decay}.")
        size = count_codes(setup, codebook_multiple, codebook_size, per)
        self.weight, self.beta, self.reduction, self.init, self.revives = weight, beta, reduction, init, revive
        self.quantizer: Any = _quantizer(setup.width, size, decay, self.rotation)
        self.register_buffer("uses", torch.zeros(size, dtype=torch.int64))  # in the epoch so far
        self.uses: Tensor

    @property
    def codebook(self) -> Tensor:
        """(M, D)"""
        codes: Tensor = self.quantizer.codebook
        return codes

    @torch.no_grad()
    def place(self, which: Tensor, codes: Tensor) -> None:
        """Put codes (n, D) at these numbers (n,), as if each were the average of one patch."""
        inside = self.quantizer._codebook  # its buffers have a leading dimension for heads
        inside.embed[0, which] = codes
        inside.embed_avg[0, which] = codes
        inside.cluster_size[0, which] = 1.0

    @torch.no_grad()
    def prepare(self, tokens: Iterable[Tokens]) -> None:
        if self.init == "kmeans":
            patches = torch.cat([piece.patches.flatten(0, 1) for piece in tokens])
            self.place(torch.arange(len(self.uses), device=patches.device), kmeans(patches, len(self.uses)))

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        with torch.autocast(tokens.patches.device.type, enabled=False):
            patches = tokens.patches.float()
            handed_on, codes, _ = self.quantizer(patches)
            quantized = handed_on.detach()
            if not self.training:  # the library passes gradients in training only; maps need them later too
                handed_on = patches + (quantized - patches).detach()
            else:
                self.uses += chosen(codes, len(self.uses)).sum(0)
            squares = self.beta * (patches - quantized).square().flatten(1)
            loss = self.weight * (squares.sum(1) if self.reduction == "sum" else squares.mean(1))
        seen = replace(tokens, patches=handed_on.to(tokens.patches.dtype))
        return Regularized(seen, {"commitment": loss}, codes)

    @torch.no_grad()
    def end_epoch(self, tokens: Tokens, total: Callable[[Tensor], Tensor]) -> dict[str, float]:
        uses = total(self.uses)
        dead = (uses == 0).nonzero().squeeze(-1)
        if self.revives and len(dead):
            fresh = worst_served(tokens.patches.flatten(0, 1).float(), self.codebook, len(dead))
            self.place(dead[: len(fresh)], fresh)
        self.uses.zero_()
        return use_notes(uses)


class RotationVQ(EmaVQ):
    """The same codes, with gradients by the rotation trick."""

    rotation = True
