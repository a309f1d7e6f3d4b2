"""How a search for tokens is set (CORTEX paper, section 3.4 and A.4). Imports nothing heavy."""

from dataclasses import dataclass
from typing import Literal, get_args

from conceptlens.core.errors import UserError, unknown_name

Objective = Literal["probability", "logit"]
Schedule = Literal["constant", "linear", "exponential"]
Start = Literal["normal", "uniform", "image"]
Keep = Literal["final", "best"]


@dataclass(frozen=True)
class SearchSettings:
    """How the token selection matrix P is optimized.

    Args:
        steps: Budget of the search.
        learning_rate: η, of P.
        optimizer: Adam, or the plain gradient step that Eq. 7 prints.
        objective: Raise the probability, as in the paper, or the logit, as in its code.
        norm_weight: Weight of the penalty ‖E‖².
        norm_reduction: The penalty is the sum of squares, as printed, or their mean, as in the published code.
        temperature: τ of the Gumbel-softmax at the first step.
        last_temperature: τ at the last step; it stays by default.
        schedule: How τ falls.
        start: P starts from N(0, 1), all equal, or with a bias to the image's own tokens.
        start_bias: Added to the logits of the image's own tokens, for `image`.
        keep: The most probable tokens at the end (Eq. 8), or the draw that the extractor itself gave most.
        record_every: Steps between recorded probabilities.
    """

    steps: int = 500
    learning_rate: float = 0.1
    optimizer: Literal["adam", "gradient"] = "adam"
    objective: Objective = "probability"
    norm_weight: float = 0.0
    norm_reduction: Literal["sum", "mean"] = "sum"
    temperature: float = 1.0
    last_temperature: float | None = None
    schedule: Schedule = "exponential"
    start: Start = "normal"
    start_bias: float = 5.0
    keep: Keep = "final"
    record_every: int = 10

    def __post_init__(self) -> None:
        last = self.temperature if self.last_temperature is None else self.last_temperature
        if self.steps < 1 or self.record_every < 1 or min(self.temperature, last) <= 0 or self.learning_rate <= 0:
            raise UserError(
                "Search: steps and record_every must be at least 1; learning_rate and temperatures must be above 0."
            )
        for kind, value, known in (
            ("temperature schedule", self.schedule, get_args(Schedule)),
            ("start of the search", self.start, get_args(Start)),
            ("choice of the result", self.keep, get_args(Keep)),
            ("optimizer of the search", self.optimizer, ("adam", "gradient")),
            ("reduction of the norm", self.norm_reduction, ("sum", "mean")),
            ("objective of the search", self.objective, get_args(Objective)),
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


RELEASED = SearchSettings(steps=5000, learning_rate=0.01, objective="logit", norm_reduction="mean")
