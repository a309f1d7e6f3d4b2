"""Raters of known skill, to test a study before people take part, and to see that the analysis recovers their skill."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.responses import Answered, Responses


@dataclass(frozen=True)
class Simulated:
    """How a rater answers.

    Attributes:
        name: The code.
        knows: Share of choices of true maps that are known; the rest is guessed.
        true: What true maps look like to this rater, on the scale of 1 to 5, before noise.
        shuffled: The same of shuffled maps.
        noise: Deviation of one rating.
        lapses: Share of answers given without looking.
        ms: Typical time of an answer.
    """

    name: str
    knows: float = 0.8
    true: float = 4.2
    shuffled: float = 2.0
    noise: float = 0.7
    lapses: float = 0.0
    ms: int = 4000

    def accuracy(self, options: int) -> float:
        """The expected accuracy of choices with so many options."""
        known = (1 - self.lapses) * self.knows
        return known + (1 - known) / options

    def ratings(self, catch: bool, image_noise: float = 0.0) -> npt.NDArray[np.float64]:
        """The expected shares of ratings 1 to 5, (5,)."""
        center = self.shuffled if catch else self.true
        spread = float(np.hypot(self.noise, image_noise))
        cuts = norm.cdf((np.arange(1, 5) + 0.5 - center) / max(spread, 1e-9))
        seen = np.diff(np.concatenate([[0.0], cuts, [1.0]]))
        return np.asarray((1 - self.lapses) * seen + self.lapses / 5)

    def mean(self, catch: bool, image_noise: float = 0.0) -> float:
        """The expected mean rating."""
        return float(self.ratings(catch, image_noise) @ np.arange(1, 6))


def simulate(key: Key, rater: Simulated, *, seed: int = 0, image_noise: float = 0.0) -> Responses:
    """A rater's response file.

    Args:
        key: The study's key: the rater's skill decides how much of it shows in the answers.
        rater: How they answer.
        seed: Of their chances.
        image_noise: Deviation between images, which all raters of the study see alike.
    """
    generator = np.random.default_rng([seed, *rater.name.encode()])
    shared = np.random.default_rng([int(key.study[:8], 16)])
    images = sorted({trial.image for trial in key.trials})
    hard = dict(zip(images, shared.normal(0, 1, len(images)) * image_noise, strict=True))
    answers: dict[str, Answered] = {}
    for trial in key.trials:
        lapse = generator.random() < rater.lapses
        if trial.kind == "choice":
            known = not trial.catch and not lapse and generator.random() < rater.knows
            answer = str(trial.answer) if known else str(generator.choice(trial.options))
        elif lapse:
            answer = str(generator.integers(1, 6))
        elif trial.kind == "attention":
            answer = str(trial.answer)
        else:
            center = (rater.shuffled if trial.catch else rater.true) + hard[trial.image]
            answer = str(int(np.clip(np.round(center + generator.normal(0, rater.noise)), 1, 5)))
        spent = rater.ms * float(np.exp(generator.normal(0, 0.3)))
        answers[trial.id] = Answered(answer=answer, ms=int(spent))
    order = [key.trials[int(n)].id for n in generator.permutation(len(key.trials))]
    return Responses(study=key.study, rater=rater.name, complete=True, order=order, answers=answers)
