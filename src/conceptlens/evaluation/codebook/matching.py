"""Which concept a code stands for: matched one to one, and tested against matches that chance would give.

Nothing in IVQ's objective ties code k to concept k; the legend of Figure 8 of the IVQ-CBM paper needs a match, and a
best match exists in any table, also in one of noise. So codes are matched with concepts by the Hungarian method, and
the same is done with tables in which what belongs to one image meets what belongs to another. How far a strength lies
above what chance gives that pair, in standard deviations, is compared with the farthest that any pair reaches in such a
table: a match is sure if fewer than one of twenty tables of chance hold a pair as far out, whichever it is, and if it
is not too weak to be worth a name.

Three tables: *co-assignment*, how much more of a code's patches Magnet gives to a concept's slot than of all patches;
*labels*, the correlation of a code's share of an image with the concept's true label; and *text*, what the model reads
in an image that is made of that code alone, against what it reads in single patches.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from conceptlens.concepts import UNKNOWN
from conceptlens.evaluation.codebook.document import Match, Matching
from conceptlens.stats.block_permutation import BlockPermutation

Floats = npt.NDArray[np.float64]
LEVEL = 0.05
LEAST = {"co-assignment": float(np.log(1.5)), "labels": 0.2, "text": 1.0}  # strength below which a match names nothing
PERMUTATIONS = 199


def assign(strength: Floats) -> list[tuple[int, int]]:
    """The pairs (row, column) of a one-to-one match with the largest sum; as many as the smaller side has."""
    rows, columns = linear_sum_assignment(np.where(np.isfinite(strength), strength, -1e9), maximize=True)
    return [(int(row), int(column)) for row, column in zip(rows, columns, strict=True)]


def match(strength: Floats, chance: Floats, names: list[str], kind: str, note: str | None = None) -> Matching:
    """Match codes with concepts and test it.

    Args:
        strength: (M, K).
        chance: (R, M, K) the same where chance rules.
        names: (K,)
        kind: What the table holds.
        note: What a reader should know of it.
    """
    pairs = assign(strength)
    total = sum(strength[pair] for pair in pairs)
    totals = [sum(table[pair] for pair in assign(table)) for table in chance]
    p = farthest(strength, chance)
    return Matching(
        kind=kind,
        total=float(total),
        chance_total=float(np.mean(totals)) if totals else None,
        p=float((1 + sum(each >= total for each in totals)) / (1 + len(totals))) if totals else None,
        matches=[
            Match(
                code=row,
                concept=names[column],
                strength=float(strength[row, column]),
                p=float(p[row, column]),
                sure=bool(p[row, column] < LEVEL and strength[row, column] >= LEAST[kind]),
            )
            for row, column in pairs
        ],
        note=note,
    )


def farthest(strength: Floats, chance: Floats) -> Floats:
    """p-values (M, K) that hold for all pairs together, by the largest standardized strength of each chance table."""
    if not len(chance):
        return np.ones_like(strength)
    spread = chance.std(0)
    unit = np.where(spread > 1e-9, spread, np.inf)
    out = (strength - chance.mean(0)) / unit
    largest = ((chance - chance.mean(0)) / unit).max((1, 2))  # (R,)
    return np.asarray((1 + (largest[:, None, None] >= out).sum(0)) / (1 + len(chance)))


def lifts(mass: Floats) -> Floats:
    """ln of how much more of a code's mass (M, S) goes to a slot than of all mass, damped where a code has little."""
    everything = mass.sum(0) / max(mass.sum(), 1e-12)
    own = mass.sum(1, keepdims=True)
    even = 1.0  # a patch's worth of the usual shares is added to each code
    share = (mass + even * everything) / (own + even)
    return np.asarray(np.log(np.maximum(share, 1e-12) / np.maximum(everything, 1e-12)))


def by_co_assignment(mass: Floats, permuted: Floats, columns: list[tuple[str, list[int]]]) -> Matching:
    """Codes and slots: mass (M, S), permuted (R, M, S), and for each name the slots that speak for it alone."""

    def table(values: Floats) -> Floats:
        together = np.stack([values[:, slots].sum(1) for _, slots in columns], axis=1)
        rest = values.sum(1) - together.sum(1)  # spare slots, and slots of several groups
        return lifts(np.concatenate([together, rest[:, None]], axis=1))[:, : len(columns)]

    chance = np.stack([table(each) for each in permuted]) if len(permuted) else np.zeros((0, len(mass), len(columns)))
    return match(table(mass), chance, [name for name, _ in columns], "co-assignment")


def slot_columns(
    names: list[str], group_of: npt.NDArray[np.int64], groups: list[str], slots: npt.NDArray[np.int64]
) -> list[tuple[str, list[int]]]:
    """Who speaks through which slots: concepts with a slot of their own, or else groups."""
    readers = np.bincount(slots, minlength=int(slots.max()) + 1)
    if (readers[np.unique(slots)] == 1).all():
        return [(name, [int(slot)]) for name, slot in zip(names, slots, strict=True)]
    found = []
    for place, group in enumerate(groups):
        own = np.unique(slots[group_of == place])
        if all(set(group_of[slots == slot]) == {place} for slot in own):
            found.append((group, [int(slot) for slot in own]))
    return found


def by_labels(
    counts: npt.NDArray[np.int32],
    labels: npt.NDArray[np.int8],
    units: list[str],
    names: list[str],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Matching | None:
    """Codes and concepts by true labels: counts (N, M), labels (N, K) of 0, 1, UNKNOWN."""
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    known = (labels != UNKNOWN).astype(np.float64)
    if not known.any() or len(labels) < 3:
        return None
    held = (labels == 1).astype(np.float64)
    measure = correlations(shares, held, known)
    exchange, generator = BlockPermutation(units), np.random.default_rng([seed, 6])
    drawn = np.stack([measure(exchange.draw(generator)) for _ in range(permutations)])
    return match(measure(np.arange(len(labels))), drawn, names, "labels")


def correlations(shares: Floats, held: Floats, known: Floats) -> Callable[[npt.NDArray[np.int64]], Floats]:
    """A function of who gets whose labels (N,): correlations (M, K) of shares (N, M) with labels (N, K)."""
    one = np.ones(len(shares))
    squares = shares**2

    def measure(source: npt.NDArray[np.int64]) -> Floats:
        y, k = held[source] * known[source], known[source]
        n = k.sum(0)
        x_sum, xx_sum, xy_sum = shares.T @ k, squares.T @ k, shares.T @ y
        y_sum = one @ y
        with np.errstate(invalid="ignore", divide="ignore"):
            covariance = xy_sum / n - x_sum * y_sum / n**2
            spread = np.sqrt((xx_sum / n - (x_sum / n) ** 2).clip(0) * (y_sum / n - (y_sum / n) ** 2).clip(0))
            return np.asarray(np.where(spread > 1e-12, covariance / spread, 0.0))

    return measure


def by_text(
    readings: Floats, patches: Floats, names: list[str], *, permutations: int = PERMUTATIONS, seed: int = 0
) -> Matching:
    """Codes and concepts by what the model reads: in codes (M, K), and in single patches of images (n, K).

    Chance: as many patches, drawn at random, in the place of the codes. A code is the middle of many patches and
    less extreme than some of them, so what is sure here is sure indeed.
    """
    center, spread = patches.mean(0), patches.std(0)
    unit = np.where(spread > 1e-9, spread, np.inf)
    drawn = np.random.default_rng([seed, 7]).integers(len(patches), size=(permutations, len(readings)))
    chance = ((patches - center) / unit)[drawn]
    return match((readings - center) / unit, chance, names, "text", note="in standard deviations over patches")
