"""The picture of `refine.json`."""

from typing import TYPE_CHECKING

from conceptlens.core.figures import new_figure
from conceptlens.workflows.refine.document import Refinement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = {"before": "#666666", "after": "#0072b2", "control": "#d55e00"}


def refinement_figure(refinement: Refinement) -> "Figure":
    """Each measure on each side, with intervals."""
    figure = new_figure(8, 1.2 + 0.8 * len(refinement.rows))
    axes = figure.subplots()
    for place, row in enumerate(refinement.rows):
        for step, (side, value) in enumerate(row.values.items()):
            if value.value is None:
                continue
            at, color = place + 0.22 * (step - 1), COLORS[side]
            if value.interval is not None:
                axes.plot(value.interval, [at, at], color=color, linewidth=2)
            axes.plot([value.value], [at], "o", color=color, label=side if place == 0 else None)
    axes.set_yticks(range(len(refinement.rows)), [row.name for row in refinement.rows])
    axes.invert_yaxis()
    axes.set_title(", ".join([*refinement.replaced, *(f"without {each}" for each in refinement.dropped)]), fontsize=10)
    axes.legend(fontsize=8)
    return figure
