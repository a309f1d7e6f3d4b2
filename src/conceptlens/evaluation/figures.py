"""The figures of `trust/`: drawn from the documents alone."""

from itertools import cycle
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from conceptlens.core.figures import new_figure
from conceptlens.stats.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from conceptlens.evaluation.interventions.measure import Interventions
    from conceptlens.evaluation.leakage.leakage import Leakage

BLURRED = ("#56b4e9", "#cc79a7", "#e69f00")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
SHOWN = 12  # concepts in the right half of the leakage figure


def _line(axes: Any, points: list[Estimate], color: str, **look: Any) -> None:
    xs = [x for x, point in enumerate(points) if point.value is not None]
    axes.plot(xs, [points[x].value for x in xs], color=color, **look)


def _band(axes: Any, points: list[Estimate], color: str, **look: Any) -> None:
    """A line with its intervals."""
    xs = [x for x, point in enumerate(points) if point.value is not None]
    _line(axes, points, color, **look)
    spread = [(x, *points[x].interval) for x in xs if points[x].interval is not None]  # type: ignore[misc]
    if spread:
        places, low, high = zip(*spread, strict=True)
        axes.fill_between(places, low, high, color=color, alpha=0.12, linewidth=0)


def intervention_figure(result: "Interventions") -> "Figure":
    """True corrections beside their controls; the orders compared; and what each unit does alone."""
    figure = new_figure(15, 4.6)
    left, middle, right = figure.subplots(1, 3)
    ceiling = result.ceiling.value
    for main in sorted(result.curves, key=lambda curve: curve.policy != "chance")[:1]:
        _band(left, main.points, COLORS[0], label="told the truth", marker="o", markersize=3)
        _band(left, main.sham, COLORS[2], label="own answers confirmed (sham)", linestyle="--")
        _band(left, main.wrong, COLORS[1], label="told wrong answers", marker="o", markersize=3)
        _band(left, main.wrong_labels, "#888888", label="labels alone, told wrong answers", linestyle=":")
        left.set_title(f"{result.run or 'run'}: {result.to}, by {main.policy}", fontsize=10)
    for each, color in zip(result.blurred, cycle(BLURRED), strict=False):
        _line(left, each.curve.points, color, label=f"truth, blurred to {each.pixels} px", linestyle="-.")
    for place, curve in enumerate(result.curves):
        _line(middle, curve.points, COLORS[place % len(COLORS)], label=f"by {curve.policy}", marker="o", markersize=3)
    middle.set_title("orders of true corrections", fontsize=10)
    for axes in (left, middle):
        if ceiling is not None:
            axes.axhline(ceiling, color="black", linestyle="--", linewidth=1, label="label → class ceiling")
        axes.set_xlabel(f"{result.by} told")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_ylabel("class accuracy")
        if axes.lines:
            axes.legend(fontsize=8, loc="best")
    left.set_ylim(0, 1.02)
    shown = sorted(result.alone, key=lambda each: each.corrected.value or 0)[-30:]
    _bars(right, [each.unit for each in shown], [each.corrected for each in shown])
    right.axvline(0, color="black", linewidth=0.8)
    if result.headroom.value is not None:
        right.axvline(result.headroom.value, color="black", linestyle="--", linewidth=1)
    right.set_title("corrected alone (dashed: room to the ceiling)", fontsize=10)
    right.set_xlabel("change of class accuracy")
    right.locator_params(axis="x", nbins=5)  # labels as -0.025 are wide
    figure.suptitle(_corrections_in_words(result), fontsize=10)
    return figure


def _corrections_in_words(result: "Interventions") -> str:
    verdict = result.verdict
    if verdict.outcome == "unmeasured":
        return shorten(verdict.reason, 150)
    return f"corrections: {verdict.outcome} ({result.images} images)"


def leakage_figure(result: "Leakage") -> "Figure":
    """Accuracies beside the label → class ceiling; and the concepts with most class information beyond their label."""
    figure = new_figure(13, 5.2)
    left, right = figure.subplots(1, 2)
    named = [
        each for each in result.findings if each.name.strip().startswith(("accuracy", "class from", "of a bottleneck"))
    ]
    named = [each for each in named if ", less" not in each.name][::-1]
    readers = {name: each for name, each in result.without.items() if name.startswith("a reader")}
    names = [*readers, *(each.name.strip() for each in named)]
    _bars(left, names, [*readers.values(), *(each.estimate for each in named)])
    ceiling = result.finding("class from true labels (ceiling)").estimate.value
    if ceiling is not None:
        left.axvline(ceiling, color="black", linestyle="--", linewidth=1)
    left.axvline(result.chance, color="#888888", linestyle=":", linewidth=1)
    left.set_xlim(0, 1.02)
    left.set_xlabel("accuracy (dashed: label → class ceiling, dotted: chance)")
    left.set_title(f"{result.run or 'leakage'}: {result.images} images; verdict: {result.verdict.outcome}", fontsize=10)
    worst = sorted(result.concepts, key=lambda each: each.beyond_label.value or 0)[-SHOWN:]
    _bars(right, [each.concept for each in worst], [each.beyond_label for each in worst], COLORS[1])
    for place, each in enumerate(worst):
        if each.chance is not None and each.chance.permuted.interval is not None:
            low, high = each.chance.permuted.interval
            right.barh(place, high - low, left=low, color="#888888", height=0.9, alpha=0.5)
    right.axvline(0, color="black", linewidth=0.8)
    right.set_xlabel("nats about the class beyond the own label (gray: permuted)")
    return figure


def _bars(axes: Any, names: list[str], values: list[Estimate], color: str = COLORS[0]) -> None:
    axes.barh(range(len(names)), [each.value or 0 for each in values], color=color, height=0.65)
    for place, each in enumerate(values):
        if each.interval is not None:
            axes.plot(each.interval, [place, place], color="black", linewidth=1)
    axes.set_yticks(range(len(names)), names, fontsize=8)
