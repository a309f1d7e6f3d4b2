"""The solver: proximal quasi-Newton steps on a working set of features, until the duality gap says that it is enough.

Each outer step costs one pass over the rows (loss and gradient) and a model step that does not depend on their number.
Features enter by the strong rule (Tibshirani et al., 2012): going from λ' to λ, a feature whose gradient stays below
α(2λ − λ') in every class is left out. The rule can err, so the gradient and the gap of the full problem are computed at
the end, and features that break the optimality conditions are let in. The working set grows by doubling, because what
was learned about curvature belongs to one set of features.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from conceptlens.nn.sparse_head.curvature import Curvature
from conceptlens.nn.sparse_head.duality import duality_gap
from conceptlens.nn.sparse_head.model_step import model_step
from conceptlens.nn.sparse_head.objective import Penalty, Point, curvature, evaluate
from conceptlens.nn.sparse_head.rows import Rows

REFRESH = 12  # passes between looks at the curvature of all rows
FEWEST = 64  # features in a working set; below that, leaving some out saves nothing
PATIENCE = 40  # steps without a descent that stands out from rounding: this precision can do no more


class Solution(NamedTuple):
    """A point with its objective and its duality gap."""

    point: Point
    objective: float
    gap: float


class Solver:
    """Solves for one λ after another, each from the point before; λ should fall.

    Attributes:
        passes: Passes over the rows so far, in which loss and gradient were computed.
    """

    def __init__(self, rows: Rows, start: Point, *, tolerance: float, max_passes: int) -> None:
        self.rows, self.point = rows, start
        self.tolerance, self.max_passes = tolerance, max_passes
        self.passes, self.age = 0, 0
        self.inside, self.columns = rows, torch.zeros(0, dtype=torch.long, device=start.coef.device)
        self.curvature: Curvature | None = None

    def solve(self, penalty: Penalty, previous: float) -> Solution:
        """The minimizer for a penalty, where `previous` is the λ solved before (or λ_max)."""
        last = self.passes + self.max_passes
        gap = self._gap(self.rows, self.point, penalty, self.tolerance)
        threshold, tolerance = penalty.alpha * (2 * penalty.lam - previous), self.tolerance
        while gap == torch.inf and self.passes < last:
            self._admit(threshold)
            point, gap = self._descend(self._inner(self.point), penalty, tolerance, last)
            gave_up = gap == torch.inf
            if self.inside is self.rows:
                self.point = point
            else:
                self.point = self._evaluate(self.rows, self._outer(point.coef))
                gap = self._gap(self.rows, self.point, penalty, self.tolerance)
            if gave_up:
                break
            threshold, tolerance = penalty.l1, tolerance / 2
        if gap == torch.inf:
            gap = duality_gap(self.rows, self.point, penalty)
        return Solution(self.point, self.point.objective(penalty), gap)

    def _descend(self, point: Point, penalty: Penalty, tolerance: float, last: int) -> tuple[Point, float]:
        """Steps on the working set until its own gap is small, or no step goes down."""
        objective, idle = point.objective(penalty), 0
        noise = 4 * torch.finfo(point.coef.dtype).eps * abs(objective)
        while (gap := self._gap(self.inside, point, penalty, tolerance)) == torch.inf:
            if self.passes >= last or idle >= PATIENCE:
                break
            known = self._known(point.coef)
            scale = known.scale
            new = self._evaluate(self.inside, model_step(point, known.model(), penalty))
            known.learn(new.coef - point.coef, new.gradient - point.gradient)
            value = new.objective(penalty)
            idle = 0 if value < objective - noise else idle + 1
            if value <= objective + noise:
                point, objective = new, value
            else:  # the loss bends more than the model knew
                known.scale = max(known.scale, 1.5 * scale)
        return point, gap

    def _evaluate(self, rows: Rows, coef: Tensor) -> Point:
        self.passes, self.age = self.passes + 1, self.age + 1
        return evaluate(rows, coef)

    def _gap(self, rows: Rows, point: Point, penalty: Penalty, tolerance: float) -> float:
        return duality_gap(rows, point, penalty, limit=tolerance * point.objective(penalty))

    def _known(self, coef: Tensor) -> Curvature:
        if self.curvature is None:
            self.curvature, self.age = Curvature(curvature(self.inside, coef)), 0
        elif self.age >= REFRESH:
            self.curvature.refresh(curvature(self.inside, coef))
            self.age = 0
        return self.curvature

    def _admit(self, threshold: float) -> None:
        """Let features in whose gradient exceeds a threshold in some class."""
        score = self.point.gradient[:, :-1].abs().amax(0)
        wanted = (score > threshold) | (self.point.coef[:, :-1] != 0).any(0)
        wanted[self.columns] = True
        need = int(wanted.sum())
        if need == len(self.columns) > 0:
            return
        size = max(FEWEST, 1 << (need - 1).bit_length())
        if size >= self.rows.width:
            self.inside, self.columns = self.rows, torch.arange(self.rows.width, device=score.device)
        else:
            self.columns = score.masked_fill(wanted, torch.inf).topk(size).indices.sort().values
            self.inside = self.rows.restrict(self.columns)
        self.curvature = None

    def _inner(self, point: Point) -> Point:
        """A point of the full problem as one of the working set."""
        if self.inside is self.rows:
            return point
        index = torch.cat([self.columns, self.columns.new_tensor([self.rows.width])])
        return Point(point.coef[:, index], point.loss, point.gradient[:, index])

    def _outer(self, coef: Tensor) -> Tensor:
        full = coef.new_zeros(len(coef), self.rows.width + 1)
        full[:, self.columns], full[:, -1] = coef[:, :-1], coef[:, -1]
        return full
