"""A class map by Adam against scikit-learn's logistic regression; what validation stops, and what a penalty does."""

import math

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from conceptlens.nn.heads.softmax_fit import Labeled, fit_softmax


def world(n: int, seed: int) -> Labeled:
    chance = torch.Generator().manual_seed(seed)
    vectors = torch.randn(n, 2, generator=chance)
    noisy = vectors[:, 0] + 0.8 * torch.randn(n, generator=chance)
    return Labeled(vectors, (noisy > 0).long())


def loss_of(model: nn.Module, data: Labeled) -> float:
    return float(nn.functional.cross_entropy(model(data.vectors), data.labels).detach())


def test_it_finds_the_minimum() -> None:
    train, model = world(300, 0), nn.Linear(2, 2)
    settings = {"rate": 0.05, "steps": 400, "batch": 1000, "seed": 0}
    found = fit_softmax(model, train, train, torch.ones(2), **settings)  # type: ignore[arg-type]
    oracle = LogisticRegression(C=1e6).fit(train.vectors.numpy(), train.labels.numpy())
    logits = torch.from_numpy(oracle.decision_function(train.vectors.numpy())).float()
    best = float(nn.functional.binary_cross_entropy_with_logits(logits, train.labels.float()))
    assert abs(found - best) < 1e-3
    assert abs(loss_of(model, train) - found) < 1e-6


def test_validation_takes_an_earlier_step() -> None:
    """Validation with the labels swapped is worse at every look, so the first is kept."""
    train = world(100, 0)
    val, model = Labeled(train.vectors, 1 - train.labels), nn.Linear(2, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    found = fit_softmax(model, train, val, torch.ones(2), rate=0.05, steps=200, batch=50, seed=0, check_every=1)
    assert math.isclose(found, loss_of(model, val), rel_tol=1e-5)
    assert found < math.log(2) + 0.1


def test_without_validation_images_the_last_step_is_taken_and_a_penalty_acts() -> None:
    train, nobody = world(100, 0), Labeled(torch.zeros(0, 2), torch.zeros(0, dtype=torch.long))
    free, held = nn.Linear(2, 2), nn.Linear(2, 2)

    def pull() -> Tensor:
        return 10 * held.weight.square().sum()

    settings = {"rate": 0.05, "steps": 200, "batch": 1000, "seed": 0}
    assert math.isnan(fit_softmax(free, train, nobody, torch.ones(2), **settings))  # type: ignore[arg-type]
    fit_softmax(held, train, nobody, torch.ones(2), penalty=pull, **settings)  # type: ignore[arg-type]
    assert float(held.weight.norm()) < 0.2 * float(free.weight.norm())
