"""A fitted sparse head, and a path of them from the sparsest to the densest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.nn.sparse_head.nec import WANTED, Per, check_wanted, concepts_per_class, keep_largest, nec


@dataclass(frozen=True)
class SparseHead:
    """Logits = x Wᵀ + b for features as they were given.

    Attributes:
        weights: (C, d).
        biases: (C,).
        lam: The penalty's λ.
        objective: Its objective.
        gap: The duality gap divided by the objective. It speaks of the head as fitted, before any pruning.
        mean: (d,) of the training features.
        scale: (d,) by which a weight is multiplied to compare it with others: the standard deviation where the penalty
            saw the features standardized, 1 where it saw them as they are, 0 for a constant feature.
        pruned: Weights that were set to zero after fitting.
    """

    weights: Tensor
    biases: Tensor
    lam: float
    objective: float
    gap: float
    mean: Tensor
    scale: Tensor
    pruned: int = 0

    @property
    def nec(self) -> float:
        """The mean number of non-zero weights of a class."""
        return float(nec(self.weights))

    @property
    def concepts_per_class(self) -> Tensor:
        """(C,) the number of non-zero weights of each class."""
        return concepts_per_class(self.weights)

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) → (n, C)."""
        return features.to(self.weights) @ self.weights.T + self.biases

    def accuracy(self, features: Tensor, labels: Tensor) -> float:
        """The share of rows whose largest logit is that of their class."""
        return float((self.logits(features).argmax(-1) == labels.to(self.weights.device)).double().mean())

    def prune(self, wanted: float, per: Per = "mean") -> "SparseHead":
        """Without its smallest weights, at the wanted NEC (see `nec.keep_largest`).

        A concept that goes is replaced by its mean over the training rows: the bias takes over what it gave on average.
        """
        keep = keep_largest((self.weights * self.scale).abs(), wanted, per)
        gone = self.weights.masked_fill(keep, 0)
        return replace(
            self,
            weights=self.weights - gone,
            biases=self.biases + gone @ self.mean,
            pruned=self.pruned + int((gone != 0).sum()),
        )


@dataclass(frozen=True)
class SparsePath:
    """Heads for falling λ, and so for growing NEC.

    Attributes:
        lambdas: (T,) falling.
        weights: (T, C, d).
        biases: (T, C).
        objectives: (T,) each λ's own objective.
        gaps: (T,) duality gaps divided by the objective.
        mean, scale: (d,) as in `SparseHead`.
        passes: Passes over the training rows that loss and gradient took in all.
    """

    lambdas: Tensor
    weights: Tensor
    biases: Tensor
    objectives: Tensor
    gaps: Tensor
    mean: Tensor
    scale: Tensor
    passes: int

    @property
    def nec(self) -> Tensor:
        """(T,) the mean number of non-zero weights of a class."""
        return nec(self.weights)

    def __len__(self) -> int:
        return len(self.lambdas)

    def __iter__(self) -> Iterator[SparseHead]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> SparseHead:
        lam, objective, gap = (float(values[index]) for values in (self.lambdas, self.objectives, self.gaps))
        return SparseHead(self.weights[index], self.biases[index], lam, objective, gap, self.mean, self.scale)

    def at_nec(self, wanted: float, *, per: Per = "mean", prune: bool = True, or_fewer: bool = False) -> SparseHead:
        """The head at a wanted NEC: the one of the largest λ that has at least as many, without its smallest weights.

        Args:
            wanted: The number of effective concepts per class.
            per: What to prune to: a `mean` over classes, or so many in each `class`. With `class`, the head is the
                first in which every class that ever has weights has enough, or the densest if there is none.
            prune: False leaves the head as it was fitted.
            or_fewer: Take the densest head where none has as many, instead of refusing. Classes that are easy to tell
                apart may never use more than a few concepts, however small λ.
        """
        counts = concepts_per_class(self.weights)
        if per == "class":
            enough = ((counts >= int(wanted)) | (counts.amax(0) == 0)).all(-1)
        else:
            enough = self.nec >= wanted
        densest = len(self) - 1 - int(self.nec.flip(0).argmax())  # of several, the one that fits best
        if not or_fewer and float(self.nec[densest]) < wanted:
            raise UserError(
                f"No head of this path has {wanted:g} effective concepts per class; the densest has "
                f"{float(self.nec[densest]):.1f}. Fit the path down to a smaller λ, with a smaller `ratio`, or accept "
                "`or_fewer`."
            )
        head = self[int(enough.long().argmax()) if bool(enough.any()) else densest]
        return head.prune(wanted, per) if prune else head

    def accuracy_at(
        self, features: Tensor, labels: Tensor, wanted: Iterable[float] = WANTED, *, per: Per = "mean"
    ) -> dict[float, float]:
        """Accuracy at each wanted NEC, or at fewer concepts where the path never uses as many."""
        heads = {value: self.at_nec(value, per=per, or_fewer=True) for value in check_wanted(wanted)}
        return {value: head.accuracy(features, labels) for value, head in heads.items()}

    def summary(self) -> list[dict[str, Any]]:
        """One row for each λ, ready for JSON."""
        columns = (self.lambdas, self.nec, self.objectives, self.gaps)
        names = ("lambda", "nec", "objective", "relative_gap")
        return [dict(zip(names, row, strict=True)) for row in torch.stack([c.double() for c in columns], 1).tolist()]
