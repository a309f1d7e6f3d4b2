"""The linear probe: multinomial logistic regression on frozen features, the same for every network.

Features are standardized by the mean and the standard deviation of the training images. The loss is the mean
cross-entropy plus λ/2 · ‖W‖² (no penalty on the biases), minimized by full-batch L-BFGS from the strongest λ to the
weakest, each starting where the last one ended. λ is chosen for every question by balanced accuracy on validation, the
stronger one if two are equal; the weights that were chosen are used as they are, without a second fit on validation.

A seed draws the nine tenths (or what a set says) of the training images that train. The rest validates where a set has
no validation split of its own, and is left out where it has one, so that the spread over seeds means the same for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.evaluation.classification.balanced import balanced_accuracy
from pretraining.probe.sets import ImageSet, Question

Integers = npt.NDArray[np.int64]

STRENGTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
CURVATURE = 0.1  # typical second derivative of a cross-entropy by a logit, 0.25 at most; only speed depends on it


@dataclass(frozen=True)
class Fit:
    """Weights (C, F) and biases (C,); C over all questions side by side."""

    weights: Tensor
    biases: Tensor

    def logits(self, features: Tensor) -> Tensor:
        return F.linear(features, self.weights, self.biases)


def fit_logistic(
    features: Tensor,
    labels: Sequence[Tensor],
    sizes: Sequence[int],
    strength: float,
    start: Fit | None = None,
    *,
    iterations: int = 500,
    tolerance: float = 1e-4,
) -> Fit:
    """Independent multinomial regressions on the same features, in one go.

    Args:
        features: (N, F), centered; solved much sooner if their columns are uncorrelated.
        labels: For each question (N,).
        sizes: For each question, its number of values.
        strength: λ.
        start: Where to begin; zeros otherwise. The optimum does not depend on it.
        iterations: At most so many steps of L-BFGS.
        tolerance: Ends when no entry of the gradient is larger.
    """
    width, total = features.shape[1], sum(sizes)
    if start is None:
        start = Fit(features.new_zeros(total, width), features.new_zeros(total))
    # Solved in units in which the loss is about equally curved in every direction; the optimum is the same.
    scale = (CURVATURE * features.var(0, correction=0) + strength).rsqrt()
    scaled, biases = (start.weights / scale).requires_grad_(), start.biases.clone().requires_grad_()
    solver = torch.optim.LBFGS(
        [scaled, biases],
        max_iter=iterations,
        tolerance_grad=tolerance,
        tolerance_change=1e-9,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        solver.zero_grad()
        weights = scaled * scale
        logits = torch.split(F.linear(features, weights, biases), list(sizes), 1)
        value = sum((F.cross_entropy(part, truth) for part, truth in zip(logits, labels, strict=True)), torch.zeros(()))
        value = value + 0.5 * strength * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    solver.step(loss)  # type: ignore[no-untyped-call]
    return Fit((scaled * scale).detach(), biases.detach())


def draw(images: ImageSet, seed: int) -> tuple[Integers, Integers]:
    """Indices that train and that validate, stratified by the first question."""
    train, classes = images.where("train"), images.questions[0].labels
    generator = np.random.default_rng(seed)
    aside = []
    for value in range(len(images.questions[0].values)):
        members = generator.permutation(train[classes[train] == value])
        aside.append(members[: round(images.lend * len(members))])
    rest = np.concatenate(aside)
    return np.setdiff1d(train, rest), images.where("val") if images.has_validation else np.sort(rest)


def _scores(logits: Tensor, questions: Sequence[Question], which: Integers) -> list[dict[str, float]]:
    """Accuracy and balanced accuracy of each question."""
    scores = []
    for asked, part in zip(questions, torch.split(logits, [len(q.values) for q in questions], 1), strict=True):
        predicted, truth = part.argmax(1).numpy(), asked.labels[which]
        balanced = balanced_accuracy(predicted, truth, len(asked.values))
        assert balanced is not None
        scores.append({"accuracy": float((predicted == truth).mean()), "balanced_accuracy": balanced})
    return scores


def probe_once(features: Tensor, images: ImageSet, seed: int) -> dict[str, Any]:
    """One seed: every question's scores on test, with the λ that validation chose."""
    train, validation = draw(images, seed)
    test = images.where("test")
    mean, deviation = features[train].mean(0), features[train].std(0)
    features = (features - mean) / torch.where(deviation > 1e-6, deviation, 1.0)
    # A rotation changes neither the penalty nor the optimum, but principal axes are uncorrelated.
    features = features @ torch.linalg.eigh(torch.cov(features[train].T))[1]
    seen, checked, asked_last = features[train], features[validation], features[test]
    asked = images.questions
    sizes = [len(question.values) for question in asked]
    labels = [torch.from_numpy(question.labels[train]) for question in asked]
    best: list[tuple[float, float]] = [(-1.0, 0.0)] * len(asked)  # validation score, λ
    chosen: list[Tensor | None] = [None] * len(asked)  # test logits of the best λ so far, not looked at before the end
    fit, path = None, []
    for strength in STRENGTHS:
        fit = fit_logistic(seen, labels, sizes, strength, fit)
        scores = _scores(fit.logits(checked), asked, validation)
        path.append({"strength": strength, "validation": [score["balanced_accuracy"] for score in scores]})
        for index, logits in enumerate(torch.split(fit.logits(asked_last), sizes, 1)):
            if scores[index]["balanced_accuracy"] > best[index][0]:
                best[index], chosen[index] = (scores[index]["balanced_accuracy"], strength), logits
    found = _scores(torch.cat([logits for logits in chosen if logits is not None], 1), asked, test)
    for score, (_, strength) in zip(found, best, strict=True):
        score["strength"] = strength
    return {"seed": seed, "questions": dict(zip((q.name for q in asked), found, strict=True)), "path": path}


def summarize(values: Sequence[float]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, and the seeds themselves."""
    return {"mean": fmean(values), "sd": stdev(values) if len(values) > 1 else 0.0, "seeds": list(values)}


def probe(features: Tensor, images: ImageSet, seeds: Sequence[int] = (0, 1, 2)) -> dict[str, Any]:
    """The class, and the mean over attributes where a set has some, on the test split over seeds.

    Args:
        features: (N, F), of all images of the set in their order.
        images: The set.
        seeds: Of the draws.
    """
    runs = [probe_once(features, images, seed) for seed in seeds]
    report: dict[str, Any] = {}
    attributes = [question.name for question in images.questions[1:]]
    for measure in ("accuracy", "balanced_accuracy"):
        report.setdefault("class", {})[measure] = summarize([run["questions"]["class"][measure] for run in runs])
        if attributes:
            means = [fmean(run["questions"][name][measure] for name in attributes) for run in runs]
            report.setdefault("attributes", {})[measure] = summarize(means)
    counts = {name: len(images.where(name)) for name in ("train", "val", "test")}
    return report | {"images": counts, "width": features.shape[1], "runs": runs}
