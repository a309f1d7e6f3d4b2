"""Generalized integrated gradients: what each concept of a layer adds to a later concept, or to a class.

GIG paper, Sec. 3.3, Eq. 3-7. With X̃ᵃ = UVᵀ + β, a path from β to X̃ᵃ and a target f (a projection in layer b, summed
over positions, or a class),

    GIG(v_q at p → f) = u_pq ∫₀¹ ⟨∂f/∂x_p (β + α UVᵀ), v_q⟩ dα,

where, as in integrated gradients, the derivative is that of f at the point of the path. It is taken with respect to the
*features*, once for each target and step, and projected on concept vectors afterwards: the number of concepts costs
nothing. Summed over concepts and positions, contributions are f(X̃ᵃ) − f(β); by how much they miss it is the
completeness error.

Eq. 3 starts the path at 0 and Eq. 9 adds μ_BN to the reconstruction. `path="shifted"` (default) follows Eq. 9 in both,
`path="printed"` follows Eq. 3: from 0 to UVᵀ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.dictionaries.coded import Coded

Path = Literal["shifted", "printed"]
Read = Callable[[Tensor], Tensor]  # features (S, P, C) → values of the targets (S, T)
Steps = npt.NDArray[np.float64]

TOLERANCE = 0.01  # of the completeness error
FIRST, MOST = 16, 256  # steps
LOOK = 16  # pieces of the path on which targets are looked at, to see where they change
CLOSER = 3  # times that a piece with much of the change is looked at more closely
CANCELED = 10  # times the sum of contributions; where they add and take away more, they nearly cancel
PIECE = 2  # steps on each piece of the path
AT_ONCE = 16  # steps in one batch: the memory of a backward pass grows with them


@dataclass(frozen=True)
class Contributions:
    """What the concepts of one image's layer add to T targets."""

    concepts: Tensor  # (A,) numbers of the active concepts
    at: Tensor  # (T, P, A) Eq. 4, per position
    start: Tensor  # (T,) the target where the path begins
    end: Tensor  # (T,) and where it ends, at X̃
    whole: Tensor  # (T,) the target of the layer as it is, X
    steps: Tensor  # (T,) steps that were needed

    @property
    def total(self) -> Tensor:
        """(T, A) Eq. 5 and 7: summed over positions."""
        return self.at.sum(1)

    @property
    def missed(self) -> Tensor:
        """(T,) |Σ contributions − (f(X̃) − f(β))|."""
        return (self.at.double().sum((1, 2)) - (self.end - self.start).double()).abs()

    @property
    def completeness_error(self) -> Tensor:
        """(T,) `missed` as a share of all that concepts add and take away, or of ten times f(X̃) − f(β) if that is less.

        Shares and edges of a graph are read against all that is added and taken away. As a share of the sum alone, an
        error that nobody can see would be large where contributions nearly cancel.
        """
        size = self.at.double().sum(1).abs().sum(1)
        change = (self.end - self.start).double().abs()
        scale = torch.maximum(torch.minimum(size, CANCELED * change), torch.maximum(change, 1e-3 * size))
        return self.missed / scale.clamp_min(torch.finfo(torch.float32).tiny)

    @property
    def residual(self) -> Tensor:
        """(T,) f(X) − f(X̃): what the part that no concept explains adds to the target."""
        return self.whole - self.end

    @property
    def residual_share(self) -> Tensor:
        """(T,) |residual| as a share of all that is added or taken away, by concepts and by the residual."""
        error = self.residual.abs()
        return error / (error + self.total.abs().sum(1)).clamp_min(torch.finfo(torch.float32).tiny)


def contributions(
    read: Read,
    layer: Coded,
    *,
    steps: int | None = None,
    tolerance: float = TOLERANCE,
    most: int = MOST,
    path: Path = "shifted",
    at_once: int = AT_ONCE,
) -> Contributions:
    """Eq. 4, 5 and 7 for every active concept and T targets at once.

    Args:
        read: From features (S, P, C) to the targets (S, T); see `targets`.
        layer: The layer, coded.
        steps: Steps of the integral (Gauss-Legendre); by default as few as keep the completeness error below
            `tolerance`: they are put where the targets change, and doubled from 16 on for those that still need it.
        tolerance: Of the completeness error.
        most: At most so many steps.
        path: From β to UVᵀ + β (`shifted`), or from 0 to UVᵀ (`printed`).
        at_once: Steps in one batch.

    Raises:
        UserError: No gradient reaches the layer, or numbers are not finite.
    """
    if path not in ("shifted", "printed"):
        raise UserError(f"Unknown path {path!r}: expected 'shifted' (Eq. 9) or 'printed' (Eq. 3).")
    if steps is not None and steps < 1:
        raise UserError(f"Steps of the integral: expected 1 or more, got {steps}.")
    part = layer.part
    base = layer.shift if path == "shifted" else torch.zeros_like(layer.shift)
    with torch.no_grad():
        start, end, whole = read(torch.stack([base.expand_as(part), base + part, layer.features])).unbind(0)
    if not (start.isfinite().all() and end.isfinite().all()):
        raise UserError("A target is not a finite number along the path; is the network in its evaluation mode?")
    at = part.new_zeros((len(start), *layer.u.shape))
    needed = torch.zeros(len(start), dtype=torch.int64)
    open_ = list(range(len(start)))
    now = steps or min(FIRST, most)
    looked = None if steps else _look(read, part, base, (start, end), at_once)
    points = _where_it_changes(*looked, open_, now) if looked else _gauss_legendre(now)
    while open_:
        found = layer.u * (_mean_gradients(read, part, base, points, open_, at_once) @ layer.vectors.T)
        if now > FIRST and looked:  # steps between those before, as many: the mean of both rules, or the new one alone
            found = _closer((at[open_] + found) / 2, found, (end - start)[open_])
        at[open_], needed[open_] = found, now
        if looked is None or 2 * now > most:
            break
        error = Contributions(layer.concepts, at, start, end, whole, needed).completeness_error
        open_ = [target for target in open_ if error[target] > tolerance]
        points = _where_it_changes(*looked, open_, now, between=now == FIRST) if open_ else points
        now *= 2
    return Contributions(layer.concepts, at, start, end, whole, needed)


def _closer(one: Tensor, other: Tensor, change: Tensor) -> Tensor:
    """Of two results (T, P, A) of each target the one whose sum is closer to what it must add up to (T,)."""
    misses = [(at.double().sum((1, 2)) - change.double()).abs() for at in (one, other)]
    return torch.where((misses[0] <= misses[1])[:, None, None], one, other)


def _mean_gradients(
    read: Read, part: Tensor, base: Tensor, points: tuple[Steps, Steps], targets: list[int], at_once: int
) -> Tensor:
    """∫ ∂f/∂x dα of some targets, (T, P, C): one forward pass a batch of steps, one backward pass for each target."""
    total = part.new_zeros((len(targets), *part.shape))
    alphas, weights = (torch.from_numpy(values).to(part) for values in points)
    for some, shares in zip(torch.split(alphas, at_once), torch.split(weights, at_once), strict=True):
        features = (base + some[:, None, None] * part).requires_grad_()
        with torch.enable_grad():
            values = read(features)
            for place, target in enumerate(targets):
                last = place == len(targets) - 1
                gradient = _gradient(values[:, target].sum(), features, keep=not last)
                total[place] += torch.einsum("s,spc->pc", shares, gradient)
    return total


def _gradient(value: Tensor, features: Tensor, *, keep: bool) -> Tensor:
    if not value.requires_grad:
        raise UserError(
            "No gradient reaches the layer from the target: a part between them is not differentiable (argmax, "
            "rounding, detach or no_grad), or the target does not depend on the layer. Choose a later layer."
        )
    (found,) = torch.autograd.grad(value, features, retain_graph=keep, allow_unused=True)
    if found is None:
        raise UserError("The target does not depend on the layer. Choose another layer.")
    if not found.isfinite().all():
        raise UserError("A gradient is not a finite number: a part of the network is not differentiable on the path.")
    return found


def _gauss_legendre(steps: int) -> tuple[Steps, Steps]:
    """Points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (1 + points) / 2, weights / 2


def _look(
    read: Read, part: Tensor, base: Tensor, ends: tuple[Tensor, Tensor], at_once: int
) -> tuple[list[float], Steps]:
    """The targets along the path: places from 0 to 1, and values (places, T). Forward passes alone, which cost little.

    A probability may go from 0 to 1 within a hundredth of the path: pieces with much of a target's change are halved.
    """
    values = {0.0: ends[0], 1.0: ends[1]}
    new = [number / LOOK for number in range(1, LOOK)]
    for _ in range(CLOSER + 1):
        alphas = torch.tensor(new, dtype=torch.float64).to(part)
        with torch.no_grad():
            rows = [row for some in torch.split(alphas, at_once) for row in read(base + some[:, None, None] * part)]
        values |= zip(new, rows, strict=True)
        places = sorted(values)
        found = torch.stack([values[place] for place in places]).double().cpu().numpy()
        most = _shares(found).max(axis=1)
        new = [(low + high) / 2 for (low, high), share in zip(pairwise(places), most, strict=True) if share > 2 / LOOK]
        if not new:
            break
    return places, found


def _shares(values: Steps) -> Steps:
    """Of the change of each target, the share on each piece (pieces, T)."""
    change = np.abs(np.diff(values, axis=0))
    shares: Steps = change / np.maximum(change.sum(0), np.finfo(np.float64).tiny)
    return shares


def _where_it_changes(
    places: list[float], values: Steps, targets: list[int], steps: int, *, between: bool = False
) -> tuple[Steps, Steps]:
    """Points and weights on [0, 1], close together where some targets change.

    [0, 1] is cut into pieces over which these change by the same amount, half of it counted evenly, with two points
    each. `between` takes the pieces from the middle of one to the middle of the next.
    """
    density = 0.5 * _shares(values[:, targets]).mean(1) + 0.5 * np.diff(places)
    mass = np.concatenate([[0.0], np.cumsum(density)])
    shares = np.linspace(0, 1, max(1, steps // PIECE) + 1)
    if between:
        shares = np.concatenate([[0.0], (shares[:-1] + shares[1:]) / 2, [1.0]])
    cuts = np.interp(shares * mass[-1], mass, places)
    points, weights = _gauss_legendre(min(PIECE, steps))
    width = np.diff(cuts)[:, None]
    return (cuts[:-1, None] + width * points).ravel(), (width * weights).ravel()
