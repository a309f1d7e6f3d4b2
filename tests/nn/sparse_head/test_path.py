"""The whole fit, against a slow solver and against what must hold at an optimum."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.nn.sparse_head import SparseHead, fit_elastic_net, fit_path
from conceptlens.nn.sparse_head import solver as solver_module
from tests.nn.sparse_head.problems import objective, problem, reference, standardized

TIGHT: dict[str, Any] = {"tolerance": 1e-9}


def same_head(a: SparseHead, b: SparseHead, atol: float = 1e-4) -> None:
    torch.testing.assert_close(a.weights, b.weights, atol=atol, rtol=0)
    torch.testing.assert_close(a.biases, b.biases, atol=atol, rtol=0)


def check_optimality(head: SparseHead, x: Tensor, y: Tensor, alpha: float, slack: float) -> None:
    """0 ∈ ∂P for features penalized as they are: entry by entry, and for the bias."""
    residual = head.logits(x).softmax(-1) - torch.nn.functional.one_hot(y, len(head.weights))
    gradient = residual.T @ x / len(x) + head.lam * (1 - alpha) * head.weights
    on = head.weights != 0
    bound = head.lam * alpha
    assert (gradient[on] + bound * head.weights[on].sign()).abs().max() < slack * bound
    assert (gradient[~on].abs() - bound).max() < slack * bound
    assert residual.mean(0).abs().max() < slack * bound


@pytest.mark.parametrize("alpha", [0.99, 0.5, 1.0])
@pytest.mark.parametrize("lam", [0.1, 0.01])
def test_agrees_with_a_slow_solver(alpha: float, lam: float) -> None:
    x, y = problem()
    head = fit_elastic_net(x, y, 4, lam, alpha=alpha, standardize=False, tolerance=1e-8)
    w, _, best = reference(x, y, 4, lam, alpha)
    mine = objective(head.weights, head.biases, x, y, lam, alpha)
    assert mine == pytest.approx(head.objective, rel=1e-9)
    assert abs(mine - best) < 1e-6
    assert head.gap <= 1e-8
    if alpha < 1:  # otherwise the optimum need not be unique
        np.testing.assert_allclose(head.weights, w, atol=2e-3)
    check_optimality(head, x, y, alpha, 1e-2)


def test_path_agrees_with_a_slow_solver_at_every_lambda() -> None:
    x, y = problem(seed=1)
    path = fit_path(x, y, 4, steps=8, ratio=0.01)
    z = standardized(x)
    assert (path.gaps <= 1e-4).all()
    assert (path.lambdas[1:] < path.lambdas[:-1]).all()
    for head in path:
        _, _, best = reference(z, y, 4, head.lam, 0.99)
        assert -1e-9 < head.objective - best <= 1e-4 * head.objective
        # The weights are for the features as given, the penalty for the standardized ones.
        b = head.biases + head.weights @ x.mean(0)
        assert objective(head.weights * x.std(0, correction=0), b, z, y, head.lam, 0.99) == pytest.approx(
            head.objective, rel=1e-9
        )


def test_nothing_at_the_largest_lambda_and_something_below() -> None:
    x, y = problem(seed=2)
    path = fit_path(x, y, 4, steps=2, ratio=0.99, **TIGHT)
    assert (path.weights[0] == 0).all()
    assert (path.weights[1] != 0).sum() >= 1
    # By hand: the largest |Σ_i (π_c − [y_i = c]) x_ij| / n over classes and features, divided by α.
    prior = torch.bincount(y, minlength=4) / len(y)
    gradient = (prior - torch.nn.functional.one_hot(y, 4)).double().T @ standardized(x) / len(y)
    assert path.lambdas[0] == pytest.approx(float(gradient.abs().max()) / 0.99, rel=1e-6)
    torch.testing.assert_close(path.biases[0].softmax(0), prior.double(), atol=1e-6, rtol=0)
    assert (fit_elastic_net(x, y, 4, 10.0).weights == 0).all()


def test_warm_and_cold_start_end_at_the_same_head() -> None:
    x, y = problem(seed=3)
    path = fit_path(x, y, 4, steps=12, ratio=0.01, **TIGHT)
    for head in (path[4], path[11]):
        same_head(head, fit_elastic_net(x, y, 4, head.lam, **TIGHT))
    upwards = fit_path(x, y, 4, lambdas=path.lambdas.flip(0).tolist(), **TIGHT)
    same_head(path[4], upwards[7])


def test_order_of_classes_features_and_rows_does_not_matter() -> None:
    x, y = problem(seed=4)
    head = fit_elastic_net(x, y, 4, 0.02, **TIGHT)
    rows, columns, classes = torch.randperm(len(x)), torch.randperm(x.shape[1]), torch.tensor([2, 0, 3, 1])
    moved = fit_elastic_net(x[rows][:, columns], classes[y[rows]], 4, 0.02, **TIGHT)
    torch.testing.assert_close(moved.weights[classes], head.weights[:, columns], atol=1e-4, rtol=0)
    torch.testing.assert_close(moved.biases[classes], head.biases, atol=1e-4, rtol=0)


def test_two_classes_mirror_each_other() -> None:
    x, y = problem(classes=2, seed=5)
    head = fit_elastic_net(x, y, 2, 0.02, **TIGHT)
    torch.testing.assert_close(head.weights[0], -head.weights[1], atol=1e-4, rtol=0)
    assert head.biases.sum().abs() < 1e-9
    assert head.accuracy(x, y) > 0.8


def test_class_without_rows() -> None:
    x, y = problem(classes=3, seed=6)
    head, all_there = fit_elastic_net(x, y, 3, 0.02, **TIGHT), fit_elastic_net(x, y + (y > 0), 4, 0.02, **TIGHT)
    assert (all_there.weights[1] == 0).all()
    assert torch.isfinite(all_there.biases).all()
    assert (all_there.logits(x).softmax(-1)[:, 1] == 0).all()
    torch.testing.assert_close(all_there.weights[[0, 2, 3]], head.weights, atol=1e-6, rtol=0)
    assert all_there.nec == pytest.approx(head.nec * 3 / 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("standardize", [True, False])
def test_constant_and_repeated_features(dtype: torch.dtype, standardize: bool) -> None:
    x, y = problem(seed=7)
    extended = torch.cat([x, torch.full((len(x), 1), 1e3 / 3), torch.zeros(len(x), 1), x[:, :1]], 1).to(dtype)
    head = fit_elastic_net(extended, y, 4, 0.02, standardize=standardize, tolerance=1e-5)
    plain = fit_elastic_net(x.to(dtype), y, 4, 0.02, standardize=standardize, tolerance=1e-5)
    assert (head.weights[:, 12:14] == 0).all()
    assert torch.isfinite(head.weights).all()
    assert head.objective <= plain.objective * (1 + 1e-5)  # one more copy can only help: its ridge is shared
    # Copies share what one would have: the ridge makes them equal.
    torch.testing.assert_close(head.weights[:, 0], head.weights[:, 14], atol=2e-2, rtol=0)


def test_float32_is_as_good_as_its_tolerance() -> None:
    x, y = problem(seed=8)
    exact, single = fit_path(x, y, 4, steps=10, ratio=0.01), fit_path(x.float(), y, 4, steps=10, ratio=0.01)
    assert single.weights.dtype == torch.float32
    assert (single.gaps <= 1e-4).all()
    torch.testing.assert_close(single.objectives, exact.objectives, rtol=1e-4, atol=0)
    half = fit_elastic_net(x.half(), y, 4, 0.02)
    assert half.weights.dtype == torch.float32


def test_weights_of_rows_act_like_repeated_rows() -> None:
    x, y = problem(seed=9)
    times = torch.arange(len(x)) % 3
    weighted = fit_elastic_net(x, y, 4, 0.02, sample_weight=times, **TIGHT)
    repeated = fit_elastic_net(x.repeat_interleave(times, 0), y.repeat_interleave(times), 4, 0.02, **TIGHT)
    same_head(weighted, repeated)
    # λ_max, too, is that of the weighted rows.
    a = fit_path(x, y, 4, steps=1, sample_weight=times).lambdas
    b = fit_path(x.repeat_interleave(times, 0), y.repeat_interleave(times), 4, steps=1).lambdas
    torch.testing.assert_close(a, b)


def test_balanced_classes_count_the_same() -> None:
    x, y = problem(seed=10)
    counts = torch.bincount(y, minlength=4)
    balanced = fit_path(x, y, 4, lambdas=[10.0, 0.02], class_weight="balanced", **TIGHT)
    torch.testing.assert_close(balanced.biases[0].softmax(0), torch.full((4,), 0.25, dtype=torch.float64))
    same_head(balanced[1], fit_elastic_net(x, y, 4, 0.02, class_weight=(1 / counts).tolist(), **TIGHT))
    same_head(balanced[1], fit_elastic_net(x, y, 4, 0.02, sample_weight=1 / counts[y], **TIGHT))


def test_rows_streamed_from_a_file(tmp_path: Path) -> None:
    x, y = problem(n=203, d=90, seed=11)
    np.save(tmp_path / "x.npy", x.numpy())
    here = fit_path(x, y, 4, steps=6, ratio=0.05, **TIGHT)
    streamed = fit_path(np.load(tmp_path / "x.npy", mmap_mode="r"), y, 4, steps=6, ratio=0.05, chunk_rows=37, **TIGHT)
    torch.testing.assert_close(streamed.lambdas, here.lambdas)
    torch.testing.assert_close(streamed.weights, here.weights, atol=1e-4, rtol=0)
    torch.testing.assert_close(streamed.biases, here.biases, atol=1e-4, rtol=0)


def test_more_features_than_rows_and_features_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(n=60, d=300, classes=3, seed=12)
    monkeypatch.setattr(solver_module, "FEWEST", 2)
    sizes = []
    descend = solver_module.Solver._descend

    def spy(self: Any, *args: Any) -> Any:
        sizes.append(self.inside.width)
        return descend(self, *args)

    monkeypatch.setattr(solver_module.Solver, "_descend", spy)
    path = fit_path(x, y, 3, steps=10, ratio=0.1, **TIGHT)
    assert min(sizes) <= 64
    assert max(sizes) < 300
    monkeypatch.setattr(solver_module, "FEWEST", 300)
    full = fit_path(x, y, 3, steps=10, ratio=0.1, **TIGHT)
    torch.testing.assert_close(path.objectives, full.objectives, rtol=1e-8, atol=0)
    torch.testing.assert_close(path.weights, full.weights, atol=1e-3, rtol=0)


def test_strong_rule_that_errs_is_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = problem(n=60, d=100, classes=3, seed=13)
    top = float(fit_path(x, y, 3, steps=1).lambdas[0])
    monkeypatch.setattr(solver_module, "FEWEST", 2)
    admit = solver_module.Solver._admit
    thresholds = []

    def careless(self: Any, threshold: float) -> None:
        thresholds.append(threshold)
        admit(self, threshold if len(thresholds) > 1 else 0.98 * top)  # as if next to nothing could enter

    monkeypatch.setattr(solver_module.Solver, "_admit", careless)
    head = fit_elastic_net(x, y, 3, top / 5, **TIGHT)
    assert len(thresholds) > 1
    assert abs(head.objective - reference(standardized(x), y, 3, top / 5, 0.99)[2]) < 1e-6


def test_stops_at_a_number_of_concepts() -> None:
    x, y = problem(seed=14)
    path = fit_path(x, y, 4, until_nec=3)
    assert path.nec[-1] >= 3
    assert (path.nec[:-1] < 3).all()
    assert len(path) < 100


def test_says_when_it_did_not_get_there() -> None:
    x, y = problem(seed=15)
    with pytest.warns(UserWarning, match=r"relative duality gap of .* wanted 1e-09"):
        head = fit_elastic_net(x, y, 4, 0.001, tolerance=1e-9, max_passes=3)
    assert 1e-9 < head.gap < 1e3
    with pytest.warns(UserWarning, match=r"torch\.float32's precision"):
        fit_elastic_net(x.float(), y, 4, 0.01, tolerance=1e-14)


def test_the_same_twice_and_the_callers_tensors_stay() -> None:
    x, y = problem(seed=16)
    before = x.clone()
    first, second = (fit_path(x, y, 4, steps=5) for _ in range(2))
    torch.testing.assert_close(first.weights, second.weights, atol=0, rtol=0)
    torch.testing.assert_close(x, before, atol=0, rtol=0)
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    fit_path(x.float(), y, 4, steps=2)
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": torch.zeros(3)}, "matrix"),
        ({"x": torch.full((120, 2), torch.nan)}, "NaN"),
        ({"x": torch.zeros(120, 2)}, "No feature differs"),
        ({"y": torch.zeros(5, dtype=torch.long)}, "one label for each of 120 rows"),
        ({"y": torch.zeros(120)}, "integers"),
        ({"y": torch.zeros(120, dtype=torch.long)}, "at least two classes"),
        ({"y": torch.full((120,), -1)}, "0 … 3"),
        ({"y": torch.full((120,), 4)}, "0 … 3"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.1}, "alpha"),
        ({"lambdas": []}, "positive"),
        ({"lambdas": [0.1, -1.0]}, "positive"),
        ({"ratio": 2.0}, "ratio"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"chunk_rows": 0}, "chunk_rows"),
        ({"sample_weight": [1.0]}, "one weight for each"),
        ({"sample_weight": [-1.0] * 120}, "not negative"),
        ({"class_weight": [1.0]}, "4 classes"),
        ({"class_weight": "even"}, "balanced"),
    ],
)
def test_refuses(change: dict[str, Any], says: str) -> None:
    x, y = problem()
    x, y = change.pop("x", x), change.pop("y", y)
    with pytest.raises(UserError, match=says):
        fit_path(x, y, 4, **change)
