"""Cliff's δ of two groups, by sorting: n log n instead of all pairs (CORTEX paper, A.6).

Standard: δ = P(x > y) − P(x < y) = 2U / (mn) − 1, in [−1, 1]; the words negligible, small, medium and large (0.147,
0.33, 0.474; Romano et al., 2006) belong to it. Eq. 15 of the paper, and its published code, give half of that, in
[−0.5, 0.5]: `paper` here.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError, unknown_name

Kind = Literal["standard", "paper"]
Floats = npt.NDArray[np.float64]
WORDS = ((0.147, "negligible"), (0.33, "small"), (0.474, "medium"))
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Delta:
    """δ in its standard form, with a 95 % interval."""

    value: float
    low: float
    high: float
    error: float  # standard error

    @property
    def paper(self) -> float:
        """Eq. 15: half the standard value."""
        return self.value / 2

    @property
    def words(self) -> str:
        return effect_words(self.value)


def effect_words(delta: float) -> str:
    """How large a standard δ is, in a word."""
    return next((word for limit, word in WORDS if abs(delta) < limit), "large")


def _dominance(values: Floats, others: Floats) -> Floats:
    """For each value, the share of the others below it less the share above it."""
    ladder = np.sort(others)
    below = np.searchsorted(ladder, values, side="left")
    up_to = np.searchsorted(ladder, values, side="right")
    return (below + up_to - len(ladder)) / len(ladder)


def _groups(x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    one, other = (np.asarray(group, dtype=np.float64).ravel() for group in (x, y))
    if not len(one) or not len(other):
        raise UserError(f"Cliff's δ compares two groups; found {len(one)} and {len(other)} values.")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise UserError("Cliff's δ compares numbers; found values that are not finite.")
    return one, other


def cliffs_delta(x: npt.ArrayLike, y: npt.ArrayLike, kind: str = "standard") -> float:
    """δ of x over y: positive where x is mostly the larger.

    Args:
        x: (m,).
        y: (n,).
        kind: `standard`, or `paper` for Eq. 15, which is half of it.
    """
    if kind not in get_args(Kind):
        raise unknown_name("kind of Cliff's δ", kind, get_args(Kind))
    one, other = _groups(x, y)
    value = float(_dominance(one, other).mean())
    return value if kind == "standard" else value / 2


def delta_with_interval(x: npt.ArrayLike, y: npt.ArrayLike, *, paired: bool) -> Delta:
    """Standard δ with a 95 % interval from each observation's influence, on Fisher's scale, which keeps it within ±1.

    Args:
        x: (m,).
        y: (n,).
        paired: x[i] and y[i] were counted in the same image. Their errors then do not add up, they compensate.
    """
    one, other = _groups(x, y)
    if paired and len(one) != len(other):
        raise UserError(f"Paired values must be equally many; found {len(one)} and {len(other)}.")
    of_x, of_y = _dominance(one, other), -_dominance(other, one)
    value = float(of_x.mean())
    if min(len(one), len(other)) < 2:
        return Delta(value, -1.0, 1.0, math.inf)
    if paired:
        variance = float(np.var(of_x + of_y, ddof=1)) / len(one)
    else:
        variance = float(np.var(of_x, ddof=1)) / len(one) + float(np.var(of_y, ddof=1)) / len(other)
    error = math.sqrt(variance)
    if abs(value) >= 1:  # complete separation: nothing varies, and the scale has no end there
        return Delta(value, value, value, error)
    center, spread = math.atanh(value), Z95 * error / (1 - value**2)
    return Delta(value, math.tanh(center - spread), math.tanh(center + spread), error)
