"""The findings about leakage and use, in the order of the argument: numbers, and what a good value of each is."""

from typing import Literal

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.evaluation.leakage.effective_concepts import Effective
from conceptlens.evaluation.leakage.permuted import Chance
from conceptlens.evaluation.leakage.signs import Signs
from conceptlens.runs.readout import Floats, Readout
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Estimate, mean_of_column

Verdict = Literal["good", "look", "bad"]
ACCURACY = "class from soft scores, less from labels"
NATS = "class in the scores beyond all labels (nats)"
OWN = "  of a score beyond its own label"
USED = "gained by the head from the class in scores beyond labels"
MEANING = {  # of a significant finding
    ACCURACY: "the scores predict the class better than the true concepts do",
    NATS: "the scores carry class information that no label carries",
    OWN: "scores carry more class information than their own labels do",
    USED: "the class head uses class information that scores carry beyond their labels",
}


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


def list_findings(
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
