"""Leakage: do the concept scores carry class information beyond the concept labels? `trust/leakage.json` of a run.

Three numbers. *Raw*: what a score says of the class beyond its own label. A conditional permutation test says whether
that could be chance; an honest score fails it too, if it is graded (it says *how* large a cell is) or errs more often
in some classes. *Excess*: how much of it is more than a reader says that learned from concept labels alone
(`reference`, `excess`). *Above the ceiling*: class accuracy less that of true concepts → class. The verdict rests on
the last two. Every probe is judged on images it has not seen.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from conceptlens.concepts import UNKNOWN
from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError
from conceptlens.data.labels import class_table
from conceptlens.evaluation.class_table import labels_follow_from_class
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.interventions.value_map import cross_map, ways
from conceptlens.evaluation.leakage import controls, probe
from conceptlens.evaluation.leakage.effective_concepts import Effective, effective
from conceptlens.evaluation.leakage.excess import Excess, find_excess
from conceptlens.evaluation.leakage.findings import Finding, completeness, list_findings
from conceptlens.evaluation.leakage.information import ConceptInformation, concept_information
from conceptlens.evaluation.leakage.permuted import ALPHA, FEWEST, PERMUTATIONS
from conceptlens.evaluation.leakage.published_scores import PublishedScores, published_scores
from conceptlens.evaluation.leakage.reference import ClassFree, TaughtImages, linear_reader
from conceptlens.evaluation.leakage.signs import Signs, find_signs
from conceptlens.evaluation.leakage.verdict import FOLLOW, FOLLOW_IN_TRAINING, NO_READER, judge_leakage, summarize
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import FOLDS, assign_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REMEDY = "Measure it again with `conceptlens leakage RUN`."
NOT_MEASURED: Numbers = {"raw": None, "excess": None, "above_ceiling": None}


class Leakage(Document):
    """The file."""

    remedy = REMEDY

    run: str
    split: str
    images: int
    bypass: str | None  # what reaches the class besides the concepts
    chance: float  # share of the largest class
    leaks: bool | None  # None: these labels do not allow a test
    false_alarm_rate: float | None = (
        None  # at most this share of bottlenecks without leakage would be reported as leaking
    )
    permutations: int = 0
    summary: str
    findings: list[Finding]
    concepts: list[ConceptInformation]
    effective: Effective
    verdict: Verdict = Verdict(outcome="unmeasured", reason="Measured before there was a reference reader. " + REMEDY)
    numbers: Numbers = Field(default_factory=NOT_MEASURED.copy)
    excess: list[Excess] = Field(default_factory=list)  # over the reader of each encoder
    above_ceiling: Estimate | None = None
    without: dict[str, Estimate] = Field(default_factory=dict)  # accuracies, with and without class information
    published: dict[str, PublishedScores] = Field(default_factory=dict)  # CTL and ICL of the run and of each reader

    def finding(self, name: str) -> Finding:
        return next(each for each in self.findings if each.name == name)

    def text(self) -> str:
        return "\n".join(
            [
                f"{self.run}: {self.images} {self.split} images",
                self.verdict.text(),
                *(each.text() for each in self.excess),
                *([f"above the ceiling: {self.above_ceiling.text()}"] if self.above_ceiling else []),
                *_block("what the bottleneck's accuracy would be without it", self.without),
                *(f"{whose}: {scores.text()}" for whose, scores in self.published.items()),
                "",
                *(finding.text() for finding in self.findings),
                *([self.summary] if self.verdict.outcome == "unmeasured" else []),
            ]
        )

    def table(self) -> list[TableRow]:
        """The findings."""
        return [
            {"finding": row.name.strip(), **row.estimate.row(), "verdict": row.verdict, "good": row.good}
            for row in self.findings
        ]

    def plot(self) -> "Figure":
        """Accuracies beside the ceiling, and the concepts with most class information beyond their label."""
        from conceptlens.evaluation.figures import leakage_figure

        return leakage_figure(self)


def measure_leakage(
    readout: Readout,
    bootstrap: Bootstrap,
    *,
    run: str = "",
    split: str = "test",
    folds: int = FOLDS,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    references: Callable[[], Sequence[ClassFree | TaughtImages]] | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Leakage:
    """Everything about leakage and use of one run's scores; with 0 permutations there is no test.

    Args:
        readout: The run's scores.
        bootstrap: For intervals.
        run: Its name.
        split: Whose scores.
        folds: Of the probes.
        permutations: Of the raw test.
        seed: Of folds and permutations.
        references: Readers that never saw the class, or vectors of training images and of these, for a linear one;
            called if one can be judged by.
        note: Progress.
    """
    if permutations and permutations < FEWEST:
        raise UserError(
            f"--permutations: expected 0 or at least {FEWEST}, found {permutations}: fewer cannot reach significance."
        )
    if (readout.truth == UNKNOWN).all():
        raise UserError("No concept of these images has a label, so leakage cannot be measured. Add concept labels.")
    fold = assign_folds(readout.units, folds, seed=seed)
    note("the class from labels and from scores")
    columns = _hits(readout, fold, seed=seed)
    note("sparse heads")
    found_effective = effective(readout, fold, bootstrap)
    if found_effective.path:
        columns["random"] = controls.random_concept_hits(readout, fold, seed=seed)
    note("mutual information")
    per_concept, information = concept_information(readout, fold, bootstrap)
    chance_level = _chance(readout)
    found = bootstrap.means(columns)
    ratios = bootstrap.of(
        {
            "labels": completeness(columns["labels"], columns["model"], chance_level),
            "concepts": completeness(columns["alone"], columns["model"], chance_level),
        }
    )
    follows = labels_follow_from_class(readout)
    signs = Signs()
    if permutations and not follows:
        signs = find_signs(readout, fold, bootstrap, permutations=permutations, seed=seed, note=note)
        for each, chance in zip(per_concept, signs.own.concepts if signs.own else [], strict=True):
            each.chance = chance
    if signs.own is not None:
        found |= bootstrap.means({"used": signs.own.used})
    findings = list_findings(found, information, ratios, found_effective, signs, readout)
    leaks = signs.leaks
    note("published leakage scores")
    published = {"run": published_scores(readout)}
    over: list[Excess] = []
    why = FOLLOW if follows else NO_READER if references is None else ""
    if not why and references is not None:
        try:
            taught = [each for each in references() if not _follows_in_training(each)]
            why = "" if taught else FOLLOW_IN_TRAINING
        except UserError as error:
            taught, why = [], f"The reference reader needs the run's images. {error}"
        for reference in taught:
            reader = linear_reader(readout, reference, note) if isinstance(reference, TaughtImages) else reference
            note(f"excess over {reader.name}")
            over.append(find_excess(readout, reader, fold, bootstrap, seed=seed))
            published[reader.name] = published_scores(reader.readout)
    largest = max(over, key=_size, default=None)
    verdict = judge_leakage(largest, found["model - ceiling"], why)
    return Leakage(
        run=run,
        split=split,
        images=len(readout),
        bypass=readout.bypass,
        chance=chance_level,
        leaks=leaks,
        false_alarm_rate=ALPHA if leaks is not None else None,
        permutations=permutations if leaks is not None else 0,
        summary=summarize(verdict, follows, signs, readout, findings, per_concept),
        findings=findings,
        concepts=per_concept,
        effective=found_effective,
        verdict=verdict,
        numbers={
            "raw": information["beyond_label"].value,
            "excess": None if largest is None else largest.counts.value,
            "above_ceiling": found["model - ceiling"].value,
        },
        excess=over,
        above_ceiling=found["model - ceiling"],
        without={
            "the model as it is": found["model"],
            "its head on hard answers": found["hardened"],
            "true labels → class (ceiling)": found["ceiling"],
            **{each.reader: each.accuracy for each in over},
        },
        published=published,
    )


def _hits(readout: Readout, fold: Indices, *, seed: int) -> dict[str, Floats]:
    """Hits (N,) of the model and of probes, of labels and of scores, as they are and spoilt; and differences."""
    units, maps = make_units(readout.concepts), cross_map(readout, fold)
    labels, scores = probe.label_features(readout.truth), readout.bottleneck
    full = readout.hits(readout.logits(scores))
    columns: dict[str, Floats] = {
        "model": full,
        "labels": probe.hits(readout, labels, fold),
        "ceiling": probe.ceiling_hits(readout, fold),
        "hard": probe.hits(readout, probe.hard_scores(readout), fold),
        "soft": probe.hits(readout, scores, fold),
        "alone": readout.hits(readout.decide(scores)),
        "beyond labels": probe.gain(readout, np.concatenate([labels, scores], axis=1), labels, fold),
        "shuffled": controls.shuffled_hits(readout, within_label=False, seed=seed),
        "within": controls.shuffled_hits(readout, within_label=True, seed=seed),
        "hardened": readout.hits(readout.logits(hardened(readout, fold))),
        "half of the labels": controls.label_corruption_hits(readout, units, fold, seed=seed),
        **controls.corruption_hits(readout, maps, units, seed=seed),
    }
    return columns | {
        "model - ceiling": columns["model"] - columns["ceiling"],
        "soft - labels": columns["soft"] - columns["labels"],
        "soft - hard": columns["soft"] - columns["hard"],
        "read between": full - columns["within"],
    }


def _follows_in_training(reference: ClassFree | TaughtImages) -> bool:
    """Whether what a reader would learn from says nothing but the class."""
    if isinstance(reference, ClassFree):
        return False
    return class_table.labels_follow_from_class(reference.concepts, reference.labels)


def hardened(readout: Readout, fold: Indices) -> Floats:
    """The bottleneck (N, K) with each of the run's own answers written so that nothing but the answer is left."""
    way = "one-hot" if "one-hot" in ways(readout) else "mean"
    return cross_map(readout, fold, way).write(readout, readout.read_labels, harden=True)


def _size(excess: Excess) -> float:
    return -np.inf if excess.counts.value is None else excess.counts.value


def _block(title: str, rows: dict[str, Estimate]) -> list[str]:
    return [f"{title}:", *(f"  {name:58}{each.text()}" for name, each in rows.items())] if rows else []


def _chance(readout: Readout) -> float:
    """Accuracy of always predicting the most frequent class, the mean over labels of a multi-label task."""
    shares = []
    for target in readout.targets:
        known = target[target >= 0]
        if len(known):
            shares.append(np.bincount(known).max() / len(known))
    return float(np.mean(shares)) if shares else 0.0
