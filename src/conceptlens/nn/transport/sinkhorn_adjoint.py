"""The linear system behind the implicit gradient of a transport plan, by conjugate gradients.

With r = T1, c = Tᵀ1, p = (G∘T)1 and q = (G∘T)ᵀ1, the system

    r∘α + Tβ = p        Tᵀα + c∘β = q

is solved for y = √c β after α is eliminated: (I − NᵀN) y = (q − Tᵀ(p / r)) / √c with N = T / √(r cᵀ). Its eigenvalues
lie in [0, 1]; the one 0 belongs to y = √c (a constant may move from f to g), to which the right side is orthogonal, so
that conjugate gradients never see it.
"""

import torch
from torch import Tensor

from conceptlens.nn.transport.sinkhorn_scaling import times

STEPS = 50  # 20 bring α and β to 1e-6 for costs in [0, 2] and an ε of 0.05, 40 for one of 0.01
ENOUGH = 1e-6  # of the right side's length: what float32 can resolve


def adjoint(plan: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """α (B, L) and β (B, K) for a plan and the gradient of the loss in it, both (B, L, K).

    A GPU is asked for no number: an image that is done takes steps of length zero.
    """
    tiny = torch.finfo(plan.dtype).tiny
    rows, columns = plan.sum(2).clamp_min(tiny), plan.sum(1).clamp_min(tiny)
    weighted = grad * plan
    p, q = weighted.sum(2), weighted.sum(1)
    flipped, root = plan.mT, columns.sqrt()

    def apply(y: Tensor) -> Tensor:
        """(I − NᵀN) y."""
        return y - times(flipped, times(plan, y / root) / rows) / root

    residual = (q - times(flipped, p / rows)) / root
    y, direction = torch.zeros_like(residual), residual
    square = residual.square().sum(1, keepdim=True)
    enough = square * ENOUGH**2
    for _ in range(STEPS):
        image = apply(direction)
        bend = (direction * image).sum(1, keepdim=True)
        open_images = (square > enough) & (bend > 0)
        if not plan.is_cuda and not bool(open_images.any()):
            break
        step = torch.where(open_images, square / bend, 0)
        y = y + step * direction
        residual = residual - step * image
        new_square = residual.square().sum(1, keepdim=True)
        turn = torch.where(open_images, new_square / square, 0)
        direction = residual + turn * direction
        square = new_square
    beta = y / root
    return (p - times(plan, beta)) / rows, beta


@torch.library.custom_op("conceptlens::sinkhorn_adjoint", mutates_args=())
def adjoint_operator(plan: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """`adjoint` as one piece that a compiler takes as it is."""
    with torch.autocast(plan.device.type, enabled=False):
        return adjoint(plan, grad)


@adjoint_operator.register_fake
def _(plan: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    return plan.new_empty(plan.shape[:2]), plan.new_empty(plan.shape[0], plan.shape[2])
