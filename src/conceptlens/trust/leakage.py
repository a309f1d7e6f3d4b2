"""Leakage and use: does the class come through what the concepts say, or around it? `trust/leakage.json` of a run.

Concept scores are numbers, and a number can carry more than its name. If the scores know the class better than the true
concepts do, if one concept's score tells classes apart among images with the same label, or if the head does worse once
scores say their labels and nothing else, then the bottleneck leaks. Every probe is judged on images it has not seen.
"""

from collections.abc import Callable

import numpy as np

from conceptlens.concepts import UNKNOWN
from conceptlens.documents import Document
from conceptlens.errors import UserError
from conceptlens.trust import controls, probe
from conceptlens.trust.effective import Effective, effective
from conceptlens.trust.estimates import Bootstrap, Estimate, mean_of_column
from conceptlens.trust.findings import Finding, above
from conceptlens.trust.folds import FOLDS, deal
from conceptlens.trust.information import ConceptInformation, concept_information
from conceptlens.trust.readout import Floats, Readout
from conceptlens.trust.units import make_units
from conceptlens.trust.value_map import cross_map

MARGIN = 0.005  # of accuracy: less is no matter, however sure
NATS = 0.01
SIGNS = (
    "class from soft scores, less from labels",
    "class in the scores beyond all labels (nats)",
    "lost when scores say only their labels",
)


class Leakage(Document):
    """The file."""

    remedy = "Measure it again with `conceptlens leakage RUN`."

    run: str
    split: str
    images: int
    bypass: str | None  # what reaches the class besides the concepts, in words
    chance: float  # share of the largest class
    leaks: bool | None  # None: cannot be told from these labels
    summary: str
    findings: list[Finding]
    concepts: list[ConceptInformation]
    effective: Effective

    def finding(self, name: str) -> Finding:
        return next(each for each in self.findings if each.name == name)

    def text(self) -> str:
        lines = [f"{self.run}: {self.images} {self.split} images", *(finding.text() for finding in self.findings)]
        return "\n".join([*lines, self.summary])


def measure_leakage(
    readout: Readout,
    bootstrap: Bootstrap,
    *,
    run: str = "",
    split: str = "test",
    folds: int = FOLDS,
    seed: int = 0,
    note: Callable[[str], object] = lambda text: None,
) -> Leakage:
    """Everything about leakage and use of one run's scores."""
    if (readout.truth == UNKNOWN).all():
        raise UserError("No concept of these images has a label, so nothing can be said of leakage. Bring labels.")
    fold, units = deal(readout.units, folds, seed=seed), make_units(readout.concepts)
    maps = cross_map(readout, fold)
    labels, scores = probe.label_features(readout.truth), readout.bottleneck
    note("the class from labels and from scores")
    full = readout.hits(readout.logits(scores))
    columns: dict[str, Floats] = {
        "model": full,
        "labels": probe.hits(readout, labels, fold),
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
        "model - labels": columns["model"] - columns["labels"],
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
    chance = _chance(readout)
    found = bootstrap.means(columns)
    ratios = bootstrap.of(
        {
            "labels": lambda weights: (
                (mean_of_column(columns["labels"])(weights) - chance) / (mean_of_column(full)(weights) - chance)
            ),
            "concepts": lambda weights: (
                (mean_of_column(columns["alone"])(weights) - chance) / (mean_of_column(full)(weights) - chance)
            ),
        }
    )
    follows = labels_follow_from_class(readout)
    findings = _findings(found, information, ratios, found_effective, follows, readout)
    # Two independent signs: what the scores hold, and what the head takes from them.
    judged = [each.verdict for each in findings if each.name in SIGNS]
    leaks = None if follows or not any(judged) else "bad" in judged
    return Leakage(
        run=run,
        split=split,
        images=len(readout),
        bypass=readout.bypass,
        chance=chance,
        leaks=leaks,
        summary=_summary(leaks, follows, readout, findings, per_concept),
        findings=findings,
        concepts=per_concept,
        effective=found_effective,
    )


def _findings(
    found: dict[str, Estimate],
    information: dict[str, Estimate],
    ratios: dict[str, Estimate],
    sparse: Effective,
    follows: bool,
    readout: Readout,
) -> list[Finding]:
    """The list, in the order of the argument."""

    def put(name: str, estimate: Estimate | None, good: str, bound: float | None = None) -> list[Finding]:
        if estimate is None:
            return []
        verdict = None if bound is None or follows else above(estimate, bound)
        return [Finding(name=name, estimate=estimate, good=good, verdict=verdict)]

    return [
        *put("accuracy of the model", found["model"], "As high as the concepts allow, which is the next line."),
        *put("class from true labels (ceiling)", found["labels"], "Near 1: the concepts are enough for the classes."),
        *put("class from hard scores", found["hard"], "Close to soft scores: the answers say it all."),
        *put("class from soft scores", found["soft"], "Not above the ceiling: labels are all that scores should say."),
        *put(
            SIGNS[0],
            found["soft - labels"],
            "0 or below: scores that know the class better than the truth about the concepts know more than concepts.",
            MARGIN,
        ),
        *put(
            "class from soft scores, less from hard",
            found["soft - hard"],
            "Near 0: what an answer is worth should not hang on hidden digits, though honest doubt may earn a little.",
        ),
        *put(
            SIGNS[1],
            found["beyond labels"],
            "0 or below: given every true concept, the scores have nothing to add about the class.",
            NATS,
        ),
        *put(
            "concept-class mutual information, mean (nats)",
            information["score"],
            "About that of the labels (next line): more is leakage, less is a concept poorly read.",
        ),
        *put("  of the labels themselves", information["label"], "What an honest score of the concept could reach."),
        *put(
            "  of a score beyond its own label",
            information["beyond_label"],
            "0: among images with one label, the score should not tell classes apart.",
            2 * NATS,
        ),
        *put(
            SIGNS[2],
            found["read between"],
            "0: the head needs the labels of the concepts, not what else their scores tell.",
            4 * MARGIN,
        ),
        *put("accuracy with shuffled scores", found["shuffled"], "Chance: nothing reaches the class but concepts."),
        *put(
            "accuracy with half of the concepts wrong",
            found["wrong"],
            "As low as a bottleneck of labels falls (two lines on): higher, the head reads around its concepts.",
        ),
        *put("accuracy with half of the concepts of another image", found["another"], "Low, for the same reason."),
        *put("  of a bottleneck of labels, half of them wrong", found["half of the labels"], "The yardstick."),
        *put("accuracy at NEC 5, own head pruned", sparse.pruned, "Close to the full head: few concepts decide."),
        *put(
            "  lost to the full head", sparse.drop, "Near 0; a large loss says that many small terms decide together."
        ),
        *put("accuracy along the sparse path, mean", sparse.mean, "Close to the full head, at any number of concepts."),
        *put(
            "accuracy of random mixtures at NEC 5",
            found.get("random"),
            "Well below named concepts at NEC 5: as good without names, names are decoration.",
        ),
        *put(
            "completeness of the labels",
            ratios["labels"],
            "1 or more: the concepts explain all accuracy above chance; less, the model knows what they do not say.",
        ),
        *put(
            "completeness of the concepts" + (" (a bypass exists)" if readout.bypass else ""),
            ratios["concepts"],
            "1: all accuracy above chance comes through the concepts and none through a bypass.",
        ),
    ]


def _chance(readout: Readout) -> float:
    """Accuracy of always saying the commonest answer, the mean over labels of a multi-label task."""
    shares = []
    for target in readout.targets:
        known = target[target >= 0]
        if len(known):
            shares.append(np.bincount(known).max() / len(known))
    return float(np.mean(shares)) if shares else 0.0


def labels_follow_from_class(readout: Readout) -> bool:
    """Whether every image of a class has the same concept labels: concepts are then the class in disguise."""
    if readout.labels.ndim > 1:
        return False
    parts = [readout.truth[readout.labels == each] for each in np.unique(readout.labels[readout.labels >= 0])]
    return all((part == part[0]).all() for part in parts) and len(readout) > len(parts)


def _summary(
    leaks: bool | None, follows: bool, readout: Readout, findings: list[Finding], concepts: list[ConceptInformation]
) -> str:
    words = []
    if follows:
        words.append("Concept labels follow from the class here, so leakage cannot be told from honest reading.")
    elif leaks:
        signs = [each.name for each in findings if each.name in SIGNS and each.verdict == "bad"]
        words.append(f"This bottleneck leaks: {'; '.join(signs)}.")
        worst = sorted(
            (each for each in concepts if (each.beyond_label.low or 0) > 2 * NATS), key=_beyond, reverse=True
        )
        if worst:
            words.append("Most beyond their label: " + ", ".join(each.concept for each in worst[:3]) + ".")
    elif leaks is not None:
        words.append("No sign of leakage beyond what chance explains.")
    if readout.bypass:
        words.append(f"The class is also reached by {readout.bypass}.")
    return " ".join(words)


def _beyond(concept: ConceptInformation) -> float:
    return concept.beyond_label.value or 0.0
