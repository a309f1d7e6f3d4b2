"""What contributions are measured on: concepts of a later layer (GIG paper, Eq. 4) or classes (Eq. 6, 7)."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from conceptlens.gig.attribution.integrated_gradients import Read

TargetKind = Literal["probability", "logit"]
Onward = Callable[[Tensor], Tensor]  # features (S, P, C) → features (S, P', C') or outputs (S, N)


class Onwards(Protocol):
    """The part of a network that is needed here: F_ab between two layers, or to the outputs."""

    def onward(self, features: Tensor, frm: str, to: str | None, images: Tensor) -> Tensor: ...


def between(network: Onwards, frm: str, to: str | None, image: Tensor) -> Onward:
    """F_ab for one image (3, H, W), for features of any number of steps; `to` None for the outputs."""

    def onward(features: Tensor) -> Tensor:
        return network.onward(features, frm, to, image.expand(len(features), *image.shape))

    return onward


def to_concepts(onward: Onward, vectors: Tensor) -> Read:
    """Σᵢ ⟨wᵢ, v̄_t⟩ of T concept vectors (T, C') in the later layer (Eq. 4)."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    return lambda features: onward(features).sum(1) @ unit.T.to(features)


def to_classes(onward: Onward, classes: Sequence[int], kind: TargetKind = "probability") -> Read:
    """⟨w, e_c⟩ of some classes, as probabilities (Eq. 7) or as logits."""
    chosen = list(classes)

    def read(features: Tensor) -> Tensor:
        outputs = onward(features)
        return (outputs.softmax(-1) if kind == "probability" else outputs)[:, chosen]

    return read
