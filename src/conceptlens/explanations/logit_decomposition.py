"""How the logit of a class, or the difference of two, is made up of what the concepts add.

With a linear head, logit_c = bias_c + Σ_k w_ck b_k, b being the bottleneck. Against a reference r (the average image)
this is (bias_c + Σ_k w_ck r_k) + Σ_k w_ck (b_k − r_k): a base and one number for each concept, without a remainder.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.explanations.contributions import head_weight
from conceptlens.explanations.document import Account
from conceptlens.methods.contract import ConceptModel

Floats = npt.NDArray[np.float64]
MEAN = "mean"
TOLERANCE = 1e-3  # of float32 sums, relative to the logits; more than that is no rounding


@dataclass(frozen=True)
class LinearHead:
    """A head that is linear in the bottleneck."""

    weight: Floats  # (C, K)
    bias: Floats  # (C,)
    bypass: bool  # something besides the concepts may reach the class

    @classmethod
    def of(cls, model: ConceptModel, bottleneck: Tensor, logits: Tensor) -> "LinearHead | None":
        """The head of a model that was seen to read (n, K) and say (n, C); None if it is not such a sum."""
        weight = head_weight(model, bottleneck)
        if weight is None:
            return None
        given = model.head.bias  # type: ignore[union-attr]
        bias = np.zeros(len(weight)) if given is None else given.detach().double().cpu().numpy()  # type: ignore[operator]
        head = cls(weight, bias, model.bypass is not None)
        said = logits.detach().double().cpu().numpy()
        rest = np.abs(said - head.logits(bottleneck.detach().double().cpu().numpy()))
        if not head.bypass and (rest > TOLERANCE * np.maximum(np.abs(said), 1)).any():
            return None
        return head

    def logits(self, bottleneck: Floats) -> Floats:
        """What the concepts alone say, (n, C)."""
        return bottleneck @ self.weight.T + self.bias

    def account(
        self, names: Sequence[str], of: int, minus: int | str | None, scores: Floats, reference: Floats, said: Floats
    ) -> Account:
        """The account of class `of` of one image.

        Args:
            names: (C,) of the classes.
            of: The class.
            minus: Another class, `MEAN`, or None for the logit itself.
            scores: (K,) the image's bottleneck.
            reference: (K,) the bottleneck it is compared with.
            said: (C,) the model's logits.
        """
        side = np.zeros(len(names))
        side[of] = 1
        if isinstance(minus, int):
            side[minus] -= 1
        elif minus == MEAN:
            side -= 1 / len(names)
        weight, bias = side @ self.weight, float(side @ self.bias)
        by_concepts = bias + float(weight @ scores)
        bypass = float(side @ said) - by_concepts if self.bypass else 0.0
        return Account(
            of=names[of],
            minus=names[minus] if isinstance(minus, int) else minus,
            total=by_concepts + bypass,
            base=bias + float(weight @ reference),
            values=(weight * (scores - reference)).tolist(),
            bypass=bypass,
        )
