"""Small drawings in SVG: colors come from the style sheet, so that they follow light, dark and print."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from conceptlens.pages.markup import Html, h, join

WIDTH, HEIGHT = 440, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 22, 38
MOST_POINTS = 400  # a line of thousands of epochs is thinned


@dataclass(frozen=True)
class Series:
    """One line of a chart; `look` is its color and dash in the style sheet, 1 to 5."""

    name: str
    points: Sequence[tuple[float, float]]
    look: int
    faint: bool = False  # a thin line without dots


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.end - self.start) * ((value - self.low) / span if span else 0.5)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers that cover low to high: steps of 1, 2 or 5 times a power of ten."""
    if not high - low > 1e-9 * max(abs(low), abs(high)):  # equal but for rounding: a mean of equal numbers
        high = low + (abs(low) or 1.0)
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(12, 2 - math.floor(math.log10(step)))
    return [round(position * step, digits) for position in range(first, last + 1)]


def line_chart(
    title: str, series: Sequence[Series], *, y_range: tuple[float, float] | None = None, mark: float | None = None
) -> Html:
    """Lines over epochs with a legend; `mark` draws the chosen epoch. Lines without points are left out."""
    drawn = [line for line in series if line.points]
    if not drawn:
        return Html("")
    across = [x for line in drawn for x, _ in line.points]
    values = [y for line in drawn for _, y in line.points]
    y_ticks = ticks(*(y_range or (min(values), max(values))))
    last = max(across)
    x_ticks = [tick for tick in ticks(0, last, 6) if tick == int(tick) and tick <= last]
    x = _Scale(min(0.0, *across), last, LEFT, WIDTH - RIGHT)
    y = _Scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP)
    digits = max(0, min(6, -math.floor(math.log10(y_ticks[1] - y_ticks[0]) + 1e-9)))
    parts = [_rule(f"M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}", "grid") for tick in y_ticks]
    parts += [_label(f"{tick:.{digits}f}", LEFT - 6, y(tick) + 4, "end") for tick in y_ticks]
    parts += [_label(f"{tick:g}", x(tick), HEIGHT - BOTTOM + 16, "middle") for tick in x_ticks]
    parts.append(_label("epoch", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "middle"))
    if mark is not None:
        side, shift = ("end", -5) if x(mark) > WIDTH / 2 else ("start", 5)
        parts.append(_rule(f"M{x(mark):.1f} {TOP - 8}V{HEIGHT - BOTTOM}", "mark"))
        parts.append(_label(f"chosen: epoch {mark:g}", x(mark) + shift, TOP - 8, side))
    for line in drawn:
        parts += _line(line, x, y)
    svg = h(
        "svg",
        parts,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}. {_in_words(drawn)}",
        class_="chart",
    )
    legend = h("ul", (h("li", _swatch(line), line.name) for line in drawn), class_="legend")
    return h("figure", h("figcaption", title), legend, svg)


def _line(line: Series, x: _Scale, y: _Scale) -> list[Html]:
    step = math.ceil(len(line.points) / MOST_POINTS)
    kept = [point for place, point in enumerate(line.points) if place % step == 0 or place == len(line.points) - 1]
    places = [(f"{x(across):.1f}", f"{y(up):.1f}") for across, up in kept]
    path = h(
        "path",
        d="M" + "L".join(" ".join(place) for place in places),
        class_=f"line look{line.look}{' faint' * line.faint}",
    )
    if line.faint or len(places) > 60:
        return [path]
    return [path, *(h("circle", cx=a, cy=b, r=2.6, class_=f"dot look{line.look}") for a, b in places)]


def _swatch(line: Series) -> Html:
    faint = " faint" * line.faint
    return h(
        "svg",
        h("path", d="M1 5H25", class_=f"line look{line.look}{faint}"),
        viewBox="0 0 26 10",
        class_="swatch",
        aria_hidden="true",
    )


def _rule(path: str, name: str) -> Html:
    return h("path", d=path, class_=name)


def _label(text: str, x: float, y: float, anchor: str) -> Html:
    return h("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _in_words(drawn: Sequence[Series]) -> str:
    """What the chart shows, for those who hear it."""
    told = []
    for line in drawn:
        (first, start), (last, end) = line.points[0], line.points[-1]
        told.append(f"{line.name}: {start:.3g} at epoch {first:.3g}, {end:.3g} at epoch {last:.3g}.")
    return " ".join(told)


def interval_bar(value: float, interval: tuple[float, float] | None, chance: float | None) -> Html:
    """A number between 0 and 1 with its interval; a tick marks chance. It repeats what the table says in figures."""
    parts = [h("path", d="M0 8H100", class_="track")]
    if chance is not None:
        parts.append(h("path", d=f"M{100 * chance:.1f} 2V14", class_="tick"))
    if interval:
        low, high = (100 * min(max(bound, 0.0), 1.0) for bound in interval)
        parts.append(
            h("rect", x=f"{low:.1f}", y=3, width=f"{max(high - low, 0.8):.1f}", height=10, rx=1.5, class_="band")
        )
    parts.append(
        h("circle", cx=f"{100 * min(max(value, 0.0), 1.0):.1f}", cy=8, r=2 if interval else 2.6, class_="dot look1")
    )
    return h("svg", parts, viewBox="-4 0 108 16", class_="interval", aria_hidden="true")


def share_bar(share: float, even: float | None = None, *, empty: bool = False) -> Html:
    """A horizontal bar, `share` of the full width; a tick where an even share would end."""
    parts = [h("rect", x=0, y=1, width=f"{100 * share:.2f}", height=8, class_="bar warn" if empty else "bar")]
    if even is not None:
        parts.append(h("path", d=f"M{100 * even:.2f} 0V10", class_="tick"))
    return h("svg", parts, viewBox="0 0 100 10", preserveAspectRatio="none", class_="share", aria_hidden="true")


def signed_bar(value: float, scale: tuple[float, float]) -> Html:
    """A bar to the right (speaks for) or to the left (speaks against) of zero, on a scale that holds zero."""
    place = _Scale(*scale, 2, 98)
    ends = sorted((place(0.0), place(value)))
    look = "bar" if value >= 0 else "bar against"
    bar = h("rect", x=f"{ends[0]:.1f}", y=2, width=f"{ends[1] - ends[0]:.1f}", height=8, class_=look)
    zero = h("path", d=f"M{place(0.0):.1f} 0V12", class_="tick")
    return h("svg", join([bar, zero]), viewBox="0 0 100 12", class_="signed", aria_hidden="true")


def heat(share: float, *, right: bool) -> str:
    """A cell's background. Half transparent at most: the text on it keeps its contrast in light and in dark.

    The root makes small shares visible: one image in ten taken for another class matters.
    """
    color = "0,114,178" if right else "213,94,0"
    return f"background:rgba({color},{0.55 * math.sqrt(share):.2f})"
