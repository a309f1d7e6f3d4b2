"""Points of parts that nobody marked: prototypes of patches, named on a few marked images (PF-CBM, sections 4 and 5.1).

Foreground patches of training images are clustered; in each image a prototype is where the patches nearest to it lie.
Which prototype is which part is the assignment with the least total distance to true points on a small labeled subset.
As the paper says, prototypes come back from image to image, but what they mean is not sure.
"""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from conceptlens.nn.quantization.clusters import squared_distances

FOREGROUND = 0.5  # a patch from this value of the map on belongs to the object


@torch.no_grad()
def prototype_points(patches: Tensor, foreground: Tensor, places: Tensor, prototypes: Tensor) -> tuple[Tensor, Tensor]:
    """Where each of M prototypes is in B images: points (B, M, 2), and whether it is there at all, (B, M).

    Args:
        patches: (B, L, D).
        foreground: (B, L) in [0, 1].
        places: Φ, (L, 2).
        prototypes: (M, D).
    """
    nearest = squared_distances(patches.float(), prototypes).argmin(-1)
    owned = torch.nn.functional.one_hot(nearest, len(prototypes)).float() * (foreground >= FOREGROUND)[..., None]
    weight = owned.mT * foreground[:, None]  # (B, M, L)
    total = weight.sum(-1, keepdim=True)
    return (weight @ places) / total.clamp_min(1e-6), total.squeeze(-1) > 0


def name_prototypes(found: Tensor, found_seen: Tensor, true: Tensor, true_seen: Tensor, missing: float) -> Tensor:
    """Which prototype stands for each part, (P,): the assignment of least total distance (Hungarian).

    Args:
        found: (N, M, 2) points of prototypes in the labeled images, M ≥ P.
        found_seen: (N, M).
        true: (N, P, 2) marked points.
        true_seen: (N, P).
        missing: The distance that counts where a part is marked and the prototype is not there.
    """
    away = (true[:, :, None] - found[:, None]).norm(dim=-1)  # (N, P, M)
    cost = torch.where(found_seen[:, None], away, missing)
    marked = true_seen[:, :, None].float()
    mean = (torch.where(true_seen[:, :, None], cost, 0.0) * marked).sum(0) / marked.sum(0).clamp_min(1)
    _, chosen = linear_sum_assignment(mean.double().cpu().numpy())
    return torch.from_numpy(np.asarray(chosen, dtype=np.int64))
