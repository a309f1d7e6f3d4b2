"""Small problems, their objective written out in numpy, and a slow solver to trust: L-BFGS-B on W = W⁺ − W⁻."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from torch import Tensor

Floats = npt.NDArray[np.float64]


def problem(n: int = 120, d: int = 12, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Correlated features of different scale, off center, and classes of different size; float64."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(classes, size=n, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    labels[:classes] = np.arange(classes)
    centers = generator.standard_normal((classes, d)) * (generator.random((classes, d)) < 0.5)
    x = centers[labels] + generator.standard_normal((n, 3)) @ generator.standard_normal((3, d))
    x = (x + generator.standard_normal((n, d))) * generator.uniform(0.5, 3, d) + generator.uniform(-2, 2, d)
    return torch.tensor(x), torch.tensor(labels)


def standardized(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0, correction=0)


def objective(w: Any, b: Any, x: Any, y: Any, lam: float, alpha: float, share: Any = None) -> float:
    """The objective, term by term, in float64."""
    w, b, x, y = (np.asarray(a, dtype=np.float64 if i < 3 else np.int64) for i, a in enumerate((w, b, x, y)))
    share = np.full(len(y), 1 / len(y)) if share is None else np.asarray(share)
    z = x @ w.T + b
    cross_entropy = logsumexp(z, axis=1) - z[np.arange(len(y)), y]
    return float(share @ cross_entropy + lam * (alpha * np.abs(w).sum() + (1 - alpha) / 2 * np.square(w).sum()))


def reference(
    x: Any, y: Any, classes: int, lam: float, alpha: float, share: Any = None
) -> tuple[Floats, Floats, float]:
    """Weights, biases and objective of the optimum, for features penalized as they are."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y)
    n, d = x.shape
    share = np.full(n, 1 / n) if share is None else np.asarray(share)
    one_hot = np.eye(classes)[y]

    def value(flat: Floats) -> tuple[float, Floats]:
        plus, minus = flat[: classes * d].reshape(classes, d), flat[classes * d : 2 * classes * d].reshape(classes, d)
        w, b = plus - minus, flat[2 * classes * d :]
        z = x @ w.T + b
        residual = (softmax(z, axis=1) - one_hot) * share[:, None]
        smooth = share @ (logsumexp(z, axis=1) - z[np.arange(n), y]) + lam * (1 - alpha) / 2 * np.square(w).sum()
        gradient = residual.T @ x + lam * (1 - alpha) * w
        total = smooth + lam * alpha * (plus.sum() + minus.sum())
        parts = (gradient + lam * alpha, lam * alpha - gradient, residual.sum(0))
        return float(total), np.concatenate([part.ravel() for part in parts])

    bounds = [(0, None)] * (2 * classes * d) + [(None, None)] * classes
    options = {"maxiter": 20000, "maxfun": 50000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 40}
    found = minimize(value, np.zeros(len(bounds)), jac=True, bounds=bounds, method="L-BFGS-B", options=options).x
    w = (found[: classes * d] - found[classes * d : 2 * classes * d]).reshape(classes, d)
    b = found[2 * classes * d :]
    return w, b, objective(w, b, x, y, lam, alpha, share)
