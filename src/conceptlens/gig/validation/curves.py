"""C-Insertion, C-Deletion and their kin between layers (GIG paper, Sec. 4.2.1 and 4.2.3).

Concepts of a coded layer are put in, or taken out, in some order, and the network is asked at each step. The x axis is
the share of active concepts, so that images with different numbers of them can be averaged; the area is that under the
curve, by trapezoids.
"""

from dataclasses import dataclass

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


def kept(order: Tensor, points: int, *, deletion: bool) -> Tensor:
    """Which concepts are in, (M, A): none to all in that order, or all to none.

    Args:
        order: (A,) concepts, the most important first.
        points: M.
        deletion: Take out instead of put in.
    """
    a = len(order)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(a, device=order.device)
    number = torch.linspace(0, a, points, device=order.device).round().long()
    inside = rank[None] < number[:, None]
    return ~inside if deletion else inside


def _values(read: Read, layer: Coded, masks: Tensor) -> Tensor:
    """The targets (M, T) with only some concepts in."""
    found = []
    with torch.no_grad():
        for some in torch.split(masks, AT_ONCE):
            u = layer.u[None] * some[:, None].to(layer.u)
            found.append(read(u @ layer.vectors + layer.shift))
    return torch.cat(found)


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
        inward, outward = (
            kept(torch.tensor(order, device=scores.device), points, deletion=way) for way in (False, True)
        )
        values = _values(read, layer, torch.cat([inward, outward[1:-1]]))[:, targets].T.to(scores)
        insertion[targets] = values[:, :points]  # its ends, without concepts and with all, are those of the other way
        deletion[targets] = torch.cat([values[:, points - 1 : points], values[:, points:], values[:, :1]], 1)
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
