"""An accuracy with its interval: Wilson's (1927), with as many independent answers as the images allow."""

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import Part
from conceptlens.stats.wilson import wilson


class Share(Part):
    """k of n right."""

    right: int
    n: int
    value: float | None
    low: float | None
    high: float | None
    independent: float | None  # answers that would be worth as much if all were of different images

    def text(self) -> str:
        if self.value is None:
            return "–"
        return f"{self.value:.0%} ({self.right}/{self.n}) [{self.low:.0%}, {self.high:.0%}]"


def share_of(right: npt.ArrayLike, images: npt.ArrayLike, confidence: float = 0.95) -> Share:
    """The share of right answers (N,), of images (N,): answers to one image by several raters are not independent.

    The variance of the share between images says how many independent answers the data is worth, at least one an image
    and at most one an answer; Wilson's interval is taken at that number.
    """
    hits = np.asarray(right, dtype=np.float64)
    if not len(hits):
        return Share(right=0, n=0, value=None, low=None, high=None, independent=None)
    unit = np.unique(np.asarray(images), return_inverse=True)[1].reshape(-1)
    sums, counts = np.bincount(unit, hits), np.bincount(unit)
    share, n, m = float(hits.mean()), len(hits), len(counts)
    worth = float(m)
    if m > 1 and 0 < share < 1:
        # The ratio estimator's variance with images as clusters.
        spread = m / (m - 1) * float(((sums - share * counts) ** 2).sum()) / n**2
        worth = n if spread == 0 else min(max(share * (1 - share) / spread, m), n)
    low, high = wilson(share, worth, confidence)
    return Share(right=int(hits.sum()), n=n, value=share, low=low, high=high, independent=worth)
