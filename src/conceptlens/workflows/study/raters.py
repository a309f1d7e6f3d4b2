"""Each rater alone: ratings of true and shuffled maps, accuracy of choices, signs of inattention."""

from collections.abc import Sequence

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.evaluation.classification.auc import auc
from conceptlens.workflows.study.key import Key, TrialKey
from conceptlens.workflows.study.proportions import Share, share_of
from conceptlens.workflows.study.responses import Answered, Responses

FAST_MS = 400  # nobody looks at two pictures and decides in less
FAST_SHARE = 0.2
SAME_SHARE = 0.95
READ_SHARE = 2 / 3  # of checks of attention that must be right


class Rater(Part):
    """One rater."""

    rater: str
    answered: int
    of: int
    true: float | None  # mean rating
    shuffled: float | None
    above: float | None  # chance that a true map is rated above a shuffled one
    choice: Share  # of true maps
    choice_shuffled: Share
    skill: float | None  # share of choices known rather than guessed, of true maps
    checks: str  # "4 of 4"
    median_ms: float | None
    fast: float  # share of answers
    passed: bool
    why_not: list[str]
    comment: str


def judge_rater(one: Responses, key: Key) -> Rater:
    """What one response file says."""
    trials = {trial.id: trial for trial in key.trials}
    given = [(trials[name], each) for name, each in one.answers.items()]
    likert = [(trial, int(each.answer)) for trial, each in given if trial.kind == "likert"]
    true = [value for trial, value in likert if not trial.catch]
    shuffled = [value for trial, value in likert if trial.catch]
    choices = {catch: _choices(given, catch) for catch in (False, True)}
    checks = [each.answer == trial.answer for trial, each in given if trial.kind == "attention"]
    times = np.array([each.ms for _, each in given], dtype=np.float64)
    fast = float((times < FAST_MS).mean())
    why_not = attention(checks, [value for _, value in likert], fast)
    return Rater(
        rater=one.rater,
        answered=len(given),
        of=len(key.trials),
        true=float(np.mean(true)) if true else None,
        shuffled=float(np.mean(shuffled)) if shuffled else None,
        above=auc([value for _, value in likert], [not trial.catch for trial, _ in likert]),
        choice=choices[False],
        choice_shuffled=choices[True],
        skill=skill([trial for trial, _ in given if trial.kind == "choice" and not trial.catch], choices[False]),
        checks=f"{sum(checks)} of {len(checks)}",
        median_ms=float(np.median(times)),
        fast=fast,
        passed=not why_not,
        why_not=why_not,
        comment=one.comment,
    )


def _choices(given: Sequence[tuple[TrialKey, Answered]], catch: bool) -> Share:
    asked = [(trial, each) for trial, each in given if trial.kind == "choice" and trial.catch == catch]
    return share_of([each.answer == trial.answer for trial, each in asked], [trial.image for trial, _ in asked])


def skill(asked: Sequence[TrialKey], share: Share) -> float | None:
    """The share of choices that were known, if the rest was guessed: (accuracy − chance) / (1 − chance)."""
    if share.value is None or not asked:
        return None
    chance = chance_of(asked)
    return (share.value - chance) / (1 - chance)


def chance_of(asked: Sequence[TrialKey]) -> float:
    """The accuracy of guessing."""
    return float(np.mean([1 / len(trial.options) for trial in asked]))


def attention(checks: Sequence[bool], ratings: Sequence[int], fast: float) -> list[str]:
    """Why a rater does not seem to have looked.

    How well someone tells true maps from shuffled ones is no reason: leaving out those who do not would make any
    model's maps look good.
    """
    found: list[str] = []
    if checks and sum(checks) < READ_SHARE * len(checks):
        found.append(f"{sum(checks)} of {len(checks)} checks of attention right")
    if fast > FAST_SHARE:
        found.append(f"{fast:.0%} of answers in less than {FAST_MS / 1000:g} s")
    if len(ratings) >= 10 and np.bincount(ratings).max() > SAME_SHARE * len(ratings):
        found.append("the same rating nearly throughout")
    return found
