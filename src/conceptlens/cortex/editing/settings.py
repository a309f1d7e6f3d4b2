"""How a search for tokens is set (CORTEX paper, section 3.4 and A.4). Imports nothing heavy."""

from dataclasses import dataclass
from typing import Literal, get_args

from conceptlens.core.errors import UserError, unknown_name

Of = Literal["probability", "logit"]
Schedule = Literal["constant", "linear", "exponential"]
Start = Literal["normal", "uniform", "image"]
Keep = Literal["final", "best"]


@dataclass(frozen=True)
class SearchSettings:
    """How the token selection matrix P is optimized.

    Args:
        steps: Budget of the search.
        rate: η, the learning rate of P.
        optimizer: Adam, or the plain gradient step that Eq. 7 prints.
        of: Raise the probability, as in the paper, or the logit, as in its code.
        alpha: Weight of ‖E‖².
        shrink: ‖E‖² as printed, or the published code's mean of squares.
        temperature: τ of the Gumbel-softmax at the first step.
        last_temperature: τ at the last step; it stays by default.
        schedule: How τ falls.
        start: P starts from N(0, 1), all equal, or leaning to the image's own tokens.
        lean: By how much, for `image`.
        keep: The most probable tokens at the end (Eq. 8), or the draw that the extractor itself gave most.
        record: Probabilities are noted every so many steps.
    """

    steps: int = 500
    rate: float = 0.1  # η
    optimizer: Literal["adam", "gradient"] = "adam"  # Eq. 7 prints a plain gradient step
    of: Of = "probability"
    alpha: float = 0.0  # of ‖E‖²
    shrink: Literal["sum", "mean"] = "sum"  # ‖E‖² as printed, or the published code's mean of squares
    temperature: float = 1.0  # τ at the first step
    last_temperature: float | None = None  # at the last; τ stays if not given
    schedule: Schedule = "exponential"
    start: Start = "normal"  # P: N(0, 1), all equal, or leaning to the image's own tokens
    lean: float = 5.0  # by how much, for `image`
    keep: Keep = "final"  # Eq. 8, or the draw that the extractor itself gave most
    record: int = 10  # probabilities are noted every so many steps

    def __post_init__(self) -> None:
        last = self.temperature if self.last_temperature is None else self.last_temperature
        if self.steps < 1 or self.record < 1 or min(self.temperature, last) <= 0 or self.rate <= 0:
            raise UserError("Search: steps and record must be at least 1, rate and temperatures above 0.")
        for kind, value, known in (
            ("temperature schedule", self.schedule, get_args(Schedule)),
            ("start of the search", self.start, get_args(Start)),
            ("choice of the result", self.keep, get_args(Keep)),
            ("optimizer of the search", self.optimizer, ("adam", "gradient")),
            ("shrink", self.shrink, ("sum", "mean")),
            ("score to search by", self.of, get_args(Of)),
        ):
            if value not in known:
                raise unknown_name(kind, value, known)

    def temperature_at(self, step: int) -> float:
        """τ of a step, from 0."""
        if self.last_temperature is None or self.schedule == "constant" or self.steps == 1:
            return self.temperature
        share = step / (self.steps - 1)
        if self.schedule == "linear":
            return self.temperature + share * (self.last_temperature - self.temperature)
        return float(self.temperature * (self.last_temperature / self.temperature) ** share)


RELEASED = SearchSettings(steps=5000, rate=0.01, of="logit", shrink="mean")
