"""Vectors as sums of a few concepts: u* = argmin ½‖x − Σ u_j v_j‖² + λ Σ |u_j| (GIG paper, Eq. 1, 2), many at a time.

Of thousands of concepts a vector needs a few dozen, so each has a working set: the concepts in use and the worst
violators of the optimality conditions. On it, coordinate descent runs for all vectors of a block together, one
coordinate of each at a time. Then one matrix product with all concepts finds the next violators, and a duality gap:
a vector is done when its objective is provably within `tolerance` of the least possible.

`lam` is λ of Eq. 2. In scikit-learn it is `alpha` of `sparse_encode(algorithm="lasso_cd")`, and C times `alpha` of
`Lasso`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.gpu_kernels import attempt

GROUP = 64  # neighboring concepts, at most, of which the worst violator may join a working set
GROW = 32  # violators that join at most
MOST_ROUNDS = 60  # of working sets
MOST_TURNS, SWEEPS = 12, 3  # on one working set
RIDGE = 1e-6  # for concepts that are nearly the same
KERNEL = "The lasso"


@dataclass(frozen=True)
class Codes:
    """Coefficients of n vectors on k concepts, the few that are not zero."""

    index: Tensor  # (n, m) concepts, ascending; those beyond a vector's number have the value 0
    value: Tensor  # (n, m)
    k: int
    gap: Tensor  # (n,) relative duality gap: how far the objective is above the least, at most

    def dense(self) -> Tensor:
        """U, (n, k)."""
        return self.value.new_zeros(len(self.value), self.k).scatter_add_(1, self.index, self.value)

    def reconstruct(self, concepts: Tensor) -> Tensor:
        """U Vᵀ, (n, C)."""
        pairs = zip(torch.split(self.index, 1024), torch.split(self.value, 1024), strict=True)
        return torch.cat([torch.einsum("nm,nmc->nc", value, concepts[index]) for index, value in pairs])

    @property
    def number(self) -> Tensor:
        """(n,) concepts in use."""
        return (self.value != 0).sum(1)


class Dictionary:
    """Concept vectors (k, C), prepared for decomposing: directions, lengths, and inner products once they pay."""

    def __init__(self, concepts: Tensor) -> None:
        if concepts.ndim != 2 or len(concepts) == 0:
            raise UserError(f"Decomposition: expected concept vectors (k, C), got {tuple(concepts.shape)}.")
        self.concepts = concepts
        self.length = torch.linalg.vector_norm(concepts, dim=1)
        self.unit = concepts / self.length.clamp_min(torch.finfo(concepts.dtype).tiny)[:, None]
        self._products: Tensor | None = None

    def products(self, index: Tensor, total: int) -> Tensor:
        """Inner products (m, m, B) of the directions that each of B vectors works on, index (m, B).

        Args:
            index: Which.
            total: Vectors that are to be decomposed in all: with many, every pair is computed once.
        """
        if self._products is None and total * 16384 > len(self.unit) ** 2:
            self._products = self.unit @ self.unit.T
        if self._products is not None:
            return self._products[index[:, None], index[None]]
        some = self.unit[index.T]  # (B, m, C)
        return torch.bmm(some, some.mT).permute(1, 2, 0).contiguous()


def decompose(
    features: Tensor, concepts: Tensor | Dictionary, lam: float, *, tolerance: float = 1e-4, block: int | None = None
) -> Codes:
    """Coefficients of vectors on concepts.

    Args:
        features: (n, C), already without the shift β of Eq. 9.
        concepts: (k, C), or a `Dictionary` where several calls share one.
        lam: λ.
        tolerance: Of the duality gap, relative to the objective.
        block: Vectors at a time.
    """
    words = concepts if isinstance(concepts, Dictionary) else Dictionary(concepts.to(features))
    if features.ndim != 2 or features.shape[1] != words.unit.shape[1]:
        raise UserError(
            f"Decomposition: vectors {tuple(features.shape)} do not have the {words.unit.shape[1]} channels of the "
            "concepts. Do both come from the same layer?"
        )
    if not lam > 0:
        raise UserError(f"Decomposition: λ must be above 0, got {lam}.")
    if not bool(features.isfinite().all()):
        raise UserError("Decomposition: some vectors hold numbers that are not finite (NaN or infinity).")
    size = block or (8192 if features.is_cuda else 1024)
    parts = [_block(some, words, lam, tolerance, len(features)) for some in torch.split(features, size)]
    width = max((part[0].shape[1] for part in parts), default=1)
    pad = torch.nn.functional.pad
    index = torch.cat([pad(index, (0, width - index.shape[1])) for index, _, _ in parts])
    value = torch.cat([pad(value, (0, width - value.shape[1])) for _, value, _ in parts])
    return Codes(index, value, len(words.unit), torch.cat([gap for _, _, gap in parts]))


def lambda_for(features: Tensor, concepts: Tensor, share: float = 0.1) -> float:
    """A λ for a layer: a share of the median, over vectors, of the λ at which a vector uses no concept at all."""
    largest = torch.cat([(some @ concepts.T).abs().amax(1) for some in torch.split(features, 1024)])
    return max(float(largest.median()) * share, torch.finfo(features.dtype).tiny)


def _block(x: Tensor, words: Dictionary, lam: float, tolerance: float, total: int) -> tuple[Tensor, Tensor, Tensor]:
    """Indices (B, m), values (B, m) and gaps (B,) of some vectors."""
    weight = lam / words.length.clamp_min(torch.finfo(x.dtype).tiny)  # λ of a direction of unit length
    batch = len(x)
    index = torch.zeros(1, batch, dtype=torch.int64, device=x.device)  # (m, B), as are all below: batches last
    u = x.new_zeros(1, batch)
    open_ = torch.arange(batch, device=x.device)
    gaps, stalls = x.new_full((batch,), torch.inf), torch.zeros(batch, dtype=torch.int64, device=x.device)
    mine, ours, some = index.clone(), u.clone(), x
    for turn in range(MOST_ROUNDS):
        residual = some - _sum(mine, ours, words.unit)
        corr = residual @ words.unit.T  # (B, k)
        gap = _gap(some, residual, corr, mine, ours, weight)
        stalls[open_] += gap > 0.9 * gaps[open_]
        gaps[open_] = gap
        index, u = _store(index, u, mine, ours, open_)
        left = (gap > tolerance) & (stalls[open_] < 3)  # at the limits of its precision, a gap no longer falls
        if not bool(left.any()) or turn == MOST_ROUNDS - 1:
            break
        open_, some, corr = open_[left], some[left], corr[left]
        mine, ours, limit = _working_set(mine[:, left], ours[:, left], corr, weight)
        slack = corr.gather(1, mine.T).T  # ⟨v_j, residual⟩
        ours = _descend(words.products(mine, total), slack, ours, limit, min(0.01, tolerance * 10))
    order = torch.where(u == 0, len(words.unit), index).argsort(0)
    index, u = index.gather(0, order), u.gather(0, order)
    used = max(1, int((u != 0).sum(0).max())) if batch else 1
    index, u = index[:used].T, u[:used].T
    # Where a vector uses fewer, the place repeats concept 0 with the value 0.
    return torch.where(u == 0, 0, index), u / words.length.clamp_min(torch.finfo(x.dtype).tiny)[index], gaps


def _sum(index: Tensor, u: Tensor, unit: Tensor) -> Tensor:
    """Σ u_j v_j of each vector, (B, C)."""
    pairs = zip(torch.split(index.T, 256), torch.split(u.T, 256), strict=True)
    return torch.cat([torch.bmm(u[:, None], unit[index]).squeeze(1) for index, u in pairs])


def _gap(x: Tensor, residual: Tensor, corr: Tensor, index: Tensor, u: Tensor, weight: Tensor) -> Tensor:
    """Relative duality gap (B,): (P − D) / P with the residual, scaled until it is feasible, as the dual point."""
    primal = residual.square().sum(1) / 2 + (weight[index] * u.abs()).sum(0)
    worst = (corr.abs() / weight).amax(1)
    dual = residual / worst.clamp_min(1)[:, None]
    lower = (x.square().sum(1) - (x - dual).square().sum(1)) / 2
    return (primal - lower).clamp_min(0) / primal.clamp_min(torch.finfo(x.dtype).tiny)


def _store(index: Tensor, u: Tensor, mine: Tensor, ours: Tensor, open_: Tensor) -> tuple[Tensor, Tensor]:
    """Write the working sets of the vectors that are open into those of all."""
    more = len(mine) - len(index)
    if more > 0:
        index = torch.cat([index, index.new_zeros(more, index.shape[1])])
        u = torch.cat([u, u.new_zeros(more, u.shape[1])])
    u[:, open_] = 0
    index[: len(mine), open_] = mine
    u[: len(mine), open_] = ours
    return index, u


def _working_set(index: Tensor, u: Tensor, corr: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Concepts in use, and those that violate |⟨v_j, r⟩| ≤ λ_j most: of each group of neighbors, the worst.

    Returns:
        Index, coefficients and λ_j, all (m, B). Where a vector has fewer, λ_j is infinite: nothing happens there.
    """
    kept = max(1, int((u != 0).sum(0).max()))
    order = (u == 0).to(torch.int8).argsort(dim=0, stable=True)[:kept]
    index, u = index.gather(0, order), u.gather(0, order)
    excess = corr.abs() - weight
    excess.scatter_reduce_(1, index.T, torch.where(u != 0, -torch.inf, torch.inf).T.to(excess), "amin")
    group = max(1, min(GROUP, excess.shape[1] // (4 * GROW)))
    lacking = -excess.shape[1] % group
    if lacking:
        excess = torch.nn.functional.pad(excess, (0, lacking), value=-torch.inf)
    best = excess.view(len(excess), -1, group).max(2)
    top = best.values.topk(min(GROW, best.values.shape[1]), dim=1)
    number = max(1, int((top.values > 0).sum(1).max()))
    violates = (top.values > 0)[:, :number].T
    found = (best.indices.gather(1, top.indices) + top.indices * group)[:, :number].T
    found = torch.where(violates, found, 0)
    index = torch.cat([index, found])
    limit = torch.where(torch.cat([u != 0, violates]), weight[index], torch.inf)
    return index, torch.cat([u, u.new_zeros(found.shape)]), limit


def _descend(products: Tensor, slack: Tensor, u: Tensor, limit: Tensor, tolerance: float) -> Tensor:
    """Solve on working sets: a few sweeps of coordinate descent find the signs, then equations are solved.

    Args:
        products: (m, m, B).
        slack: (m, B) ⟨v_j, residual⟩.
        u: (m, B).
        limit: (m, B) λ_j.
        tolerance: Of the optimality conditions, relative to λ_j.
    """
    matrices = products.permute(2, 0, 1).contiguous()  # (B, m, m)
    slack, u = slack.contiguous(), u.contiguous()
    toward = slack + torch.bmm(matrices, u.T[:, :, None]).squeeze(2).T
    found, some = u.clone(), torch.arange(u.shape[1], device=u.device)
    for _ in range(MOST_TURNS):
        u = _sweep(products, matrices, slack, u, limit)
        u = _solve_signs(matrices, toward.T, limit.T, u.T).T.contiguous()
        slack = (toward - torch.bmm(matrices, u.T[:, :, None]).squeeze(2).T).contiguous()
        found[:, some] = u
        wrong = torch.where(u == 0, slack.abs() - limit, (slack - limit * u.sign()).abs())
        left = (wrong > tolerance * limit).any(0)
        number = int(left.sum())
        if number == 0:
            break
        if number <= len(some) // 2:  # most vectors need a turn or two: only the others go on
            some, products, matrices = some[left], products[:, :, left], matrices[left]
            toward, slack, u, limit = toward[:, left], slack[:, left], u[:, left], limit[:, left]
    return found


def _sweep(products: Tensor, matrices: Tensor, slack: Tensor, u: Tensor, limit: Tensor) -> Tensor:
    """Coefficients (m, B) after some sweeps over the coordinates, by the fastest way there is for this device."""

    def work() -> Tensor | None:
        from conceptlens.gig.dictionaries import lasso_triton

        if not lasso_triton.fits(matrices):
            return None
        return lasso_triton.sweep(matrices, slack.T, u.T, limit.T, SWEEPS)[1].T

    found = attempt(KERNEL, work) if matrices.is_cuda else None
    return sweep(products, slack, u, limit) if found is None else found


def sweep(products: Tensor, slack: Tensor, u: Tensor, limit: Tensor) -> Tensor:
    """The same by torch: one coordinate of every vector at a time."""
    slack, u = slack.clone(), u.clone()
    for _ in range(SWEEPS):
        for j in range(len(u)):
            free = slack[j] + u[j]
            new = free - torch.minimum(torch.maximum(free, -limit[j]), limit[j])  # what is left beyond ±λ_j
            slack.addcmul_(products[j], (new - u[j])[None], value=-1)
            u[j] = new
    return u


def _solve_signs(matrices: Tensor, toward: Tensor, limit: Tensor, u: Tensor) -> Tensor:
    """With the signs of u (B, m) given, the least is where G u = c − λ s on its support: go there, or to the first 0.

    Where rounding would make things worse, u stays.
    """
    support = u != 0
    both = support[:, :, None] & support[:, None, :]
    ridge = torch.where(support, RIDGE, 1.0)
    system = torch.where(both, matrices, 0) + torch.diag_embed(ridge)
    wanted = torch.where(support, toward - limit * u.sign(), 0)  # an infinite λ_j is never in a support
    factor, failed = torch.linalg.cholesky_ex(system)
    goal = torch.cholesky_solve(wanted[:, :, None], factor).squeeze(2)
    crosses = support & (goal * u <= 0)
    when = torch.where(crosses, u / (u - goal), 1.0)
    first = when.amin(1, keepdim=True)
    moved = torch.where(crosses & (when <= first), 0, u + first * (goal - u))
    finite = torch.where(limit.isinf(), 0, limit)

    def value(at: Tensor) -> Tensor:
        curved = torch.bmm(matrices, at[:, :, None]).squeeze(2)
        return (at * (curved / 2 - toward) + finite * at.abs()).sum(1)

    better = (failed == 0) & (value(moved) <= value(u))
    return torch.where(better[:, None], moved, u)
