"""The direction that the loss cannot see: the same number added to a feature's weight in every class.

Only the penalty decides along it, and where as many weights are positive as negative only its ridge, which is tiny: an
iteration creeps. So it is solved exactly, as glmnet does (Friedman, Hastie and Tibshirani, 2010, section 4.1). The best
shift minimizes Σ_c |w_c − t| + ρ/2 Σ_c (w_c − t)², ρ = (1 − α)/α, and is a median (Li and Osher, 2009):

    t = median of w_1 … w_C and of w̄ + (C − 2k) / (Cρ), k = 0 … C
"""

import torch
from torch import Tensor

from conceptlens.nn.sparse_head.objective import Penalty

TINY = 1e-9  # stands for ρ = 0: the candidates leave the scene, but for the mean of an even number of classes


def remove_common_shift(coef: Tensor, penalty: Penalty) -> Tensor:
    """The coefficients (C, d + 1) of the same predictions with the smallest penalty."""
    w, count, rho = coef[:, :-1], len(coef), max(penalty.ridge / penalty.l1, TINY)
    # Most features have enough zeros to hold the shift at zero: there the slope of the rest at 0 is no match for them.
    moving = ((w.sign().sum(0) + rho * w.sum(0)).abs() > (w == 0).sum(0)).nonzero()[:, 0]
    if not len(moving):
        return coef
    w = w[:, moving]
    places = torch.arange(count, -count - 1, -2, dtype=w.dtype, device=w.device) / (count * rho)
    shift = torch.cat([w, w.mean(0) + places[:, None]]).median(0).values
    coef = coef.clone()
    coef[:, moving] = w - shift
    return coef
