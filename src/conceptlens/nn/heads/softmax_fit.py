"""Class maps of plain vectors by Adam and cross-entropy, stopped where validation is best: a `fit` of moderate size."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Labeled:
    """Vectors with their classes."""

    vectors: Tensor  # (N, D)
    labels: Tensor  # (N,)


Penalty = Callable[[], Tensor]


def no_penalty() -> Tensor:
    """Nothing."""
    return torch.zeros(())


def fit_softmax(
    model: nn.Module,
    train: Labeled,
    val: Labeled,
    weights: Tensor,
    *,
    rate: float,
    steps: int,
    batch: int,
    seed: int,
    check_every: int = 50,
    penalty: Penalty = no_penalty,
) -> float:
    """Train a map (N, D) → class logits in place; it ends with its weights at the check that validation liked best.

    Args:
        model: The map, where the vectors are.
        train: To learn from.
        val: To stop by; without images the last step is taken.
        weights: Of the classes, (C,).
        rate: Adam's.
        steps: So many.
        batch: Images a step; all of them if there are not more.
        seed: Of the batches.
        check_every: Steps between looks at validation.
        penalty: A further loss at each step.

    Returns:
        The cross-entropy on validation, weighted by class; not a number if there are no images.
    """
    chance = torch.Generator(train.vectors.device).manual_seed(seed)
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=rate)
    best, state = float("inf"), deepcopy(model.state_dict())
    for step in range(1, steps + 1):
        vectors, labels = train.vectors, train.labels
        if len(vectors) > batch:
            rows = torch.randint(len(vectors), (batch,), generator=chance, device=vectors.device)
            vectors, labels = vectors[rows], labels[rows]
        loss = F.cross_entropy(model(vectors), labels, weight=weights) + penalty().to(vectors.device)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step % check_every == 0 or step == steps:
            with torch.no_grad():
                found = float(F.cross_entropy(model(val.vectors), val.labels, weight=weights))
            if found < best or not len(val.labels):
                best, state = found, deepcopy(model.state_dict())
    model.load_state_dict(state)
    return best if len(val.labels) else float("nan")
