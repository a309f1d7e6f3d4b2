"""The figures of a comparison as SVG files of their own: rank by epoch, and accuracy against effective concepts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conceptlens.pages.charts import ticks
from conceptlens.pages.markup import Html, h

WIDTH, HEIGHT = 620, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 190, 34, 46
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#7f7f7f")  # Okabe and Ito
DASHES = (None, "6 3", "2 3", "8 3 2 3")
MARKS = {  # as many as dashes, each about (0, 0) and of about the same area
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "square": "M-3.5 -3.5h7v7h-7Z",
    "triangle": "M0 -5L4.8 3.6H-4.8Z",
    "diamond": "M0 -5L5 0L0 5L-5 0Z",
}
APART = 9  # pixels between points that would lie on each other
INK, FAINT = "#222222", "#dddddd"


@dataclass(frozen=True)
class Band:
    """A line with the span of its seeds: (x, mean, low, high)."""

    name: str
    points: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Point:
    """A method in a plane, with the interval of its height."""

    name: str
    x: float
    y: float
    interval: tuple[float, float] | None


class _Plane:
    """Axes: from numbers to places on the paper."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self.x_ticks, self.y_ticks = ticks(min(xs), max(xs), 6), ticks(min(ys), max(ys))

    def x(self, value: float) -> float:
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low)

    def drawn(self, title: str, x_label: str, y_label: str) -> list[Html]:
        parts = [_text(title, LEFT, 18, size=14)]
        for tick in self.y_ticks:
            parts.append(_path(f"M{LEFT} {self.y(tick):.1f}H{WIDTH - RIGHT}", stroke=FAINT))
            parts.append(_text(f"{tick:g}", LEFT - 6, self.y(tick) + 4, "end"))
        parts += [_text(f"{tick:g}", self.x(tick), HEIGHT - BOTTOM + 16, "middle") for tick in self.x_ticks]
        parts.append(_text(x_label, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle"))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(_text(y_label, 14, middle, "middle", transform=f"rotate(-90 14 {middle:.0f})"))
        return parts


def _path(d: str, **look: Any) -> Html:
    return h("path", d=d, **{"fill": "none", "stroke": INK, "stroke_width": 1, **look})


def _text(words: str, x: float, y: float, anchor: str = "start", size: int = 12, **more: Any) -> Html:
    return h("text", words, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, font_size=size, fill=INK, **more)


def _look(place: int) -> tuple[str, str | None]:
    return COLORS[place % len(COLORS)], DASHES[(place // len(COLORS)) % len(DASHES)]


def _mark(place: int, x: float, y: float) -> Html:
    mark = list(MARKS.values())[(place // len(COLORS)) % len(MARKS)]
    return h("path", d=mark, transform=f"translate({x:.1f} {y:.1f})", fill=_look(place)[0])


def _svg(parts: Sequence[Html], told: str, rows: int) -> str:
    height = max(HEIGHT, TOP + 18 * rows + 10)
    paper = h("rect", x=0, y=0, width=WIDTH, height=height, fill="#ffffff")
    drawing = h(
        "svg",
        h("title", told),
        paper,
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {height}",
        width=WIDTH,
        height=height,
        role="img",
        font_family="DejaVu Sans, Helvetica, Arial, sans-serif",
    )
    return str(drawing)


def _legend(names: Sequence[str], *, dots: bool) -> list[Html]:
    parts = []
    for place, name in enumerate(names):
        color, dash = _look(place)
        across, up = WIDTH - RIGHT + 12, TOP + 18 * place + 4
        if dots:
            parts.append(_mark(place, across + 11, up))
        else:
            parts.append(_path(f"M{across} {up}h22", stroke=color, stroke_width=2, stroke_dasharray=dash))
        shown = name if len(name) <= 24 else f"{name[:23]}…"
        parts.append(_text(shown, across + 28, up + 4, size=11))
    return parts


def curves(title: str, y_label: str, bands: Sequence[Band]) -> str:
    """Lines over epochs; the shade spans the lowest and the highest seed."""
    bands = [band for band in bands if band.points]
    if not bands:
        return ""
    values = [point for band in bands for point in band.points]
    plane = _Plane([0, *(point[0] for point in values)], [each for point in values for each in point[1:4]])
    parts = plane.drawn(title, "epoch", y_label)
    for place, band in enumerate(bands):
        color, dash = _look(place)
        upper = [f"{plane.x(x):.1f} {plane.y(high):.1f}" for x, _, _, high in band.points]
        lower = [f"{plane.x(x):.1f} {plane.y(low):.1f}" for x, _, low, _ in reversed(band.points)]
        parts.append(_path(f"M{'L'.join([*upper, *lower])}Z", stroke="none", fill=color, fill_opacity=0.15))
        line = "L".join(f"{plane.x(x):.1f} {plane.y(mean):.1f}" for x, mean, _, _ in band.points)
        parts.append(_path(f"M{line}", stroke=color, stroke_width=2, stroke_dasharray=dash))
    ends = "; ".join(f"{band.name}: {band.points[0][1]:.3g} to {band.points[-1][1]:.3g}" for band in bands)
    parts += _legend([band.name for band in bands], dots=False)
    return _svg(parts, f"{title}. {ends}.", len(bands))


def plane(title: str, x_label: str, y_label: str, points: Sequence[Point]) -> str:
    """Points with the intervals of their heights."""
    if not points:
        return ""
    heights = [each for point in points for each in (point.y, *(point.interval or ()))]
    axes = _Plane([0, *(point.x for point in points)], heights)
    parts = axes.drawn(title, x_label, y_label)
    for place, (point, x) in enumerate(zip(points, _side_by_side([axes.x(point.x) for point in points]), strict=True)):
        if point.interval:
            low, high = point.interval
            parts.append(_path(f"M{x:.1f} {axes.y(low):.1f}V{axes.y(high):.1f}", stroke=_look(place)[0]))
        parts.append(_mark(place, x, axes.y(point.y)))
    told = "; ".join(f"{point.name}: {point.y:.3g} at {point.x:.3g}" for point in points)
    parts += _legend([point.name for point in points], dots=True)
    return _svg(parts, f"{title}. {told}.", len(points))


def _side_by_side(places: Sequence[float]) -> list[float]:
    """The same places, those closer than a mark moved apart about their middle, so that each interval can be seen."""
    order = sorted(range(len(places)), key=lambda each: places[each])
    moved = list(places)
    while order:
        near = [order.pop(0)]
        while order and places[order[0]] - places[near[-1]] < APART:
            near.append(order.pop(0))
        step = min(APART, (WIDTH - LEFT - RIGHT) / len(near))
        reach = step * (len(near) - 1)
        first = sum(places[each] for each in near) / len(near) - reach / 2
        first = min(max(first, LEFT), WIDTH - RIGHT - reach)  # within the axes
        for number, each in enumerate(near):
            moved[each] = first + step * number
    return moved


def figures(data: Mapping[str, Any], primary: str) -> dict[str, str]:
    """Name → SVG, of one data set of `results.json`; those that nothing can be drawn in are left out."""
    rows = [row for block in data["blocks"] for row in block["rows"]]
    drawn = {
        f"rank-{kind}": curves(
            f"{kind.capitalize()} rank of the patches, {data['name']}",
            f"{kind} rank, validation images",
            [Band(row["name"], row["ranks"].get(f"rank.{kind}", [])) for row in rows],
        )
        for kind in ("effective", "published")
    }
    points = [
        Point(
            row["name"],
            row["numbers"]["effective_concepts"]["mean"],
            100 * row["measures"][primary]["mean"],
            None
            if row["measures"][primary]["interval"] is None
            else (100 * row["measures"][primary]["interval"][0], 100 * row["measures"][primary]["interval"][1]),
        )
        for row in rows
        if "effective_concepts" in row["numbers"] and primary in row["measures"] and not row.get("control_of")
    ]
    measure = primary.replace(".", " ").replace("_", " ").replace("auc", "AUC")
    drawn["effective-concepts"] = plane(
        f"{measure[0].upper()}{measure[1:]} against effective concepts, {data['name']}",
        "effective concepts per class",
        f"{measure}, %",
        points,
    )
    return {name: svg for name, svg in drawn.items() if svg}
