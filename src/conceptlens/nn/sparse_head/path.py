"""Fitting: a whole path of λ, each solved from the one before, or a single λ."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.nn.sparse_head.head import SparseHead, SparsePath
from conceptlens.nn.sparse_head.nec import nec
from conceptlens.nn.sparse_head.objective import Penalty, largest_lambda, null_point
from conceptlens.nn.sparse_head.rows import Features, Labels, Rows
from conceptlens.nn.sparse_head.solver import Solution, Solver

ABSENT = -1e4  # bias of a class without rows: its best is −∞; this gives probability 0 and is finite in float16


@torch.no_grad()
def fit_path(
    features: Features,
    labels: Labels,
    classes: int,
    *,
    alpha: float = 0.99,
    lambdas: Sequence[float] | None = None,
    steps: int = 100,
    ratio: float = 1e-3,
    until_nec: float | None = None,
    standardize: bool = True,
    sample_weight: Tensor | Sequence[float] | None = None,
    class_weight: Literal["balanced"] | Sequence[float] | None = None,
    tolerance: float = 1e-4,
    max_passes: int = 500,
    device: torch.device | str | None = None,
    chunk_rows: int | None = None,
) -> SparsePath:
    """Elastic-net multinomial regression along a path of λ (the objective is in `sparse_head.objective`).

    Args:
        features: (n, d) a tensor or an array; float64 is kept, anything else is computed in float32.
        labels: (n,) class numbers.
        classes: How many classes there are. One without rows gets zero weights and a bias that rules it out.
        alpha: The share of the L1 norm in the penalty, above 0 and up to 1.
        lambdas: The path; by default `steps` values, each the same fraction of the one before, from the smallest λ with
            no weights at all down to `ratio` times that.
        steps: Length of the default path.
        ratio: Its last λ divided by its first.
        until_nec: Stop after the first λ with at least so many effective concepts per class.
        standardize: Penalize the weights of features scaled to unit variance. The weights returned are for the features
            as given either way.
        sample_weight: (n,) weights of the rows; only their ratios count.
        class_weight: Weights of the classes, or `balanced` to let every class count the same.
        tolerance: Stop at a duality gap of this fraction of the objective.
        max_passes: Give up on a λ after so many passes over the rows, with a warning.
        device: Where to compute; by default where the features are.
        chunk_rows: Leave the features where they are (a memory map, say) and bring so many rows at a time.
    """
    _check(alpha, lambdas, steps, ratio, tolerance)
    with _full_precision():
        rows = Rows(
            features,
            labels,
            classes,
            standardize=standardize,
            sample_weight=sample_weight,
            class_weight=class_weight,
            device=device,
            chunk_rows=chunk_rows,
        )
        start = null_point(rows)
        top = largest_lambda(start, alpha)
        if lambdas is None:
            if not top > 0:
                raise UserError("No feature differs between the classes, so there is no path of λ to follow.")
            lambdas = [top * ratio ** (step / max(steps - 1, 1)) for step in range(steps)]
        solver = Solver(rows, start, tolerance=tolerance, max_passes=max_passes)
        previous, solved = max(top, lambdas[0]), []
        for lam in lambdas:
            solution = solver.solve(Penalty(lam, alpha), previous)
            _warn(lam, solution, tolerance, max_passes)
            solved.append(solution)
            previous = lam
            weights = solution.point.coef[:, :-1]
            if until_nec is not None and float(nec(weights)) * len(weights) / classes >= until_nec:
                break
    return _assemble(rows, lambdas, solved, solver.passes)


def fit_elastic_net(features: Features, labels: Labels, classes: int, lam: float, **options: Any) -> SparseHead:
    """The same for a single λ; `options` are those of `fit_path` about the objective and its solution."""
    return fit_path(features, labels, classes, lambdas=[lam], **options)[0]


def _assemble(rows: Rows, lambdas: Sequence[float], solved: list[Solution], passes: int) -> SparsePath:
    """Coefficients of centered and scaled features, present classes only, as weights for the features that came."""
    coef = torch.stack([solution.point.coef for solution in solved])
    weights = coef.new_zeros(len(solved), rows.classes, rows.width)
    biases = coef.new_full((len(solved), rows.classes), ABSENT)
    weights[:, rows.present] = coef[..., :-1] * rows.factor
    bias = coef[..., -1] - (coef[..., :-1] * rows.factor) @ rows.mean
    biases[:, rows.present] = bias - bias.mean(-1, keepdim=True)  # the same for all classes changes nothing

    def numbers(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=coef.device)

    return SparsePath(
        lambdas=numbers(lambdas[: len(solved)]),
        weights=weights,
        biases=biases,
        objectives=numbers([solution.objective for solution in solved]),
        gaps=numbers([solution.gap / solution.objective for solution in solved]),
        mean=rows.mean,
        scale=torch.where(rows.factor > 0, 1 / rows.factor, 0),
        passes=passes,
    )


@contextmanager
def _full_precision() -> Iterator[None]:
    """No TF32: its three digits would leave more error in the gradient than the duality gap allows."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _warn(lam: float, solution: Solution, tolerance: float, max_passes: int) -> None:
    relative = solution.gap / solution.objective
    if relative > tolerance:
        warnings.warn(
            f"The sparse head at λ = {lam:.3g} has a relative duality gap of {relative:.1e}, wanted {tolerance:.0e}. "
            f"It stopped after max_passes = {max_passes}, or at the end of {solution.point.coef.dtype}'s precision.",
            stacklevel=3,
        )


def _check(alpha: float, lambdas: Sequence[float] | None, steps: int, ratio: float, tolerance: float) -> None:
    if not 0 < alpha <= 1:
        raise UserError(f"alpha, the share of the L1 norm, must lie above 0 and up to 1, found {alpha}.")
    if not tolerance > 0:
        raise UserError(f"tolerance must be positive, found {tolerance}.")
    if lambdas is None:
        if steps < 1 or not 0 < ratio < 1:
            raise UserError(f"A path needs steps ≥ 1 and a ratio between 0 and 1, found {steps} and {ratio}.")
    elif not len(lambdas) or not all(math.isfinite(lam) and lam > 0 for lam in lambdas):
        raise UserError(f"Every λ must be positive and there must be one, found {list(lambdas)}.")
