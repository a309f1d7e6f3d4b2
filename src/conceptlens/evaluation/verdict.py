"""A verdict on one side of a run: passed, something was found, or it could not be measured; and why, in plain words.

Every result of `conceptlens trust` has a `verdict` and `numbers`, the fractions that it rests on.
"""

from typing import Literal

from conceptlens.core.documents import Part

Outcome = Literal["pass", "finding", "unmeasured"]
Numbers = dict[str, float | None]  # None where a number could not be measured


class Verdict(Part):
    """Of one examination."""

    outcome: Outcome
    reason: str  # one or two sentences that a user understands without the documentation

    def text(self) -> str:
        return f"{self.outcome}: {self.reason}"
