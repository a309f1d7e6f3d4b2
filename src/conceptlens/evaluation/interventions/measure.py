"""Interventions on a whole split: `trust/interventions.json` of a run."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from conceptlens.concepts import UNKNOWN
from conceptlens.core.documents import Document, TableRow
from conceptlens.evaluation.interventions.ask_next import NextQuestion, ask_next, least_sure
from conceptlens.evaluation.interventions.counterfactual import THRESHOLD, Counterfactual, counterfactual
from conceptlens.evaluation.interventions.curve import Alone, Curve, each_alone, follow_policy, summarize
from conceptlens.evaluation.interventions.flip import Flips, flips
from conceptlens.evaluation.interventions.order import POLICIES
from conceptlens.evaluation.interventions.units import make_units, with_concepts
from conceptlens.evaluation.interventions.value_map import cross_map
from conceptlens.evaluation.leakage import probe
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ASKED = 20  # images for which the next question is written out


class Interventions(Document):
    """The file."""

    remedy = "Measure it again with `conceptlens interventions RUN`."

    run: str
    split: str
    images: int
    by: str  # what is corrected in one go: groups, concepts or parts
    to: str  # how a label is written into the bottleneck
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

    def curve(self, policy: str) -> Curve:
        return next(each for each in self.curves if each.policy == policy)

    def text(self) -> str:
        lines = [f"{self.run}: {self.images} {self.split} images, {len(self.units)} {self.by} to correct"]
        lines.append(f"  accuracy with nothing corrected  {self.start.text()}")
        lines.append(f"  label → class ceiling            {self.ceiling.text()}")
        for curve in self.curves:
            lines.append(
                f"  by {curve.policy:14} all corrected {curve.points[-1].text()}, area {curve.area.text()}, "
                f"all wrong {curve.wrong[-1].text()}"
            )
        best = sorted(self.alone, key=lambda each: -(each.corrected.value or 0))
        if best:
            lines.append(f"  best single correction           {best[0].unit}: {best[0].corrected.text()}")
            lines.append(f"  worst single correction          {best[-1].unit}: {best[-1].corrected.text()}")
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
        return "\n".join([*lines, *self.notes])

    def table(self) -> list[TableRow]:
        """Accuracy by policy and number of corrected units, to the truth and to a wrong answer."""
        return [
            {"policy": curve.policy, "corrected": count, **right.row("accuracy"), **wrong.row("wrong")}
            for curve in self.curves
            for count, (right, wrong) in enumerate(zip(curve.points, curve.wrong, strict=True))
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
    to: str = "quantile",
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
        to: A label becomes a `quantile` of the scores or the `mean` score of images with that label.
        orders: Policies.
        classes: Of the counterfactual test; all by default.
        on: Units or concepts of the counterfactual test; the two most influential of each class by default.
        instead: The class whose mean scores it puts in; all others by default.
        threshold: Of its images.
        seed: Of folds, random orders and wrong answers.
        note: Says something to the person who waits.
    """
    units, fold = make_units(readout.concepts, by), assign_folds(readout.units, seed=seed)
    maps = cross_map(readout, fold, to)
    labeled = bool((readout.truth != UNKNOWN).any())
    notes = []
    start = readout.hits(readout.logits(readout.bottleneck))
    columns = {"start": start}
    curves: list[Curve] = []
    if labeled:
        ceiling = probe.hits(readout, probe.label_features(readout.truth), fold)
        columns |= {"ceiling": ceiling, "headroom": ceiling - start}
        for policy in orders:
            note(f"corrections by {policy}")
            curves.append(summarize(policy, follow_policy(readout, maps, units, policy, seed=seed), bootstrap))
    else:
        notes.append("No concept of these images has a label, so nothing can be corrected to the truth.")
    if readout.bypass:
        notes.append(f"The class is also reached by {readout.bypass}, which no correction touches.")
    found = bootstrap.means(columns)
    nothing = Estimate(value=None)
    note("counterfactuals, flips and questions")
    choice = with_concepts(units, readout.concepts, on or ())
    asked = least_sure(readout, ASKED)
    return Interventions(
        run=run,
        split=split,
        images=len(readout),
        by=by,
        to=to,
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
    )
