"""A finding about leakage or use: a number, its interval, what a good value is, and whether this one is."""

from typing import Literal

from conceptlens.documents import Part
from conceptlens.trust.estimates import Estimate

Verdict = Literal["good", "look", "bad"]


class Finding(Part):
    """One measure."""

    name: str
    estimate: Estimate
    good: str  # one sentence: what a good value is
    verdict: Verdict | None = None  # None: a number to compare methods by, without a line of its own

    def text(self) -> str:
        mark = {"good": "+", "look": "?", "bad": "!", None: " "}[self.verdict]
        return f"{mark} {self.name:58}{self.estimate.text()}"


def above(estimate: Estimate, bound: float) -> Verdict | None:
    """Bad if the whole interval lies above a bound, good if the whole of it does not, to be looked at between."""
    if estimate.value is None or estimate.interval is None:
        return None
    low, high = estimate.interval
    return "bad" if low > bound else "good" if high <= bound or estimate.value <= bound else "look"
