"""The picture of `refine.json`."""

import io

from conceptlens.workflows.refine.document import Refinement

COLOURS = {"before": "#666666", "after": "#0072b2", "control": "#d55e00"}


def refinement_figure(found: Refinement) -> bytes:
    """Each measure on each side, with intervals."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 + 0.8 * len(found.rows)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, row in enumerate(found.rows):
        for step, (side, value) in enumerate(row.values.items()):
            if value.value is None:
                continue
            at, colour = place + 0.22 * (step - 1), COLOURS[side]
            if value.interval is not None:
                axes.plot(value.interval, [at, at], color=colour, linewidth=2)
            axes.plot([value.value], [at], "o", color=colour, label=side if place == 0 else None)
    axes.set_yticks(range(len(found.rows)), [row.name for row in found.rows])
    axes.invert_yaxis()
    axes.set_title(", ".join([*found.replaced, *(f"without {each}" for each in found.dropped)]), fontsize=10)
    axes.legend(fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
