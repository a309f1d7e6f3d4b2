"""Interventions on a whole split: `trust/interventions.json` of a run."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, PrivateAttr

from conceptlens.concepts import UNKNOWN
from conceptlens.core.documents import Document, TableRow
from conceptlens.evaluation.class_table import NOT_MEASURED, labels_follow_from_class
from conceptlens.evaluation.interventions.ask_next import NextQuestion, ask_next, least_sure
from conceptlens.evaluation.interventions.blurred import Blurred
from conceptlens.evaluation.interventions.controls import Told, Written, judge, write_every_way
from conceptlens.evaluation.interventions.counterfactual import THRESHOLD, Counterfactual, counterfactual
from conceptlens.evaluation.interventions.curve import Alone, Curve, each_alone, follow_policy, summarize
from conceptlens.evaluation.interventions.edits import wrong_labels
from conceptlens.evaluation.interventions.flip import Flips, flips
from conceptlens.evaluation.interventions.order import POLICIES
from conceptlens.evaluation.interventions.units import make_units, with_concepts
from conceptlens.evaluation.interventions.value_map import choose_way, cross_map, ways
from conceptlens.evaluation.leakage import probe
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ASKED = 20  # images for which the next question is written out
OLD = Verdict(
    outcome="unmeasured",
    reason="This was measured by an older version, without controls. Measure again: `conceptlens interventions RUN`.",
)


class Interventions(Document):
    """The file."""

    remedy = "Measure it again with `conceptlens interventions RUN`."

    run: str
    split: str
    images: int
    by: str  # what is corrected in one go: groups, concepts or parts
    to: str  # how an answer is written into the bottleneck
    space: str
    bypass: str | None
    units: list[str]
    start: Estimate  # accuracy with nothing corrected
    ceiling: Estimate  # label → class, by a probe judged on images it has not seen
    headroom: Estimate  # ceiling − start
    curves: list[Curve]
    alone: list[Alone]
    counterfactuals: list[Counterfactual]
    flips: Flips | None  # None for a multi-label task
    ask: list[NextQuestion]
    notes: list[str]
    ways: list[Written] = Field(default_factory=list)  # all units told, in every way; the one that was chosen first
    blurred: list[Blurred] = Field(default_factory=list)
    verdict: Verdict = OLD
    _told: Told | None = PrivateAttr(default=None)  # not in the file

    def curve(self, policy: str) -> Curve:
        return next(each for each in self.curves if each.policy == policy)

    @property
    def numbers(self) -> Numbers:
        """Fractions with all units told, and the area under the curve of random orders; None where unmeasured."""
        if self.verdict.outcome == "unmeasured":
            return dict.fromkeys(("untouched", "sham", "truth", "wrong", "ceiling", "area"))
        told = self.ways[0]
        return {
            "untouched": self.start.value,
            "sham": told.sham.value,
            "truth": told.truth.value,
            "wrong": told.wrong.value,
            "ceiling": self.ceiling.value,
            "area": next((curve.area.value for curve in self.curves if curve.policy == "chance"), None),
        }

    def text(self) -> str:
        lines = [f"{self.run}: corrections: {self.verdict.text()}"]
        lines.append(f"  {self.images} {self.split} images, {len(self.units)} {self.by} to correct")
        lines.append(f"  accuracy with nothing corrected  {self.start.text()}")
        if self.verdict.outcome != "unmeasured":
            lines += self._text_of_corrections()
        return "\n".join([*lines, *self._text_of_the_rest(), *self.notes])

    def _text_of_corrections(self) -> list[str]:
        lines = [f"  label → class ceiling            {self.ceiling.text()}"]
        lines.append("  all corrected, written as           sham    truth    wrong  hardened")
        for told in self.ways:
            cells = (told.sham, told.truth, told.wrong, told.hardened)
            shown = ["-" if each is None or each.value is None else f"{each.value:.3f}" for each in cells]
            lines.append(f"    {told.way:31}" + "".join(f"{cell:>9}" for cell in shown))
        if self.curves:
            lines.append(f"  labels alone, all of them wrong  {self.curves[0].wrong_labels[-1].text()}")
        for curve in self.curves:
            lines.append(f"  corrected by {curve.policy:13}       area {curve.area.text()}, gain {curve.gain.text()}")
        for each in self.blurred:
            points = each.curve.points
            lines.append(
                f"  blurred to {each.pixels} pixels: {points[0].text()} untouched, all corrected "
                f"{points[-1].text()}, area {each.area.text()}"
            )
        best = sorted(self.alone, key=lambda each: -(each.corrected.value or 0))
        if best:
            lines.append(f"  best single correction           {best[0].unit}: {best[0].corrected.text()}")
            lines.append(f"  worst single correction          {best[-1].unit}: {best[-1].corrected.text()}")
        return lines

    def _text_of_the_rest(self) -> list[str]:
        lines = []
        for test in self.counterfactuals:
            if len(test.rows) > 1:
                last = test.rows[-1]
                control = "" if test.random is None else f"; random others {test.random.relative_change.text()}"
                lines.append(
                    f"  {test.of} ({test.images} sure images) without {', '.join(last.intervene_on)}: "
                    f"{last.relative_change.text()}{control}"
                )
        if self.flips and self.flips.median is not None:
            lines.append(f"  edits to flip a decision         {self.flips.median:g} (median, {self.flips.kind})")
        return lines

    def table(self) -> list[TableRow]:
        """Accuracy by policy and number of corrected units, to the truth and to a wrong answer."""
        return [
            {"policy": curve.policy, "corrected": count, **right.row("accuracy"), **wrong.row("wrong"), "sham": sham}
            for curve in self.curves
            for count, (right, wrong, sham) in enumerate(
                zip(curve.points, curve.wrong, _values(curve.sham, len(curve.points)), strict=True)
            )
        ]

    def plot(self) -> "Figure":
        """Accuracy against corrected units, and what each unit does alone."""
        from conceptlens.evaluation.figures import intervention_figure

        return intervention_figure(self)


def measure_interventions(
    readout: Readout,
    bootstrap: Bootstrap,
    *,
    run: str = "",
    split: str = "test",
    by: str = "groups",
    to: str = "auto",
    orders: Sequence[str] = POLICIES,
    classes: Sequence[str] | None = None,
    on: Sequence[str] | None = None,
    instead: str | None = None,
    threshold: float = THRESHOLD,
    seed: int = 0,
    note: Callable[[str], object] = lambda text: None,
) -> Interventions:
    """Everything about interventions on one run's scores.

    Args:
        readout: The images.
        bootstrap: How intervals are made.
        run: Its name.
        split: The split's.
        by: Correct `groups`, single `concepts`, or `parts`.
        to: How an answer is written, see `value_map`; `auto` is the default of the head.
        orders: Policies.
        classes: Of the counterfactual test; all by default.
        on: Units or concepts of the counterfactual test; the two most influential of each class by default.
        instead: The class whose mean scores it puts in; all others by default.
        threshold: Of its images.
        seed: Of folds, random orders and wrong answers.
        note: Says something to the person who waits.
    """
    units, fold = make_units(readout.concepts, by), assign_folds(readout.units, seed=seed)
    way = choose_way(readout, to)
    maps = cross_map(readout, fold, way)
    labeled = bool((readout.truth != UNKNOWN).any())
    notes, written = [], list[Written]()
    start = readout.hits(readout.logits(readout.bottleneck))
    columns = {"start": start}
    told: Told | None = None
    curves: list[Curve] = []
    if labeled:
        label_head = probe.label_head(readout, fold)
        ceiling = probe.ceiling_hits(readout, fold)
        columns |= {"ceiling": ceiling, "headroom": ceiling - start}
        columns["reference"] = label_head(wrong_labels(readout, seed=seed))
        possible = (way, *(each for each in ways(readout) if each != way))
        told = write_every_way(readout, possible, fold, ceiling, columns["reference"], seed=seed)
        written = told.written(bootstrap)
        for policy in orders:
            note(f"corrections by {policy}")
            followed = follow_policy(readout, maps, units, policy, label_head=label_head, seed=seed)
            curves.append(summarize(policy, followed, bootstrap))
    else:
        notes.append("No concept of these images has a label, so nothing can be corrected to the truth.")
    if readout.bypass:
        notes.append(readout.describe_bypass("The class is also reached by {}, which no correction touches."))
    found = bootstrap.means(columns)
    nothing = Estimate(value=None)
    if not labeled:
        verdict = Verdict(outcome="unmeasured", reason=notes[0])
    elif labels_follow_from_class(readout):
        verdict = Verdict(outcome="unmeasured", reason=f"{NOT_MEASURED}, so telling concepts tells the class.")
        notes.append(f"Corrections were {verdict.reason}")
    else:
        verdict = judge(written[0], written, found["start"], found["ceiling"], found["reference"])
    note("counterfactuals, flips and questions")
    choice = with_concepts(units, readout.concepts, on or ())
    asked = least_sure(readout, ASKED)
    result = Interventions(
        run=run,
        split=split,
        images=len(readout),
        by=by,
        to=way,
        space=readout.space,
        bypass=readout.bypass,
        units=[unit.name for unit in units],
        start=found["start"],
        ceiling=found.get("ceiling", nothing),
        headroom=found.get("headroom", nothing),
        curves=curves,
        alone=each_alone(readout, maps, units, bootstrap, seed=seed) if labeled else [],
        counterfactuals=[
            counterfactual(readout, choice, name, bootstrap, on=on, instead=instead, threshold=threshold, seed=seed)
            for name in (readout.classes if classes is None else classes)
            if name != instead
        ],
        flips=None if readout.task == "multilabel" else flips(readout, maps),
        ask=ask_next(readout, maps, units, asked),
        notes=notes,
        ways=written,
        verdict=verdict,
    )
    result._told = told
    return result


def judge_over_folds(
    parts: Sequence[Interventions], bootstrap: Callable[[Sequence[str]], Bootstrap]
) -> tuple[Verdict, Numbers] | None:
    """The verdict on the images of all folds, each corrected in the model of its fold; None where none was measured.

    With it come the numbers that are means over images. A fold of a small data set has too few images for a verdict
    of its own.

    Args:
        parts: Of each fold, as `measure_interventions` returned it.
        bootstrap: Makes intervals for these units.
    """
    told = [each._told for each in parts if each._told and each.verdict.outcome != "unmeasured"]
    if not told:
        return None
    together = Told.joined(told)
    drawn = bootstrap(together.units)
    found = drawn.means({"start": together.start, "ceiling": together.ceiling, "reference": together.labels_wrong})
    written = together.written(drawn)
    verdict = judge(written[0], written, found["start"], found["ceiling"], found["reference"])
    estimates = {"untouched": found["start"], "ceiling": found["ceiling"], "sham": written[0].sham}
    estimates |= {"truth": written[0].truth, "wrong": written[0].wrong}
    return verdict, {name: estimate.value for name, estimate in estimates.items()}


def _values(points: list[Estimate], count: int) -> list[float | None]:
    """The values of a control, which files of older versions lack."""
    return [point.value for point in points] or [None] * count
