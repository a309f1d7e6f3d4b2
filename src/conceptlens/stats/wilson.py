"""Wilson's (1927) score interval of a share, which holds for few answers and for shares near 0 and 1."""

import math

from scipy.stats import norm


def wilson(share: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of a share of n independent answers."""
    z = float(norm.ppf(0.5 + confidence / 2))
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return max(0.0, middle - half), min(1.0, middle + half)
