"""The training rows of a sparse head: centered, weighted, and in memory or streamed in chunks.

Centering changes nothing but the bias, which is not penalized, and makes every computation better conditioned; dividing
by the standard deviation (`standardize`) makes the penalty fair to features of different scales. Rows that do not fit
on the device stay where they are (a tensor or a memory map) and come chunk by chunk, centered on arrival.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError

Features = Tensor | npt.NDArray[Any]  # (n, d); a numpy memory map will do
Labels = Tensor | npt.NDArray[Any] | Sequence[int]
CELLS = 2**25  # logits (classes × rows) in memory at once


class Chunk(NamedTuple):
    """Some rows: x (m, d) centered, labels (m,) among the present classes, share (m,) of the total weight."""

    x: Tensor
    labels: Tensor
    share: Tensor


class Rows:
    """n rows of d features with labels in a set of classes.

    Attributes:
        present: (C,) the classes that have any weight; all other tensors count these classes only.
        mean, factor: (d,) what is subtracted from each feature and what it is then multiplied by; the factor of a
            constant feature is 0.
        target: (C, d + 1) Σ_i s_i e_{y_i} [x_i, 1]: what the gradient compares the prediction with. Its last column is
            each class's share of the weight.
    """

    def __init__(
        self,
        features: Features,
        labels: Labels,
        classes: int,
        *,
        standardize: bool = True,
        sample_weight: Tensor | Sequence[float] | None = None,
        class_weight: Literal["balanced"] | Sequence[float] | None = None,
        device: torch.device | str | None = None,
        chunk_rows: int | None = None,
    ) -> None:
        self.dtype = torch.float64 if str(features.dtype).endswith("float64") else torch.float32
        self.device = torch.device(device or (features.device if isinstance(features, Tensor) else "cpu"))
        labels = torch.as_tensor(labels).to(self.device)
        _check(features, labels, classes, chunk_rows)
        self.source, self.classes = features, classes
        self.count, self.width = int(features.shape[0]), int(features.shape[1])
        self.share = _shares(labels, classes, sample_weight, class_weight).to(self.dtype)
        weight_of = torch.zeros(classes, dtype=self.dtype, device=self.device).index_add_(0, labels, self.share)
        self.present = weight_of.nonzero()[:, 0]
        if len(self.present) < 2:
            raise UserError(
                f"A class head needs rows of at least two classes, found {len(self.present)} among {self.count} rows."
            )
        # Rows of an absent class have no weight: any label will do for them.
        self.labels = torch.searchsorted(self.present, labels).clamp_(max=len(self.present) - 1)
        self.columns: Tensor | None = None
        self.step = chunk_rows or max(1, CELLS // len(self.present))
        self.resident: Tensor | None = None
        self.mean = torch.zeros(self.width, dtype=self.dtype, device=self.device)
        self.factor = torch.ones_like(self.mean)
        if chunk_rows is None:
            self.resident = _to_tensor(features, slice(None)).to(self.device, self.dtype)
        self._measure(standardize)
        if self.resident is not None:
            self.resident = (self.resident - self.mean).mul_(self.factor)
        self.target = self._targets()

    def chunks(self) -> Iterator[Chunk]:
        """All rows, in order."""
        for start in range(0, self.count, self.step):
            part = slice(start, start + self.step)
            if self.resident is not None:
                x = self.resident[part]
            else:
                x = (_to_tensor(self.source, part).to(self.device, self.dtype) - self.mean) * self.factor
                x = x if self.columns is None else x[:, self.columns]
            yield Chunk(x, self.labels[part], self.share[part])

    def restrict(self, columns: Tensor) -> "Rows":
        """The same rows with some of the features (k,)."""
        fewer = copy.copy(self)
        fewer.width, fewer.columns = len(columns), columns
        if self.resident is not None:
            fewer.resident = self.resident[:, columns]
        bias = torch.tensor([self.width], device=self.device)
        fewer.target = self.target[:, torch.cat([columns, bias])]
        return fewer

    def _measure(self, standardize: bool) -> None:
        """Weighted mean and standard deviation, in two passes for the sake of precision."""
        mean = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        for x, _, share in self.chunks():
            mean += (share @ x).double()
        if not bool(torch.isfinite(mean).all()):
            raise UserError("The features hold NaN, infinite or overflowing values; a class head needs finite ones.")
        self.mean = mean.to(self.dtype)
        variance = torch.zeros_like(mean)
        drift = torch.zeros_like(mean)
        shift = 0 if self.resident is None else self.mean  # streamed rows come centered already
        for x, _, share in self.chunks():
            centered = x - shift
            variance += (share @ centered.square()).double()
            drift += (share @ centered).double()
        self.mean = (mean + drift).to(self.dtype)  # what rounding of the first pass left
        deviation = (variance - drift.square()).clamp(min=0).sqrt().to(self.dtype)
        constant = deviation <= 8 * torch.finfo(self.dtype).eps * self.mean.abs()
        factor = 1 / deviation if standardize else torch.ones_like(deviation)
        # A constant feature says nothing. Its centered values are noise of rounding, which must not be blown up.
        self.factor = torch.where(constant, 0, factor)

    def _targets(self) -> Tensor:
        target = torch.zeros(len(self.present), self.width + 1, dtype=self.dtype, device=self.device)
        for x, labels, share in self.chunks():
            one_hot = x.new_zeros(len(target), len(x)).scatter_(0, labels[None], share[None])
            target[:, :-1] += one_hot @ x
            target[:, -1] += one_hot.sum(1)
        return target


def _to_tensor(features: Features, rows: slice) -> Tensor:
    if isinstance(features, Tensor):
        return features[rows]
    part = features[rows]
    return torch.from_numpy(np.array(part, dtype=part.dtype.newbyteorder("=")))  # a copy: maps are read-only


def _check(features: Features, labels: Tensor, classes: int, chunk_rows: int | None) -> None:
    if len(features.shape) != 2 or 0 in features.shape:
        raise UserError(f"Features must be a non-empty matrix (rows, features), found shape {tuple(features.shape)}.")
    if tuple(labels.shape) != (features.shape[0],):
        raise UserError(
            f"There must be one label for each of {features.shape[0]} rows, found labels {tuple(labels.shape)}."
        )
    if labels.is_floating_point() or labels.is_complex():
        raise UserError(f"Labels must be class numbers (integers), found {labels.dtype}.")
    if int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise UserError(
            f"Labels must lie in 0 … {classes - 1} for {classes} classes, found {int(labels.min())} … "
            f"{int(labels.max())}. Leave out rows without a label."
        )
    if chunk_rows is not None and chunk_rows < 1:
        raise UserError(f"chunk_rows must be at least 1, found {chunk_rows}.")


def _shares(
    labels: Tensor,
    classes: int,
    sample_weight: Tensor | Sequence[float] | None,
    class_weight: Literal["balanced"] | Sequence[float] | None,
) -> Tensor:
    """Weights (n,) that sum to one."""
    weight = torch.ones(len(labels), dtype=torch.float64, device=labels.device)
    if sample_weight is not None:
        weight = torch.as_tensor(sample_weight).to(weight)
        if weight.shape != labels.shape:
            raise UserError(f"There must be one weight for each of {len(labels)} rows, found {tuple(weight.shape)}.")
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise UserError(f"class_weight must be 'balanced' or a weight for each class, found {class_weight!r}.")
        total = torch.zeros(classes, dtype=weight.dtype, device=weight.device).index_add_(0, labels, weight)
        weight = weight / total.clamp(min=torch.finfo(weight.dtype).tiny)[labels]
    elif class_weight is not None:
        by_class = torch.as_tensor(class_weight).to(weight)
        if by_class.shape != (classes,):
            raise UserError(f"class_weight must have one weight for each of {classes} classes, found {len(by_class)}.")
        weight = weight * by_class[labels]
    if not bool(torch.isfinite(weight).all()) or bool((weight < 0).any()) or not float(weight.sum()) > 0:
        raise UserError("Weights of rows and classes must be finite, not negative and not all zero.")
    return weight / weight.sum()
