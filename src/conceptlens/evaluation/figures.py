"""The pictures of `trust/`: drawn from the files alone."""

import io
from typing import Any

from conceptlens.evaluation.interventions.measure import Interventions
from conceptlens.evaluation.leakage.leakage import Leakage
from conceptlens.stats.estimates import Estimate

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
SHOWN = 12  # concepts in the right half of the leakage figure


def _figure(width: float, height: float, columns: int) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _band(axes: Any, points: list[Estimate], colour: str, **look: Any) -> None:
    xs = [x for x, point in enumerate(points) if point.value is not None]
    axes.plot(xs, [points[x].value for x in xs], color=colour, **look)
    spread = [(x, *points[x].interval) for x in xs if points[x].interval is not None]  # type: ignore[misc]
    if spread:
        places, low, high = zip(*spread, strict=True)
        axes.fill_between(places, low, high, color=colour, alpha=0.12, linewidth=0)


def intervention_figure(found: Interventions) -> bytes:
    """Accuracy against corrected units, right and wrong; and what each unit does alone. The ceiling is in both."""
    figure, (left, right) = _figure(11, 4.4, 2)
    for place, curve in enumerate(found.curves):
        colour = COLOURS[place % len(COLOURS)]
        _band(left, curve.points, colour, label=f"by {curve.policy}", marker="o", markersize=3)
        _band(left, curve.wrong, colour, linestyle=":", linewidth=1)
    if found.ceiling.value is not None:
        left.axhline(found.ceiling.value, color="black", linestyle="--", linewidth=1, label="label → class ceiling")
    left.set_xlabel(f"{found.by} corrected (dotted: set to a wrong answer)")
    left.set_ylabel("class accuracy")
    left.set_ylim(0, 1.02)
    left.set_title(f"{found.run or 'interventions'}: {found.images} images", fontsize=10)
    left.legend(fontsize=8, loc="lower left")
    shown = sorted(found.alone, key=lambda each: each.corrected.value or 0)[-30:]
    _bars(right, [each.unit for each in shown], [each.corrected for each in shown])
    right.axvline(0, color="black", linewidth=0.8)
    if found.headroom.value is not None:
        right.axvline(found.headroom.value, color="black", linestyle="--", linewidth=1)
    right.set_xlabel("change of accuracy when corrected alone (dashed: room to the ceiling)")
    return _png(figure)


def leakage_figure(found: Leakage) -> bytes:
    """Accuracies beside the label → class ceiling; and the concepts that say most beyond their label."""
    figure, (left, right) = _figure(13, 5.2, 2)
    named = [
        each for each in found.findings if each.name.strip().startswith(("accuracy", "class from", "of a bottleneck"))
    ]
    named = [each for each in named if ", less" not in each.name][::-1]
    _bars(left, [each.name.strip() for each in named], [each.estimate for each in named])
    ceiling = found.finding("class from true labels (ceiling)").estimate.value
    if ceiling is not None:
        left.axvline(ceiling, color="black", linestyle="--", linewidth=1)
    left.axvline(found.chance, color="#888888", linestyle=":", linewidth=1)
    left.set_xlim(0, 1.02)
    left.set_xlabel("accuracy (dashed: label → class ceiling, dotted: chance)")
    left.set_title(f"{found.run or 'leakage'}: {found.images} images", fontsize=10)
    worst = sorted(found.concepts, key=lambda each: each.beyond_label.value or 0)[-SHOWN:]
    _bars(right, [each.concept for each in worst], [each.beyond_label for each in worst], COLOURS[1])
    for place, each in enumerate(worst):
        if each.chance is not None and each.chance.twins.interval is not None:
            low, high = each.chance.twins.interval
            right.barh(place, high - low, left=low, color="#888888", height=0.9, alpha=0.5)
    right.axvline(0, color="black", linewidth=0.8)
    right.set_xlabel("nats about the class in a score beyond its own label (grey: of the run's twins)")
    return _png(figure)


def _bars(axes: Any, names: list[str], values: list[Estimate], colour: str = COLOURS[0]) -> None:
    axes.barh(range(len(names)), [each.value or 0 for each in values], color=colour, height=0.65)
    for place, each in enumerate(values):
        if each.interval is not None:
            axes.plot(each.interval, [place, place], color="black", linewidth=1)
    axes.set_yticks(range(len(names)), names, fontsize=8)
