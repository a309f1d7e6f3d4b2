"""The figures of `trust/`: drawn from the documents alone."""

from typing import TYPE_CHECKING, Any

from conceptlens.core.figures import new_figure
from conceptlens.stats.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from conceptlens.evaluation.interventions.measure import Interventions
    from conceptlens.evaluation.leakage.leakage import Leakage

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
SHOWN = 12  # concepts in the right half of the leakage figure


def _band(axes: Any, points: list[Estimate], color: str, **look: Any) -> None:
    xs = [x for x, point in enumerate(points) if point.value is not None]
    axes.plot(xs, [points[x].value for x in xs], color=color, **look)
    spread = [(x, *points[x].interval) for x in xs if points[x].interval is not None]  # type: ignore[misc]
    if spread:
        places, low, high = zip(*spread, strict=True)
        axes.fill_between(places, low, high, color=color, alpha=0.12, linewidth=0)


def intervention_figure(result: "Interventions") -> "Figure":
    """Accuracy against corrected units, right and wrong; and what each unit does alone. The ceiling is in both."""
    figure = new_figure(11, 4.4)
    left, right = figure.subplots(1, 2)
    for place, curve in enumerate(result.curves):
        color = COLORS[place % len(COLORS)]
        _band(left, curve.points, color, label=f"by {curve.policy}", marker="o", markersize=3)
        _band(left, curve.wrong, color, linestyle=":", linewidth=1)
    if result.ceiling.value is not None:
        left.axhline(result.ceiling.value, color="black", linestyle="--", linewidth=1, label="label → class ceiling")
    left.set_xlabel(f"{result.by} corrected (dotted: set to a wrong answer)")
    left.set_ylabel("class accuracy")
    left.set_ylim(0, 1.02)
    left.set_title(f"{result.run or 'interventions'}: {result.images} images", fontsize=10)
    left.legend(fontsize=8, loc="lower left")
    shown = sorted(result.alone, key=lambda each: each.corrected.value or 0)[-30:]
    _bars(right, [each.unit for each in shown], [each.corrected for each in shown])
    right.axvline(0, color="black", linewidth=0.8)
    if result.headroom.value is not None:
        right.axvline(result.headroom.value, color="black", linestyle="--", linewidth=1)
    right.set_xlabel("change of accuracy when corrected alone (dashed: room to the ceiling)")
    return figure


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
