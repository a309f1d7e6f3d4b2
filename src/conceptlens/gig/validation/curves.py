"""C-Insertion, C-Deletion and their kin between layers (GIG paper, Sec. 4.2.1 and 4.2.3).

Concepts of a coded layer are put in, or taken out, in some order, and the network is asked at each step. The x axis is
the share of active concepts, so that images with different numbers of them can be averaged; the area is that under the
curve, by trapezoids.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from conceptlens.gig.attribution.integrated_gradients import Read
from conceptlens.gig.attribution.targets import Onward
from conceptlens.gig.dictionaries.coded import Coded

POINTS = 21  # on the x axis
AT_ONCE = 16  # features in one batch


@dataclass(frozen=True)
class Curves:
    """Values at shares 0, …, 1 of concepts, for T targets."""

    insertion: Tensor  # (T, M)
    deletion: Tensor  # (T, M)

    @property
    def insertion_area(self) -> Tensor:
        return area(self.insertion)

    @property
    def deletion_area(self) -> Tensor:
        return area(self.deletion)

    @property
    def difference(self) -> Tensor:
        """(T,) insertion less deletion: larger is better."""
        return self.insertion_area - self.deletion_area


def area(values: Tensor) -> Tensor:
    """Under curves (…, M) over [0, 1], by trapezoids."""
    return torch.trapezoid(values, dx=1 / (values.shape[-1] - 1), dim=-1)


def partial_sums(layer: Coded, order: Tensor, points: int) -> Tensor:
    """U Vᵀ of the first concepts of an order, none to all, (M, P, C): each concept is added once."""
    number = torch.linspace(0, len(order), points, device=order.device).round().long().tolist()
    sums = [torch.zeros_like(layer.part)]
    for some in (order[low:high] for low, high in pairwise(number)):
        sums.append(sums[-1] + layer.u[:, some] @ layer.vectors[some])
    return torch.stack(sums)


def _values(read: Read, layer: Coded, order: Tensor, points: int) -> tuple[Tensor, Tensor]:
    """The targets while concepts are put in, and while they are taken out, both (M, T)."""
    inside = partial_sums(layer, order, points)
    # What is left when they are out; its ends, with all concepts and without any, are those of the other way.
    features = torch.cat([inside, inside[-1] - inside[1:-1]]) + layer.shift
    with torch.no_grad():
        found = torch.cat([read(some) for some in torch.split(features, AT_ONCE)])
    return found[:points], torch.cat([found[points - 1 : points], found[points:], found[:1]])


def concept_curves(read: Read, layer: Coded, scores: Tensor, *, points: int = POINTS) -> Curves:
    """C-Insertion and C-Deletion of T targets, each in the order of its own scores.

    Args:
        read: Features (S, P, C) to targets (S, T).
        layer: The layer, coded.
        scores: (T, A) importance of each active concept for each target.
        points: On the x axis.
    """
    alike: dict[tuple[int, ...], list[int]] = {}  # order → its targets: one pass serves them all
    for target, order in enumerate(torch.sort(scores, dim=1, descending=True, stable=True).indices.tolist()):
        alike.setdefault(tuple(order), []).append(target)
    insertion, deletion = scores.new_empty(2, len(scores), points)
    for order, targets in alike.items():
        inward, outward = _values(read, layer, torch.tensor(order, device=scores.device), points)
        insertion[targets], deletion[targets] = inward.T[targets].to(scores), outward.T[targets].to(scores)
    return Curves(insertion, deletion)


def projection_read(onward: Onward, layer: Coded, vectors: Tensor, shift: Tensor | None = None) -> Read:
    """The projection score: the largest projection of a position on a target concept, as a share of that at X̃.

    Args:
        onward: F_ab.
        layer: Layer a, coded.
        vectors: (T, C') target concepts of layer b.
        shift: (C',) subtracted from layer b first; the paper subtracts nothing.
    """
    unit = torch.nn.functional.normalize(vectors, dim=1)

    def largest(features: Tensor) -> Tensor:
        there = onward(features)
        if shift is not None:
            there = there - shift
        return (there @ unit.T.to(there)).amax(1)

    with torch.no_grad():
        whole = largest(layer.approximation[None])
    return lambda features: largest(features) / whole
