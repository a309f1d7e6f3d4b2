"""Bias and shortcuts (CORTEX paper, sections 3.5 and 5.1): whose tokens does a generator use when it is asked for none?

Token sets of two or more values of an attribute are counted in neutral samples; Cliff's δ says whose are more frequent.
The paper stops there. But token sets differ in how common their tokens are anyway, so δ need not be 0 without a bias:

- `balanced`: neutral samples of a model that has no bias, or samples in which every value was asked for equally often.
  Their δ is what no bias looks like; what is judged is the difference from it.
- permuted attributes: the sets are counted again with the values of the attribute shuffled among the training samples,
  many times. Says whether the sets know the attribute at all, not whether their tokens are equally common.

With several pairs, p-values are corrected by Holm's method; with several attributes, over the pairs of all of them
(`correct_together`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.bias.cliff import Delta, delta_with_interval, effect_words
from conceptlens.cortex.generators.contract import check_tokens
from conceptlens.cortex.token_sets import TokenSet, members, rival_sets
from conceptlens.stats.paired_permutation import holm

LEVEL = 0.05


@dataclass(frozen=True)
class PairBias:
    """Two values of an attribute in neutral samples."""

    first: str
    second: str
    mean_first: float  # tokens of the first one's set in an image
    mean_second: float
    shared: int  # tokens in both sets
    delta: Delta  # first over second
    null: Delta | None  # the same in balanced samples
    p_balanced: float | None  # of the difference from it, corrected
    p_permuted: float | None  # against shuffled values, corrected
    permuted: tuple[float, float] | None = None  # where 95 % of δ lie when values are shuffled
    raw: tuple[float | None, float | None] = (None, None)  # both p as they were before any correction

    @property
    def excess(self) -> float:
        """δ less that of balanced samples, where there are some."""
        return self.delta.value - (self.null.value if self.null else 0.0)

    @property
    def found(self) -> bool | None:
        """Whether there is a bias; None where no null says so."""
        p = self.p_balanced if self.p_balanced is not None else self.p_permuted
        return None if p is None else p < LEVEL

    def text(self) -> str:
        """One sentence."""
        more, less = (self.first, self.second) if self.excess >= 0 else (self.second, self.first)
        counts = f"{self.mean_first:.2f} and {self.mean_second:.2f} tokens an image"
        measured = f"δ = {self.delta.value:+.3f} [{self.delta.low:+.3f}, {self.delta.high:+.3f}] ({self.delta.words})"
        if self.null is not None:
            measured += f", {self.null.value:+.3f} without bias: {effect_words(self.excess)} excess"
        if self.found is None:
            verdict = "not tested: balanced samples or training samples are needed for the null distribution"
        elif self.found:
            verdict = f"towards {more!r}, away from {less!r}"
        else:
            verdict = "no bias found"
        return f"{self.first} / {self.second}: {counts}; {measured}; {verdict}."


@dataclass(frozen=True)
class Bias:
    """All pairs of an attribute's values."""

    pairs: tuple[PairBias, ...]
    neutral: int  # samples
    balanced: int
    permutations: int

    def text(self) -> str:
        return "\n".join(pair.text() for pair in self.pairs)

    def pair(self, first: str, second: str) -> PairBias:
        return next(pair for pair in self.pairs if (pair.first, pair.second) == (first, second))


def set_counts(tokens: Tensor, ids: Sequence[int], codes: int) -> npt.NDArray[np.int64]:
    """How many tokens of a set each image (B, h, w) holds, (B,)."""
    check_tokens(tokens, codes)
    found: npt.NDArray[np.int64] = members(tokens, tuple(ids), codes).flatten(1).sum(1).cpu().numpy()
    return found


def measure_bias(
    sets: Sequence[TokenSet],
    neutral: Tensor,
    *,
    codes: int,
    balanced: Tensor | None = None,
    training: Mapping[str, Tensor] | None = None,
    k: int = 10,
    permutations: int = 200,
    way: str = "frequency",
    seed: int = 0,
) -> Bias:
    """Whose tokens are the more frequent in neutral samples, for every two values.

    Args:
        sets: T*_concept of each value.
        neutral: (N, h, w), samples for which no value was asked.
        codes: K.
        balanced: (N', h, w), samples without bias: an unbiased model's, or equally many of each value.
        training: T*_image of the training samples of each value, (n_v, n) each: permuted, they give the other null.
        k: Tokens of a permuted set, as in `concept_set`.
        permutations: How many.
        way: How permuted sets are chosen, as the sets were: see `rival_sets`.
        seed: Of the permutations.
    """
    if len(sets) < 2:
        raise UserError(f"Bias compares token sets of at least two values; found {len(sets)}.")
    if len({each.concept for each in sets}) < len(sets):
        raise UserError("Bias compares different values; one of them is named twice.")
    if len(neutral) < 2:
        raise UserError(f"Bias needs at least two neutral samples, found {len(neutral)}.")
    pairs = list(combinations(range(len(sets)), 2))
    counted = [set_counts(neutral, each.tokens, codes) for each in sets]
    deltas = [delta_with_interval(counted[a], counted[b], paired=True) for a, b in pairs]
    nulls: list[Delta | None] = [None] * len(pairs)
    by_null: list[float | None] = [None] * len(pairs)
    if balanced is not None:
        without = [set_counts(balanced, each.tokens, codes) for each in sets]
        nulls = [delta_with_interval(without[a], without[b], paired=True) for a, b in pairs]
        by_null = [_p_difference(d, n) for d, n in zip(deltas, nulls, strict=True) if n is not None]
    by_shuffle: list[float | None] = [None] * len(pairs)
    ranges: list[tuple[float, float] | None] = [None] * len(pairs)
    if training is not None:
        null = _permuted(sets, neutral, training, pairs, codes, k, permutations, way, seed)  # (R, pairs)
        observed = np.abs([delta.value for delta in deltas])
        by_shuffle = (((np.abs(null) >= observed).sum(0) + 1) / (permutations + 1)).tolist()
        if permutations:
            ranges = [(float(low), float(high)) for low, high in np.quantile(null, (0.025, 0.975), axis=0).T]
    found = Bias(
        tuple(
            PairBias(
                first=sets[a].concept,
                second=sets[b].concept,
                mean_first=float(counted[a].mean()),
                mean_second=float(counted[b].mean()),
                shared=len(set(sets[a].tokens) & set(sets[b].tokens)),
                delta=deltas[place],
                null=nulls[place],
                p_balanced=None,
                p_permuted=None,
                permuted=ranges[place],
                raw=(by_null[place], by_shuffle[place]),
            )
            for place, (a, b) in enumerate(pairs)
        ),
        len(neutral),
        0 if balanced is None else len(balanced),
        permutations if training is not None else 0,
    )
    return correct_together([found])[0]


def correct_together(attributes: Sequence[Bias]) -> list[Bias]:
    """The same with p-values corrected over the pairs of all of these attributes, each null for itself."""
    pairs = [pair for bias in attributes for pair in bias.pairs]
    corrected: list[list[float | None]] = []
    for which in (0, 1):
        raw = [pair.raw[which] for pair in pairs]
        known = iter(holm([p for p in raw if p is not None]).tolist())
        corrected.append([None if p is None else next(known) for p in raw])
    told = iter(
        replace(pair, p_balanced=by_null, p_permuted=by_shuffle)
        for pair, by_null, by_shuffle in zip(pairs, *corrected, strict=True)
    )
    return [replace(bias, pairs=tuple(next(told) for _ in bias.pairs)) for bias in attributes]


def _p_difference(delta: Delta, null: Delta) -> float:
    """Two-sided p of δ against that of other samples, by their standard errors."""
    error = math.hypot(delta.error, null.error)
    gap = abs(delta.value - null.value)
    if error == 0:
        return 1.0 if gap == 0 else 0.0
    return math.erfc(gap / error / math.sqrt(2))


def _permuted(
    sets: Sequence[TokenSet],
    neutral: Tensor,
    training: Mapping[str, Tensor],
    pairs: Sequence[tuple[int, int]],
    codes: int,
    k: int,
    permutations: int,
    way: str,
    seed: int,
) -> npt.NDArray[np.float64]:
    """δ of each pair with the training samples' values shuffled, (R, pairs)."""
    if absent := [each.concept for each in sets if each.concept not in training]:
        raise UserError(f"Permutations need the training samples of every value; none of {absent[0]!r} are given.")
    images = torch.cat([training[each.concept] for each in sets])
    sizes = [len(training[each.concept]) for each in sets]
    generator = torch.Generator().manual_seed(seed)
    found = np.empty((permutations, len(pairs)))
    for turn in range(permutations):
        parts = torch.split(images[torch.randperm(len(images), generator=generator)], sizes)
        chosen = rival_sets(parts, codes, k, way)
        counted = [set_counts(neutral, ids.tolist(), codes) for ids, _ in chosen]
        found[turn] = [delta_with_interval(counted[a], counted[b], paired=True).value for a, b in pairs]
    return found
