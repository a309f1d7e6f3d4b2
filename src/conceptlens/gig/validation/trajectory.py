"""How far a concept reaches: samples of its cluster on the way from its center to its farthest (GIG paper, App. I)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError


@dataclass(frozen=True)
class Trajectory:
    """Members of one cluster in the plane of its concept vector and its farthest member."""

    places: Tensor  # (n, 2) coordinates: along the concept vector, and across
    center: Tensor  # (2,) the concept vector's
    stops: list[int]  # members nearest to evenly spaced points of the way, each once; the last is the farthest
    cosines: Tensor  # (n,) of each member with the concept vector

    @property
    def distance(self) -> float:
        """Cosine distance of the farthest member."""
        return 1 - float(self.cosines[self.stops[-1]])


def trajectory(members: Tensor, concept: Tensor, *, stops: int = 6) -> Trajectory:
    """The way from a concept's center to its farthest member.

    Args:
        members: (n, C) centered features of the cluster's samples.
        concept: (C,) its vector.
        stops: Samples to stop at.

    Raises:
        UserError: There is no member, or a vector without length.
    """
    if not len(members):
        raise UserError("A trajectory needs the samples of a concept's cluster; this concept has none.")
    unit = torch.nn.functional.normalize
    if float(concept.norm()) == 0:
        raise UserError("A trajectory needs a concept vector with a length; this one is zero.")
    points, center = unit(members.double(), dim=1), unit(concept.double(), dim=0)
    cosines = points @ center
    far = int(cosines.argmin())
    across = points[far] - cosines[far] * center
    across = across / across.norm().clamp_min(torch.finfo(torch.float64).tiny)
    places = torch.stack([cosines, points @ across], dim=1)
    start = torch.tensor([1.0, 0.0], dtype=places.dtype, device=places.device)
    chosen: list[int] = []
    count = min(stops, len(members))
    for share in torch.linspace(0, 1, count, dtype=torch.float64)[: count - 1].tolist():
        distance = (places - (start + share * (places[far] - start))).norm(dim=1)
        distance[[*chosen, far]] = torch.inf
        chosen.append(int(distance.argmin()))
    return Trajectory(places, start, [*chosen, far], cosines)
