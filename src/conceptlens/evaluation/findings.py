"""A finding about leakage or use: a number, its interval, what a good value is, and whether this one is."""

from typing import Literal

from conceptlens.core.documents import Part
from conceptlens.evaluation.leakage.permuted import Chance
from conceptlens.stats.estimates import Estimate

Verdict = Literal["good", "look", "bad"]


class Finding(Part):
    """One measure."""

    name: str
    estimate: Estimate
    good: str  # one sentence: what a good value is
    verdict: Verdict | None = None  # None: a number to compare methods by, without a test
    chance: Chance | None = None  # the measure under permutation, where it has a verdict

    def text(self) -> str:
        mark = {"good": "+", "look": "?", "bad": "!", None: " "}[self.verdict]
        line = f"{mark} {self.name:58}{self.estimate.text()}"
        if self.chance is None or self.verdict is None:
            return line
        return f"{line}; permuted {self.chance.permuted.text()}, p = {self.chance.adjusted:.2f}"


def judge(chance: Chance, level: float) -> Verdict:
    """`bad` if significant after correction for the other measures, `look` if only before it."""
    return "bad" if chance.adjusted <= level else "look" if chance.p <= level else "good"
