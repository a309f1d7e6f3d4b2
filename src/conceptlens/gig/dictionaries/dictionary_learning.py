"""A baseline for concept vectors: dictionary learning (GIG paper, Sec. 4).

min over V, U of ½‖X − U V‖² + λ Σ|u| with ‖v_j‖ ≤ 1, by online learning (Mairal et al., Online dictionary learning for
sparse coding, 2009): a batch of vectors is decomposed by our lasso, then each concept vector is moved to where it
serves all vectors so far best, every batch counting alike.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.dictionaries.lasso import Codes, decompose, lambda_for


@dataclass(frozen=True)
class LearnedDictionary:
    """Concept vectors of at most unit length."""

    concepts: Tensor  # (k, C)
    lam: float
    objectives: tuple[float, ...]  # mean of each epoch's batches, when they were decomposed

    def encode(self, features: Tensor) -> Codes:
        return decompose(features, self.concepts, self.lam)


def fit_dictionary(
    features: Tensor,
    k: int,
    lam: float | None = None,
    *,
    epochs: int = 2,
    batch: int = 1024,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> LearnedDictionary:
    """Learn k concept vectors of features (N, C), which should be without their shift.

    Args:
        features: (N, C).
        k: Concepts.
        lam: λ of the lasso; by default as `lambda_for` on the start, which are k of the vectors.
        epochs: Over the data.
        batch: Vectors a step.
        tolerance: Of the lasso, relative.
        seed: Of the start and of the order.
    """
    n = len(features)
    if features.ndim != 2 or not 1 <= k <= n:
        raise UserError(
            f"Dictionary: {k} concept vectors of features {tuple(features.shape)}; sample more, or fewer k."
        )
    generator = torch.Generator().manual_seed(seed)
    start = features[torch.randperm(n, generator=generator)[:k].to(features.device)]
    concepts = start / torch.linalg.vector_norm(start, dim=1, keepdim=True).clamp_min(1e-12)
    lam = lambda_for(features[: 4 * batch], concepts) if lam is None else lam
    used = features.new_zeros(k, k)  # A = Σ uᵀu
    drawn = features.new_zeros(k, features.shape[1])  # B = Σ uᵀx
    history, steps = [], 0
    for _ in range(epochs):
        values = []
        for chosen in torch.split(torch.randperm(n, generator=generator).to(features.device), batch):
            x = features[chosen]
            codes = decompose(x, concepts, lam, tolerance=tolerance)
            u = codes.dense()
            values.append((0.5 * (x - u @ concepts).square().sum(1) + lam * u.abs().sum(1)).mean())
            steps += 1
            kept = 1 - 1 / steps
            used = kept * used + u.T @ u / len(x)
            drawn = kept * drawn + u.T @ x / len(x)
            concepts = update(concepts, used, drawn)
        history.append(float(torch.stack(values).mean()))
    return LearnedDictionary(concepts, lam, tuple(history))


def update(concepts: Tensor, used: Tensor, drawn: Tensor, *, block: int = 64) -> Tensor:
    """One sweep of block coordinate descent over concept vectors in use, each then held to unit length at most.

    Vectors are moved one after the other; what the ones moved so far mean for those of the same block is kept up as
    differences, so that the whole matrix is read once for each block and not for each vector.
    """
    concepts = concepts.clone()
    weight = used.diagonal()
    for some in torch.split(torch.nonzero(weight > 1e-10).flatten(), block):
        wanted = drawn[some] - used[some] @ concepts  # (b, C)
        within = used[some][:, some]
        own, scale = concepts[some], weight[some]
        for j in range(len(some)):
            moved = own[j] + wanted[j] / scale[j]
            moved = moved / torch.linalg.vector_norm(moved).clamp_min(1)
            wanted -= within[:, j, None] * (moved - own[j])
            own[j] = moved
        concepts[some] = own
    return concepts
