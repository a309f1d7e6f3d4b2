"""Subgroup performance, calibration, prediction sets and selective prediction: `trust/failures.json` of a run."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from pydantic import Field

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError
from conceptlens.evaluation.calibration.conformal import ALPHA, Floats, Indices, PredictionSets, prediction_sets
from conceptlens.evaluation.calibration.reliability import Calibration, class_calibration, concept_calibration
from conceptlens.evaluation.calibration.selective import RiskCoverage, risk_coverage
from conceptlens.evaluation.calibration.verdict import calibration_numbers, judge_calibration, judge_sets
from conceptlens.evaluation.concepts.groups import group_scores
from conceptlens.evaluation.ood.codebook_distance import OutOfDistribution
from conceptlens.evaluation.subgroups.metadata import make_columns
from conceptlens.evaluation.subgroups.outcomes import ACCURACY, CONCEPTS, MEASURES, outcomes
from conceptlens.evaluation.subgroups.subgroups import LEVEL, GroupMeasure, GroupResult, judge_groups
from conceptlens.evaluation.subgroups.verdict import judge_subgroups, subgroup_numbers
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.estimates import Bootstrap

MENTIONED = 6  # subgroups named in sentences


class Failures(Document):
    """The file."""

    remedy = "Measure it again with `conceptlens audit RUN`."

    run: str
    split: str
    images: int
    columns: list[str]
    skipped: dict[str, str]  # column: why it makes no groups
    comparisons: int  # that p-values are corrected for
    level: float
    groups: list[GroupResult]
    calibration: Calibration  # of the class
    concept_calibration: list[Calibration] = Field(default_factory=list)  # all concepts together, then each
    sets: list[PredictionSets]  # classes, classes each by itself, concepts
    selective: RiskCoverage | None
    ood: OutOfDistribution | None
    notes: list[str]
    findings: list[str]
    verdicts: dict[str, Verdict] = Field(default_factory=dict)  # of calibration, subgroups and uncertainty

    @property
    def calibration_verdict(self) -> Verdict:
        return judge_calibration(self.calibration, self.concept_calibration)

    @property
    def calibration_numbers(self) -> Numbers:
        return calibration_numbers(self.calibration, self.concept_calibration)

    @property
    def subgroup_verdict(self) -> Verdict:
        return judge_subgroups(self.groups, self._overall, self.skipped)

    @property
    def subgroup_numbers(self) -> Numbers:
        return subgroup_numbers(self.groups, self._overall)

    @property
    def _overall(self) -> float | None:
        """Accuracy of all images."""
        error = None if self.selective is None else self.selective.error.value
        return None if error is None else 1 - error

    def text(self) -> str:
        lines = [f"{self.run}: {self.images} {self.split} images", *(f"- {line}" for line in self.findings)]
        return "\n".join([*lines, *self.notes])

    def table(self) -> list[TableRow]:
        """Every measure of every group."""
        return [
            {
                "column": group.column,
                "group": group.group,
                "images": group.images,
                "measure": measure.measure,
                **measure.value.row(),
                "p": measure.p,
            }
            for group in self.groups
            for measure in group.measures
        ]


def measure_failures(
    judged: StoredPredictions,
    validation: StoredPredictions,
    concepts: ConceptSet,
    metadata: Mapping[str, Sequence[str]],
    *,
    run: str = "",
    split: str = "test",
    by: Sequence[str] | None = None,
    alpha: float = ALPHA,
    ood: OutOfDistribution | None = None,
    resamples: int = 1000,
    permutations: int | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Failures:
    """Subgroup performance, calibration and what depends on it.

    Args:
        judged: Predictions of N images.
        validation: Predictions of others, on which sets and thresholds are calibrated.
        concepts: The vocabulary.
        metadata: Column: a word for each of the N images.
        run: Its name.
        split: Of the judged images.
        by: Columns to look at; all by default.
        alpha: Share of images whose prediction set may miss the truth.
        ood: The result of out-of-distribution detection.
        resamples: Of the intervals.
        permutations: Of the tests; as many as the number of comparisons asks for by default.
        note: Says something to the person who waits.
    """
    if not 0 < alpha < 1:
        raise UserError(f"--alpha: expected a share between 0 and 1, such as 0.1, found {alpha:g}.")
    seen, before = outcomes(judged, concepts), outcomes(validation, concepts)
    columns, skipped = make_columns(metadata, by)
    note("subgroups")
    bootstrap = Bootstrap(seen.units, resamples)
    groups, comparisons = judge_groups(seen, columns, bootstrap, permutations=permutations)
    note("prediction sets")
    sets = all_sets(judged, validation, concepts, alpha=alpha, resamples=resamples)
    selective = risk_coverage(
        seen.confidence, seen.hit, seen.units, (before.confidence, before.hit), resamples=resamples
    )
    notes = [
        "Sets and thresholds are calibrated on validation images that also selected the model, so they are slightly "
        "optimistic."
    ]
    if not columns:
        notes.append(
            "The data has no metadata column that makes subgroups. Add columns such as age, sex or site to its table."
        )
    if len(set(judged.units)) < len(judged.units):
        notes.append("Images of one unit (patient, lesion) stay together in tests and intervals; sets count images.")
    result = Failures(
        run=run,
        split=split,
        images=len(seen),
        columns=[column.name for column in columns],
        skipped=skipped,
        comparisons=comparisons,
        level=LEVEL,
        groups=groups,
        calibration=class_calibration(judged, bootstrap),
        concept_calibration=concept_calibration(judged, concepts, bootstrap),
        sets=sets,
        selective=selective,
        ood=ood,
        notes=notes,
        findings=[],
    )
    result.findings = failure_sentences(result)
    result.verdicts = {
        "calibration": result.calibration_verdict,
        "subgroups": result.subgroup_verdict,
        "uncertainty": judge_sets(sets),
    }
    return result


def all_sets(
    judged: StoredPredictions, validation: StoredPredictions, concepts: ConceptSet, *, alpha: float, resamples: int
) -> list[PredictionSets]:
    """Of the class, of the class with each class calibrated by itself, and of each concept group or yes/no concept."""
    found: list[PredictionSets | None] = []
    shares = [class_probabilities(each.logits, each.task) for each in (validation, judged)]
    labels = [validation.labels, judged.labels]

    def put(
        question: str,
        answers: Sequence[str],
        old: tuple[Floats, Indices],
        new: tuple[Floats, Indices],
        *,
        each: bool = False,
    ) -> None:
        found.append(
            prediction_sets(question, answers, old, new, judged.units, alpha=alpha, resamples=resamples, each=each)
        )

    if judged.task == "multilabel":
        for place, name in enumerate(judged.classes):
            pairs = [np.stack([1 - share[:, place], share[:, place]], axis=1) for share in shares]
            put(f"class: {name}", ("no", "yes"), (pairs[0], labels[0][:, place]), (pairs[1], labels[1][:, place]))
    else:
        sides = (shares[0], labels[0]), (shares[1], labels[1])
        put("class", judged.classes, *sides)
        put("class, each by itself", judged.classes, *sides, each=True)
    if judged.concept_logits.shape[1]:
        asked = [group_scores(each.concept_logits, each.concepts, concepts) for each in (validation, judged)]
        for old, new in zip(*asked, strict=True):
            exclusive = new.group.kind == "exclusive"
            name = new.group.name if exclusive else concepts.names[new.columns[0]]
            answers = new.group.values if exclusive else ("no", "yes")
            put(name, answers, (old.probabilities, old.truth), (new.probabilities, new.truth))
    return [each for each in found if each is not None]


def worse(measure: GroupMeasure) -> bool:
    """Whether a difference is to the group's harm: less accurate, or more overconfident."""
    value = measure.difference.value or 0.0
    return value < 0 if measure.measure in (ACCURACY, CONCEPTS) else value > 0


def significantly_worse(found: Failures) -> list[tuple[GroupResult, GroupMeasure]]:
    """Subgroups that are significantly worse after correction; by measure, the largest difference first."""
    pairs = [
        (group, measure)
        for group in found.groups
        for measure in group.measures
        if measure.p is not None and measure.p < found.level and worse(measure)
    ]
    return sorted(pairs, key=lambda pair: (MEASURES.index(pair[1].measure), -abs(pair[1].difference.value or 0.0)))


def failure_sentences(found: Failures) -> list[str]:
    """The findings as sentences."""
    lines: list[str] = []
    pairs = significantly_worse(found)
    for group, measure in pairs[:MENTIONED]:
        lines.append(_difference(found, group, measure))
    if len(pairs) > MENTIONED:
        lines.append(f"{len(pairs) - MENTIONED} further differences are significant; see the table.")
    if found.columns and not pairs:
        lines.append(_no_difference(found))
    for sets in found.sets:
        if sets.question == "class":
            lines.append(
                f"Prediction sets with a nominal coverage of {sets.wanted:.0%} cover the true class in "
                f"{sets.coverage.text()} of images, with {sets.size.text()} classes each; {sets.single.text()} hold "
                f"one class."
            )
            worst = min(
                (each for each in sets.answers if each.coverage is not None), key=lambda each: each.coverage or 0
            )
            if worst.coverage is not None and worst.coverage < sets.wanted - 0.1:
                lines.append(
                    f"Their coverage of {worst.answer} is only {worst.coverage:.0%} ({worst.images} images): the "
                    f"nominal "
                    "coverage holds over all images together."
                )
    short = [sets.question for sets in found.sets if sets.holds is False]
    if short:
        lines.append(f"Coverage is significantly below nominal for: {', '.join(short[:MENTIONED])}.")
    sure = found.calibration
    if sure.error is not None:
        by_chance = "" if sure.by_chance is None else f"; a calibrated model would have {sure.by_chance:.3f}"
        lines.append(f"The calibration error of the class is {sure.error:.3f}{by_chance}.")
    if found.selective is not None:
        useful = [
            each
            for each in found.selective.operating_points
            if each.confidence is not None and each.error.value is not None
        ]
        if useful:
            first = useful[0]
            lines.append(
                f"If the model abstains below a confidence of {first.confidence:.3f}, chosen for an error of "
                f"{first.target:.0%}, it "
                f"answers {first.answered.text()} of the images, with an error of {first.error.text()}."
            )
    if found.ood is not None:
        lines.append(found.ood.sentence(found.split))
    return lines


def _difference(found: Failures, group: GroupResult, measure: GroupMeasure) -> str:
    size = abs(measure.difference.value or 0.0)
    kind = "lower" if measure.measure in (ACCURACY, CONCEPTS) else "higher"
    sentence = (
        f"{measure.measure.capitalize()} is {size:.3f} {kind} where {group.column} is {group.group!r} than in all "
        f"other images: "
        f"{measure.value.text()}, {group.images} images (p = {measure.p:.3f} after correction for "
        f"{found.comparisons} comparisons)."
    )
    if measure.p_beyond_classes is None:
        return sentence
    left = measure.beyond_classes or 0.0
    if measure.p_beyond_classes < found.level:
        return (
            f"{sentence} The classes of the subgroup do not explain it: {abs(left):.3f} remains (p = "
            f"{measure.p_beyond_classes:.3f})."
        )
    return f"{sentence} The classes of the subgroup may explain it: {left:+.3f} remains, which is not significant."


def _no_difference(found: Failures) -> str:
    rows = [each for group in found.groups for each in group.measures if each.measure == ACCURACY]
    tested = [each.detectable for each in rows if each.detectable is not None]
    if not tested:
        return f"No subgroup of {', '.join(found.columns)} has enough images to be tested."
    return (
        f"No subgroup of {', '.join(found.columns)} is significantly worse than the rest ({found.comparisons} "
        f"comparisons). "
        f"Differences in accuracy below {min(tested):.3f} to {max(tested):.3f}, by subgroup, may be missed."
    )
