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
from conceptlens.evaluation.findings import Finding, judge
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.interventions.value_map import cross_map, ways
from conceptlens.evaluation.leakage import controls, probe
from conceptlens.evaluation.leakage.effective_concepts import Effective, effective
from conceptlens.evaluation.leakage.excess import LIMIT, Excess, find_excess
from conceptlens.evaluation.leakage.information import ConceptInformation, concept_information
from conceptlens.evaluation.leakage.permuted import ALPHA, FEWEST, PERMUTATIONS, Chance
from conceptlens.evaluation.leakage.published_scores import PublishedScores, published_scores
from conceptlens.evaluation.leakage.reference import ClassFree, TaughtImages, linear_reader
from conceptlens.evaluation.leakage.signs import Signs, find_signs
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Bootstrap, Estimate, mean_of_column
from conceptlens.stats.folds import FOLDS, assign_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACCURACY = "class from soft scores, less from labels"
NATS = "class in the scores beyond all labels (nats)"
OWN = "  of a score beyond its own label"
USED = "gained by the head from the class in scores beyond labels"
REMEDY = "Measure it again with `conceptlens leakage RUN`."
FOLLOW = "Every image of a class has the same concept labels, so leakage beyond labels cannot be told from the class."
FOLLOW_IN_TRAINING = (
    "Every training image of a class has the same concept labels, so no reader of concepts can be made that does not "
    "learn the class."
)
NO_READER = "There is no reference reader to compare with: leave out --no-reference."
NOT_MEASURED: Numbers = {"raw": None, "excess": None, "above_ceiling": None}
MEANING = {  # of a significant finding
    ACCURACY: "the scores predict the class better than the true concepts do",
    NATS: "the scores carry class information that no label carries",
    OWN: "scores carry more class information than their own labels do",
    USED: "the class head uses class information that scores carry beyond their labels",
}


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
    fold, units = assign_folds(readout.units, folds, seed=seed), make_units(readout.concepts)
    maps = cross_map(readout, fold)
    labels, scores = probe.label_features(readout.truth), readout.bottleneck
    note("the class from labels and from scores")
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
        "half of the labels": controls.label_corruption_hits(readout, units, fold, seed=seed),
        **controls.corruption_hits(readout, maps, units, seed=seed),
    }
    columns |= {
        "model - ceiling": columns["model"] - columns["ceiling"],
        "soft - labels": columns["soft"] - columns["labels"],
        "soft - hard": columns["soft"] - columns["hard"],
        "read between": full - columns["within"],
        "lost": full - columns["wrong"],
    }
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
            "labels": completeness(columns["labels"], full, chance_level),
            "concepts": completeness(columns["alone"], full, chance_level),
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
    findings = _findings(found, information, ratios, found_effective, signs, readout)
    leaks = signs.leaks
    found |= bootstrap.means({"hardened": readout.hits(readout.logits(hardened(readout, fold)))})
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
    largest = max(over, key=lambda each: _value(each.counts), default=None)
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
        summary=_summary(verdict, follows, signs, readout, findings, per_concept),
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


def judge_leakage(excess: Excess | None, above: Estimate, why: str = "") -> Verdict:
    """The verdict.

    Args:
        excess: Over the reference reader, the larger one of two.
        above: Class accuracy less the ceiling.
        why: Why there is no reference reader.
    """
    if excess is None or excess.counts.interval is None:
        return Verdict(outcome="unmeasured", reason=why or "There are too few labeled images for a reference reader.")
    found = []
    size = f"{excess.counts.text()} nats"
    those = f"those of a reader that never saw the class ({excess.reader})"
    if excess.within:
        reader = f"The scores carry no more class information than {those}: an excess of {size}"
    elif _value(excess.counts) >= LIMIT:
        found.append(
            f"The scores carry more class information than {those}, by {size} where at most {LIMIT} nats are allowed, "
            f"most of all in {', '.join(excess.questions)}"
        )
    else:
        found.append(
            f"A leak cannot be excluded: the excess over a reader that never saw the class ({excess.reader}) is "
            f"{size}, and it passes only below {LIMIT} nats. More images make the interval smaller"
        )
    if above.low is not None and above.low > 0:
        found.append(f"The class accuracy is above what the true concepts allow, by {above.text()}")
    if found:
        return Verdict(outcome="finding", reason=". ".join(found) + ".")
    return Verdict(outcome="pass", reason=f"{reader}; the class accuracy is not above what the true concepts allow.")


def _follows_in_training(reference: ClassFree | TaughtImages) -> bool:
    """Whether what a reader would learn from says nothing but the class."""
    if isinstance(reference, ClassFree):
        return False
    return class_table.labels_follow_from_class(reference.concepts, reference.labels)


def hardened(readout: Readout, fold: Indices) -> Floats:
    """The bottleneck (N, K) with each of the run's own answers written so that nothing but the answer is left."""
    way = "one-hot" if "one-hot" in ways(readout) else "mean"
    return cross_map(readout, fold, way).write(readout, readout.read_labels, harden=True)


def _value(estimate: Estimate) -> float:
    return -np.inf if estimate.value is None else estimate.value


def _block(title: str, rows: dict[str, Estimate]) -> list[str]:
    return [f"{title}:", *(f"  {name:58}{each.text()}" for name, each in rows.items())] if rows else []


def _findings(
    found: dict[str, Estimate],
    information: dict[str, Estimate],
    ratios: dict[str, Estimate],
    sparse: Effective,
    signs: Signs,
    readout: Readout,
) -> list[Finding]:
    """The list, in the order of the argument."""

    def put(name: str, estimate: Estimate | None, good: str, chance: Chance | None = None) -> list[Finding]:
        if estimate is None:
            return []
        verdict = None if chance is None else judge(chance, signs.level)
        return [Finding(name=name, estimate=estimate, good=good, verdict=verdict, chance=chance)]

    everything, own = signs.everything, signs.own
    return [
        *put("accuracy of the model", found["model"], "As high as the concepts allow; the next line is that ceiling."),
        *put("class from true labels (ceiling)", found["ceiling"], "Near 1: the concepts determine the classes."),
        *put(
            "class from hard scores",
            found["hard"],
            "Close to soft scores: the hard answers hold all class information.",
        ),
        *put(
            "class from soft scores",
            found["soft"],
            "Not above the ceiling: scores should carry no more than the labels.",
        ),
        *put(
            ACCURACY,
            found["soft - labels"],
            "As with permuted scores, and not above 0: scores should not predict the class better than true concepts "
            "do.",
            everything.accuracy if everything else None,
        ),
        *put(
            "class from soft scores, less from hard",
            found["soft - hard"],
            "Near 0: an answer should not depend on small differences of the score; calibrated uncertainty may add a "
            "little.",
        ),
        *put(
            NATS,
            found["beyond labels"],
            "As with permuted scores, 0 or below: given every true concept, the scores add nothing about the class.",
            everything.nats if everything else None,
        ),
        *put(
            "concept-class mutual information, mean (nats)",
            information["score"],
            "About that of the labels (next line): more is leakage, less is a concept that is read poorly.",
        ),
        *put(
            "  of the labels themselves", information["label"], "What a score that carries only its label could reach."
        ),
        *put(
            OWN,
            information["beyond_label"],
            "As with permuted scores, 0 or below: among images with one label, the score should not separate classes.",
            own.mean if own else None,
        ),
        *put(
            USED,
            found.get("used"),
            "As with permuted scores, 0: the head should use the concepts, not the class information beyond them.",
            own.head if own else None,
        ),
        *put(
            "lost when scores say only their labels",
            found["read between"],
            "Near 0: the head needs no more than labels; uncertainty that concepts share may cost a little.",
        ),
        *put("accuracy with shuffled scores", found["shuffled"], "Chance: nothing but the concepts reaches the class."),
        *put(
            "accuracy with half of the concepts wrong",
            found["wrong"],
            "As low as a bottleneck of labels falls (two lines below): if higher, the head bypasses its concepts.",
        ),
        *put("accuracy with half of the concepts of another image", found["another"], "Low, for the same reason."),
        *put(
            "  of a bottleneck of labels, half of them wrong",
            found["half of the labels"],
            "The reference for the two lines above.",
        ),
        *put("accuracy at NEC 5, own head pruned", sparse.pruned, "Close to the full head: few concepts decide."),
        *put(
            "  lost to the full head", sparse.drop, "Near 0; a large loss means that many small terms decide together."
        ),
        *put("accuracy along the sparse path, mean", sparse.mean, "Close to the full head, at any number of concepts."),
        *put(
            "accuracy of random mixtures at NEC 5",
            found.get("random"),
            "Well below named concepts at NEC 5: otherwise the names of the concepts do not matter.",
        ),
        *put(
            "completeness of the labels",
            ratios["labels"],
            "1 or more: the concepts explain all accuracy above chance; if less, the model uses something else.",
        ),
        *put(
            "completeness of the concepts" + (" (a bypass exists)" if readout.bypass else ""),
            ratios["concepts"],
            "1: all accuracy above chance comes through the concepts, none through a bypass.",
        ),
    ]


def completeness(part: Floats, full: Floats, chance: float) -> Statistic:
    """Accuracy above chance of hits (N,) over that of the model; NaN where the model itself is at chance."""
    some, whole = mean_of_column(part), mean_of_column(full)

    def ratio(weights: Floats) -> Floats:
        above = whole(weights) - chance
        return np.divide(some(weights) - chance, above, out=np.full_like(above, np.nan), where=np.abs(above) > 1e-9)

    return ratio


def _chance(readout: Readout) -> float:
    """Accuracy of always predicting the most frequent class, the mean over labels of a multi-label task."""
    shares = []
    for target in readout.targets:
        known = target[target >= 0]
        if len(known):
            shares.append(np.bincount(known).max() / len(known))
    return float(np.mean(shares)) if shares else 0.0


def _summary(
    verdict: Verdict,
    follows: bool,
    signs: Signs,
    readout: Readout,
    findings: list[Finding],
    concepts: list[ConceptInformation],
) -> str:
    """The verdict where there is one; otherwise what the permutation test says of the labels, and why there is none."""
    words = []
    if verdict.outcome != "unmeasured":
        words.append(verdict.reason)
        if signs.leaks is not None:
            words.append(
                "The permutation test is significant; it also is for graded scores without a leak."
                if signs.leaks
                else "The permutation test is not significant."
            )
    elif follows:
        words.append("The concept labels follow from the class here, so leakage cannot be tested.")
    elif signs.leaks:
        bad = [MEANING[each.name] for each in findings if each.verdict == "bad"]
        words.append(f"This bottleneck leaks: {'; '.join(bad)}.")
        leaking = [row for row in concepts if row.chance is not None and row.chance.adjusted <= signs.level]
        if leaking:
            worst = sorted(leaking, key=_beyond, reverse=True)[:3]
            words.append(
                f"{len(leaking)} of {len(concepts)} concepts carry more class information than their label does, most "
                f"of all "
                f"{', '.join(row.concept for row in worst)}."
            )
    elif signs.leaks is not None:
        words.append("No significant leakage was found.")
    if verdict.outcome == "unmeasured" and not follows:
        words.append(verdict.reason)
    if signs.leaks is not None and signs.everything is None:
        words.append(
            "Images with equal labels hardly ever have different classes, so leakage beyond all labels cannot occur."
        )
    if readout.bypass:
        words.append(f"The class head also reads {readout.bypass}.")
    return " ".join(words)


def _beyond(concept: ConceptInformation) -> float:
    return concept.beyond_label.value or 0.0
