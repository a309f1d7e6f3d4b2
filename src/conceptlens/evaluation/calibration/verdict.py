"""Are stated probabilities true? A finding if a calibration error is surely large.

An error counts if its whole interval lies above the limit, and if a calibrated model with the same confidences would
hardly show one as large: with few images the error of any model is large by chance.
"""

from collections.abc import Sequence

from conceptlens.evaluation.calibration.conformal import PredictionSets
from conceptlens.evaluation.calibration.reliability import ALL, Calibration
from conceptlens.evaluation.verdict import Numbers, Verdict

CLASS_LIMIT, CONCEPT_LIMIT = 0.05, 0.1
LEVEL = 0.05


def calibration_numbers(classes: Calibration, concepts: Sequence[Calibration]) -> Numbers:
    """The errors of classes and of all concepts together."""
    together = next((each for each in concepts if each.question == ALL), None)
    return {"class_ece": classes.error, "concept_ece": together.error if together else None}


def judge_calibration(classes: Calibration, concepts: Sequence[Calibration]) -> Verdict:
    """The verdict on both."""
    together = next((each for each in concepts if each.question == ALL), None)
    if classes.error is None or classes.interval is None:
        return Verdict(outcome="unmeasured", reason="Too few images have a known class to compare probabilities with.")
    judged = [("class", classes, CLASS_LIMIT), *([("concepts", together, CONCEPT_LIMIT)] if together else [])]
    words = [_words(name, each) for name, each, _ in judged]
    large = [name for name, each, limit in judged if _surely_above(each, limit)]
    told = f"Calibration error: {'; '.join(words)}."
    if large:
        which = " and of the ".join(large)
        return Verdict(outcome="finding", reason=f"{told} Do not rely on the probabilities of the {which}.")
    limits = f"{CLASS_LIMIT} for the class, {CONCEPT_LIMIT} for concepts"
    usual = [name for name, each, limit in judged if each.interval and each.interval[0] > limit]
    if usual:  # the whole interval lies above: say why this is none the less no finding
        which = " and of the ".join(usual)
        told += f" With so few images the error of the {which} is often as large where probabilities are true."
    return Verdict(outcome="pass", reason=f"{told} No error is significantly above its limit ({limits}).")


def _words(name: str, each: Calibration) -> str:
    spread = f" ({each.interval[0]:.3f} to {each.interval[1]:.3f})" if each.interval else ""
    return f"{name} {each.error:.3f}{spread}"


def _surely_above(each: Calibration, limit: float) -> bool:
    by_chance = each.p is not None and each.p > LEVEL
    return each.interval is not None and each.interval[0] > limit and not by_chance


def judge_sets(sets: Sequence[PredictionSets]) -> Verdict:
    """The verdict on prediction sets: a finding if they cover too little, or if some are empty and exclude every class.

    Args:
        sets: Of every question. The class is judged; of a multi-label task, every label.
    """
    judged = [each for each in sets if each.question == "class" or each.question.startswith("class: ")]
    if not judged:
        return Verdict(outcome="unmeasured", reason="There were no images to calibrate prediction sets on.")
    first = judged[0]
    told = (
        f"Prediction sets with a nominal coverage of {first.wanted:.0%} cover the true class in "
        f"{first.coverage.text()} of images, with {first.size.text()} classes each."
    )
    if len(judged) > 1:
        told = f"Prediction sets of {len(judged)} labels with a nominal coverage of {first.wanted:.0%}."
    short = [each.question.removeprefix("class: ") for each in judged if each.holds is False]
    empty = max(each.empty or 0.0 for each in judged)
    found = []
    if short:
        found.append(f"Coverage is significantly below nominal: {', '.join(short[:3])}.")
    if empty:
        found.append(f"{empty:.1%} of the sets are empty: for these images the model excludes every answer.")
    return Verdict(outcome="finding" if found else "pass", reason=" ".join([told, *found]))
