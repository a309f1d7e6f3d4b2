"""A class head that is linear in the bottleneck, b: logit_c = bias_c + Σ_k w_ck b_k."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from conceptlens.methods.contract import ConceptModel

Floats = npt.NDArray[np.float64]
TOLERANCE = 1e-3  # of float32 sums, relative to the logits; more than that is no rounding


@torch.inference_mode()
def head_weight(model: "ConceptModel", bottleneck: Tensor) -> Floats | None:
    """The weight (C, K) with which a linear head reads the bottleneck (n, K); None if the head is another."""
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Linear) or head.in_features != bottleneck.shape[1]:
        return None
    bottleneck = bottleneck.to(head.weight.device)
    decided = model.decide(bottleneck)
    if decided.shape[1] != head.out_features or not torch.allclose(decided, head(bottleneck), rtol=1e-3, atol=1e-4):
        return None
    weight: Floats = head.weight.double().cpu().numpy()
    return weight


@dataclass(frozen=True)
class LinearHead:
    """A head that is linear in the bottleneck."""

    weight: Floats  # (C, K)
    bias: Floats  # (C,)
    bypass: bool  # something besides the concepts may reach the class

    @classmethod
    def of(cls, model: "ConceptModel", bottleneck: Tensor, logits: Tensor | None) -> "LinearHead | None":
        """The head of a model that was seen to read (n, K) and say (n, C); None if it is not such a sum.

        Without logits, as of scores kept in half precision, only the head itself is looked at.
        """
        weight = head_weight(model, bottleneck)
        if weight is None:
            return None
        given = model.head.bias
        bias = np.zeros(len(weight)) if given is None else given.detach().double().cpu().numpy()
        head = cls(weight, bias, model.bypass is not None)
        if logits is None:
            return head
        said = logits.detach().double().cpu().numpy()
        rest = np.abs(said - head.logits(bottleneck.detach().double().cpu().numpy()))
        if not head.bypass and (rest > TOLERANCE * np.maximum(np.abs(said), 1)).any():
            return None
        return head

    def logits(self, bottleneck: Floats) -> Floats:
        """What the concepts alone say, (n, C)."""
        return bottleneck @ self.weight.T + self.bias
