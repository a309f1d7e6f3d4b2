"""The sparse head against scikit-learn's saga, on the same objective.

    python bench/sparse_head.py [--large] [--device cuda] [--dtype float32] [--threads 2] [--repeats 3] [--json FILE]

Small: 4,000 rows, 128 features, 10 classes, one λ at a time from a cold start, and a path of 20 with warm starts on
both sides. saga runs at its default tolerance (1e-4 on the change of the weights) on one core, as it always does; ours
runs to a relative duality gap of 1e-4. λ and α are scikit-learn's C = 1/(nλ) and l1_ratio = α; neither penalizes the
bias.

Large (`--large`, the default on a GPU): 50,000 rows, 512 features, 200 classes; a path until 30 effective concepts per
class and its last λ from a cold start, beside the time of one epoch of saga on this machine's CPU.

Times are the smallest over the repeats. They mean something only on an idle machine.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn
import torch
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from clock import best
from conceptlens.core.files import write_json
from conceptlens.nn.sparse_head import SparseHead, fit_elastic_net, fit_path

ALPHA, TOLERANCE = 0.99, 1e-4
FRACTIONS = (0.3, 0.1, 0.03, 0.01)  # λ / λ_max
KINDS = ("independent", "concepts")
OPTIONS: dict[str, Any] = {"alpha": ALPHA, "standardize": False, "tolerance": TOLERANCE}
# From 1.8 on scikit-learn reads the penalty off l1_ratio and warns where it is named.
ELASTIC_NET = {} if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 8) else {"penalty": "elasticnet"}
PROMISE = {"objective": 1e-4, "speed_up": 10.0, "large_seconds": 10.0}


def make_rows(kind: str, n: int, d: int, classes: int, dtype: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Standardized features (n, d) and labels (n,).

    `independent`: Gaussian features, labels drawn from a sparse linear model. `concepts`: what a bottleneck gives,
    scores that depend on the class and are correlated through d/6 factors that do not.
    """
    generator = np.random.default_rng(seed)
    if kind == "independent":
        x = generator.standard_normal((n, d))
        weights = generator.standard_normal((classes, d)) * (generator.random((classes, d)) < 0.1)
        y = (0.7 * x @ weights.T + generator.gumbel(size=(n, classes))).argmax(1)
    else:
        y = generator.choice(classes, size=n, p=generator.dirichlet(np.full(classes, 5.0)))
        prototypes = generator.standard_normal((classes, d)) * (generator.random((classes, d)) < 0.3)
        factors = generator.standard_normal((n, max(4, d // 6)))
        x = 0.6 * prototypes[y] + 1.5 * factors @ generator.standard_normal((factors.shape[1], d)) / d**0.5 * 6**0.5
        x += 0.5 * generator.standard_normal((n, d))
    x = (x - x.mean(0)) / x.std(0)
    return torch.tensor(x.astype(dtype)), torch.tensor(y)


def saga(n: int, lam: float, max_iter: int = 2000, warm_start: bool = False) -> Any:
    options = {"C": 1 / (n * lam), "l1_ratio": ALPHA, "max_iter": max_iter, "warm_start": warm_start, **ELASTIC_NET}
    return LogisticRegression(solver="saga", random_state=0, **options)


def objective(weights: npt.NDArray[Any], biases: npt.NDArray[Any], x: Tensor, y: Tensor, lam: float) -> float:
    """In float64, the same for both."""
    w, z = weights.astype(np.float64), x.double().numpy() @ weights.astype(np.float64).T + biases
    loss = float(np.mean(logsumexp(z, axis=1) - z[np.arange(len(y)), y.numpy()]))
    return loss + lam * (ALPHA * float(np.abs(w).sum()) + (1 - ALPHA) / 2 * float(np.square(w).sum()))


def of_head(head: SparseHead, x: Tensor, y: Tensor) -> float:
    return objective(head.weights.cpu().numpy(), head.biases.cpu().numpy(), x, y, head.lam)


def single(kind: str, x: Tensor, y: Tensor, lam: float, repeats: int) -> dict[str, Any]:
    theirs, model = best(lambda: saga(len(y), lam).fit(x.numpy(), y.numpy()), 1)
    ours, head = best(lambda: fit_elastic_net(x, y, 10, lam, **OPTIONS), repeats)
    value = of_head(head, x, y)
    return {
        "case": kind,
        "lambda": lam,
        "nec": head.nec,
        "relative_gap": head.gap,
        "seconds": ours,
        "saga_seconds": theirs,
        "saga_epochs": int(model.n_iter_[0]),
        "speed_up": theirs / ours,
        "objective": value,
        "objective_minus_saga": value - objective(model.coef_, model.intercept_, x, y, lam),
    }


def path_of(kind: str, x: Tensor, y: Tensor, lambdas: list[float], repeats: int) -> dict[str, Any]:
    def saga_path() -> list[float]:
        model, values = saga(len(y), lambdas[0], warm_start=True), []
        for lam in lambdas:
            model.set_params(C=1 / (len(y) * lam)).fit(x.numpy(), y.numpy())
            values.append(objective(model.coef_, model.intercept_, x, y, lam))
        return values

    theirs, values = best(saga_path, 1)
    ours, path = best(lambda: fit_path(x, y, 10, lambdas=lambdas, **OPTIONS), repeats)
    return {
        "case": f"{kind}, path of {len(path)}",
        "nec": float(path.nec[-1]),
        "relative_gap": float(path.gaps.max()),
        "passes": path.passes,
        "seconds": ours,
        "saga_seconds": theirs,
        "speed_up": theirs / ours,
        "objective_minus_saga": max(of_head(head, x, y) - value for head, value in zip(path, values, strict=True)),
    }


def small(dtype: str, repeats: int, keep: Callable[[dict[str, Any]], None]) -> None:
    for kind in KINDS:
        x, y = make_rows(kind, 4000, 128, 10, dtype)
        top = float(fit_path(x, y, 10, steps=1, **OPTIONS).lambdas[0])
        for fraction in FRACTIONS:
            keep({"lambda_fraction": fraction} | single(kind, x, y, top * fraction, repeats))
        keep(path_of(kind, x, y, (top * np.geomspace(1, 0.01, 20)).tolist(), repeats))


def large(kind: str, dtype: str, repeats: int, device: str) -> dict[str, Any]:
    x, y = make_rows(kind, 50_000, 512, 200, dtype)
    on_device, labels = x.to(device), y.to(device)
    fit_path(on_device, labels, 200, steps=3, ratio=0.5, **OPTIONS)  # kernels load on first use
    seconds, path = best(lambda: fit_path(on_device, labels, 200, until_nec=30, **OPTIONS), repeats, device)
    lam = float(path.lambdas[-1])
    cold, alone = best(lambda: fit_path(on_device, labels, 200, lambdas=[lam], **OPTIONS), repeats, device)
    return {
        "case": f"large, {kind}",
        "device": device,
        "path_length": len(path),
        "path_passes": path.passes,
        "path_seconds": seconds,
        "path_relative_gap": float(path.gaps.max()),
        "nec": float(path.nec[-1]),
        "cold_seconds": cold,
        "cold_passes": alone.passes,
        "relative_gap": float(alone.gaps[0]),
    }


def saga_epoch(dtype: str) -> dict[str, Any]:
    """What one pass of saga over the large rows takes, on the CPU: the second pass, without what comes before."""
    x, y = make_rows(KINDS[0], 50_000, 512, 200, dtype)
    lam = float(fit_path(x[:2000], y[:2000], 200, steps=1, **OPTIONS).lambdas[0]) / 10
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, _ = best(lambda: saga(len(y), lam, 1).fit(x.numpy(), y.numpy()), 1)
        two, _ = best(lambda: saga(len(y), lam, 2).fit(x.numpy(), y.numpy()), 1)
    return {"case": f"large, {KINDS[0]}, saga", "saga_seconds_per_epoch": two - one}


def show(row: dict[str, Any]) -> None:
    print("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--large", action=argparse.BooleanOptionalAction, help="default: where there is a GPU")
    parser.add_argument("--small", action=argparse.BooleanOptionalAction, default=True, help="always on the CPU")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    machine = {
        "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        "cores": os.cpu_count(),
        "threads": args.threads,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "dtype": args.dtype,
    }
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    found: list[dict[str, Any]] = []

    def keep(row: dict[str, Any]) -> None:  # at once: a run that is stopped has measured what it has measured
        show(row)
        found.append(row)
        if args.json:
            write_json(args.json, {"schema": 1, "machine": machine, "promise": PROMISE, "rows": found})

    if args.small:
        small(args.dtype, args.repeats, keep)
    if args.large or (args.large is None and args.device == "cuda"):
        for kind in KINDS:
            keep(large(kind, args.dtype, args.repeats, args.device))
        keep(saga_epoch(args.dtype))
    print(f"wanted: objective within {PROMISE['objective']:g} of saga's or below, {PROMISE['speed_up']:g} × faster")


if __name__ == "__main__":
    main()
