"""What the text tower is asked for: the teacher's vectors, and the teacher's likeness of every two phrases.

The second is similarity-preserving distillation (Tung and Mori, ICCV 2019) on unit vectors: it weighs how phrases lie
to each other, which is what concepts and prompts are used for.
"""

import torch
from torch import Tensor


def cosine_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean of 1 − cos over the rows of two matrices of unit vectors (B, D)."""
    return 1 - (student * teacher).sum(1).mean()


def relational_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean squared difference of the two cosine matrices (B, B) off their diagonals."""
    difference = student @ student.T - teacher @ teacher.T
    pairs = len(student) * (len(student) - 1)
    return (difference.square().sum() - difference.diagonal().square().sum()) / pairs


def distillation_loss(student: Tensor, teacher: Tensor, weight: float) -> tuple[Tensor, Tensor, Tensor]:
    """The sum to minimize, and its two terms; `weight` is the second's."""
    with torch.autocast(student.device.type, enabled=False):
        alone, together = cosine_loss(student, teacher), relational_loss(student, teacher)
    return alone + weight * together, alone, together
