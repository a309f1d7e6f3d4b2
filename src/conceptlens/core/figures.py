"""Figures without a screen: made here, returned to the caller or encoded as PNG."""

import io
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float, *, dpi: int = 110) -> "Figure":
    """An empty figure of that size in inches, which no window manager knows of."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_class()(figsize=(width, height), dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@cache
def _figure_class() -> "type[Figure]":
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """Shown by a notebook, even where pyplot was not imported."""

        def _repr_png_(self) -> bytes:
            return png_bytes(self)

    return NotebookFigure


def png_bytes(figure: "Figure") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
