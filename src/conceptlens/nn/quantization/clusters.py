"""Starting points that lie where the data lies: k-means++ seeding and a few Lloyd steps, deterministic from a seed."""

import torch
from torch import Tensor


def sample_rows(rows: Tensor, limit: int, generator: torch.Generator) -> Tensor:
    """At most `limit` of the rows (N, D), without replacement."""
    if len(rows) <= limit:
        return rows
    return rows[torch.randperm(len(rows), generator=generator)[:limit].to(rows.device)]


def squared_distances(points: Tensor, centers: Tensor) -> Tensor:
    """‖x − c‖² for points (…, D) and centers (M, D): (…, M), never below zero."""
    cross = points @ centers.T
    squares = points.square().sum(-1, keepdim=True) + centers.square().sum(-1)
    return (squares - 2 * cross).clamp_min(0)


@torch.no_grad()
def kmeans(points: Tensor, k: int, *, steps: int = 8, seed: int = 0, limit: int = 16_384) -> Tensor:
    """k centers (k, D) of points (N, D). A center that loses all its points moves to the point served worst."""
    generator = torch.Generator().manual_seed(seed)
    points = sample_rows(points.float(), limit, generator)
    centers = points.new_empty(k, points.shape[1])
    nearest = torch.full((len(points),), float("inf"), device=points.device)
    for index in range(k):
        weights = torch.ones_like(nearest) if index == 0 or not bool(nearest.sum() > 0) else nearest
        chosen = torch.multinomial(weights.double().cpu(), 1, generator=generator)
        centers[index] = points[chosen.to(points.device)]
        nearest = torch.minimum(nearest, squared_distances(points, centers[index : index + 1]).squeeze(-1))
    for _ in range(steps):
        distances, owner = squared_distances(points, centers).min(-1)
        counts = torch.bincount(owner, minlength=k)
        sums = torch.zeros_like(centers).index_add_(0, owner, points)
        fed = counts > 0
        centers[fed] = sums[fed] / counts[fed, None]
        starved = (~fed).nonzero().squeeze(-1)
        if len(starved):
            centers[starved] = points[distances.topk(min(len(starved), len(points))).indices][: len(starved)]
    return centers
