"""All units told, by every way of writing an answer: the truth, and its controls. A verdict from them.

Sham: the model's own answers confirmed. Wrong: every answer wrong. Hardened: the model's own answers as 0 and 1, where
confirming a yes or no would leave its probability as it is. Differences are paired: their intervals are over images
that were told both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.evaluation.interventions.edits import confirmed_labels, wrong_labels
from conceptlens.evaluation.interventions.value_map import Way, cross_map
from conceptlens.evaluation.verdict import Verdict
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate

MARGIN = 0.015  # accuracy that true answers may lack to the ceiling
TOO_FEW = f"the images are too few to be sure that it is more than {100 * MARGIN:g}"


class Written(Part):
    """Accuracy with all units told, written in one way."""

    way: Way
    sham: Estimate
    truth: Estimate
    wrong: Estimate
    hardened: Estimate | None = None  # None where confirming and hardening are the same
    truth_less_sham: Estimate
    ceiling_less_truth: Estimate
    untouched_less_wrong: Estimate
    wrong_above_half: Estimate | None = None  # above the middle of untouched and of a head of labels told the same

    @property
    def findings(self) -> list[str]:
        """What is wrong with it, in words; nothing where it passes."""
        found = []
        if self.truth_less_sham.high is not None and self.truth_less_sham.high < 0:
            found.append(
                f"accuracy with true answers ({percent(self.truth)}) is lower than with the model's own answers "
                f"written back ({percent(self.sham)})"
            )
        missing = self.ceiling_less_truth
        if (missing.value or 0) > MARGIN:
            few = missing.interval is not None and missing.interval[0] <= MARGIN
            found.append(
                f"accuracy with true answers ({percent(self.truth)}) is {100 * (missing.value or 0):.1f} points below "
                "what the true concepts allow" + (f" ({_interval(missing)}: {TOO_FEW})" if few else "")
            )
        lost = self.untouched_less_wrong
        surely = lost.value if lost.low is None else lost.low
        if surely is None or surely <= 0:
            found.append(f"wrong answers do not lower the accuracy ({percent(self.wrong)})")
        elif self.wrong_above_half is not None and (self.wrong_above_half.low or 0) > 0:
            found.append(
                f"with only wrong answers it is still right in {percent(self.wrong)}, so it hardly follows corrections"
            )
        return found


@dataclass(frozen=True)
class Told:
    """Hits (N,) with all units told; of one model's images, or of the images of several folds together."""

    units: tuple[str, ...]  # (N,) what is drawn together
    start: Floats  # nothing told
    ceiling: Floats  # a head that reads the true labels alone
    labels_wrong: Floats  # the same head, told only wrong labels
    ways: dict[Way, dict[str, Floats]]  # the columns of `Written`; the way that was chosen first

    def written(self, bootstrap: Bootstrap) -> list[Written]:
        return [Written.model_validate({"way": way, **bootstrap.means(each)}) for way, each in self.ways.items()]

    @classmethod
    def joined(cls, parts: Sequence["Told"]) -> "Told":
        """Of several folds; they are written in the ways that all of them know."""
        ways = [way for way in parts[0].ways if all(way in part.ways for part in parts)]
        return cls(
            units=tuple(unit for part in parts for unit in part.units),
            start=np.concatenate([part.start for part in parts]),
            ceiling=np.concatenate([part.ceiling for part in parts]),
            labels_wrong=np.concatenate([part.labels_wrong for part in parts]),
            ways={
                way: {name: np.concatenate([part.ways[way][name] for part in parts]) for name in parts[0].ways[way]}
                for way in ways
            },
        )


def write_every_way(
    readout: Readout, possible: tuple[Way, ...], fold: Indices, ceiling: Floats, labels_wrong: Floats, *, seed: int = 0
) -> Told:
    """All units told, in these ways.

    Args:
        readout: The images.
        possible: The ways.
        fold: (N,) the fold of each image: means and percentiles come from other folds.
        ceiling: (N,) hits of a head that reads the true labels alone.
        labels_wrong: (N,) hits of such a head that is told only wrong labels.
        seed: Of wrong answers.
    """
    untouched = readout.hits(readout.logits(readout.bottleneck))
    told = {"truth": readout.truth, "wrong": wrong_labels(readout, seed=seed), "sham": confirmed_labels(readout)}
    independent = any(group.kind == "independent" for group in readout.concepts.groups)
    found: dict[Way, dict[str, Floats]] = {}
    for way in possible:
        maps = cross_map(readout, fold, way)
        columns = {name: readout.hits(readout.logits(maps.write(readout, labels))) for name, labels in told.items()}
        columns |= {
            "truth_less_sham": columns["truth"] - columns["sham"],
            "ceiling_less_truth": ceiling - columns["truth"],
            "untouched_less_wrong": untouched - columns["wrong"],
            "wrong_above_half": columns["wrong"] - (untouched + labels_wrong) / 2,
        }
        if way == "one-hot" and independent:
            columns["hardened"] = readout.hits(readout.logits(maps.write(readout, told["sham"], harden=True)))
        found[way] = columns
    return Told(readout.units, untouched, ceiling, labels_wrong, found)


def judge(
    chosen: Written, others: list[Written], start: Estimate, ceiling: Estimate, labels_wrong: Estimate
) -> Verdict:
    """Whether corrections correct, as one way writes them; other ways that disagree are named.

    Args:
        chosen: The way.
        others: All ways.
        start: Accuracy with nothing told.
        ceiling: Of a head that reads the true labels alone.
        labels_wrong: Of the same head, told only wrong labels.
    """
    if any(each.value is None for each in (start, ceiling, chosen.truth)):
        return Verdict(outcome="unmeasured", reason="No image has a known class.")
    numbers = (
        f"{percent(start)} without corrections, {percent(chosen.sham)} with its own answers written back, "
        f"{percent(chosen.truth)} with true answers, {percent(chosen.wrong)} with only wrong answers. A head that "
        f"reads labels alone: {percent(ceiling)} with true answers, {percent(labels_wrong)} with only wrong answers"
    )
    say = "; ".join(chosen.findings) or "true answers keep or raise the accuracy, wrong ones lower it"
    reason = f"{say[0].upper()}{say[1:]}. Accuracy: {numbers}."
    differ = [each.way for each in others if each is not chosen and bool(each.findings) != bool(chosen.findings)]
    if differ:
        reason += (
            f" Answers are written as {chosen.way} here; written as {' or '.join(differ)}, the verdict would be "
            f"{'a pass' if chosen.findings else 'a finding'}."
        )
    return Verdict(outcome="finding" if chosen.findings else "pass", reason=reason)


def _interval(estimate: Estimate) -> str:
    return " to ".join(f"{100 * end:.1f}" for end in estimate.interval or ())


def percent(estimate: Estimate) -> str:
    return "-" if estimate.value is None else f"{estimate.value:.1%}"
