"""One step of the outer loop: the minimizer of the quadratic model plus the penalty.

    min_U ⟨∇f(V), U − V⟩ + ½ ⟨U − V, B (U − V)⟩ + λ [ α ‖U‖₁ + (1 − α)/2 ‖U‖² ]    (the bias column without penalty)

by accelerated proximal gradient (FISTA: Beck and Teboulle, 2009) with restart (O'Donoghue and Candès, 2015) and a step
length for each class. It never touches the rows. An exact solution would be wasted on a model.
"""

import torch
from torch import Tensor

from conceptlens.nn.sparse_head.common_shift import remove_common_shift
from conceptlens.nn.sparse_head.curvature import Model
from conceptlens.nn.sparse_head.objective import Penalty, Point

STEPS = 200
CHECK = 5  # steps between looks at the numbers; each look makes a GPU wait
ACCURACY = 0.1  # stop when the optimality residual has fallen to this fraction of what it was


def model_step(point: Point, model: Model, penalty: Penalty) -> Tensor:
    """The next coefficients (C, d + 1). Entries that the penalty holds at zero are exactly zero."""
    start, length = point.coef, 1 / model.bend
    threshold = (length * penalty.l1).expand_as(start).clone()
    shrink = (1 / (1 + length * penalty.ridge)).expand_as(start).clone()
    threshold[:, -1], shrink[:, -1] = 0, 1
    classes = length * model.classes
    mixed = (model.mixed.view(-1, *start.shape) * length).flatten(1).T
    constant = length * (point.gradient - model.apply(start))
    now, ahead, momentum, first = start, start, 1.0, torch.zeros_like(start)
    for step in range(1, STEPS + 1):
        down = torch.addmm(ahead - constant, classes, ahead @ model.features, alpha=-1)
        if len(model.psi):
            down.view(-1).addmv_(mixed, model.psi @ ahead.flatten())
        new = (down - down.clamp(-threshold, threshold)).mul_(shrink)
        moved = new - now
        following = (1 + (1 + 4 * momentum * momentum) ** 0.5) / 2
        before, ahead = ahead, torch.add(new, moved, alpha=(momentum - 1) / following)
        now, momentum = new, following
        if step == 1:
            first = moved
        if step % CHECK == 0:
            residual = before - new
            at_first, left, against = torch.stack([first.norm(), residual.norm(), (residual * moved).sum()]).tolist()
            if left <= ACCURACY * at_first:
                break
            if against > 0:
                ahead, momentum = new, 1.0
    return remove_common_shift(now, penalty)
