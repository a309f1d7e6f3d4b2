"""Where parts are expected, before and after training: the Gaussians of PF-CBM as ellipses of one deviation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.pages.markup import Html, h, join

SIDE = 220
WHERE = "model.grounding."


@dataclass(frozen=True)
class Ellipse:
    """In patches: the middle as row and column, half axes, and the turn of the first against the columns."""

    row: float
    column: float
    long: float
    short: float
    degrees: float


@dataclass(frozen=True)
class Prior:
    """P Gaussians on a grid."""

    grid: tuple[int, int]
    start: list[Ellipse]
    now: list[Ellipse]


def read_prior(weights: Path) -> Prior | None:
    """From the saved weights; None for a method without such a prior."""
    if not weights.exists():
        return None
    from safetensors import SafetensorError, safe_open

    manifest.check(weights)
    try:
        with safe_open(weights, "np") as file:
            keys = set(file.keys())
            if f"{WHERE}prior.means" not in keys or f"{WHERE}grid" not in keys:
                return None

            def values(name: str) -> Any:
                return file.get_tensor(WHERE + name).tolist() if WHERE + name in keys else None

            means, log_sigma, slant = values("prior.means"), values("prior.log_sigma"), values("prior.slant")
            first, scale, grid = values("prior.start_means"), values("prior.start_scale"), values("grid")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{weights}: cannot be read ({error}). Copy the run folder again.") from None
    if not all(grid):
        return None
    now = [
        _ellipse(mean, math.exp(each[0]), math.exp(each[-1]), slant[at] if slant else 0.0)
        for at, (mean, each) in enumerate(zip(means, log_sigma, strict=True))
    ]
    start = [_ellipse(mean, each[0], each[1], 0.0) for mean, each in zip(first, scale, strict=True)]
    return Prior((grid[0], grid[1]), start, now)


def _ellipse(mean: Sequence[float], rows: float, columns: float, slant: float) -> Ellipse:
    """Of the covariance of r' = r/σ_r + slant · c/σ_c and c' = c/σ_c, both of unit variance."""
    rr, cc, rc = rows**2 * (1 + slant**2), columns**2, -slant * rows * columns
    middle, half = (rr + cc) / 2, math.hypot((rr - cc) / 2, rc)
    return Ellipse(
        mean[0],
        mean[1],
        math.sqrt(middle + half),
        math.sqrt(max(middle - half, 0.0)),
        math.degrees(math.atan2(2 * rc, cc - rr)) / 2,
    )


def prior_drawing(prior: Prior, names: Sequence[str]) -> Html:
    """Two squares side by side; parts are named where they are expected."""
    moved = [math.hypot(a.row - b.row, a.column - b.column) for a, b in zip(prior.start, prior.now, strict=True)]
    told = (
        f"Each of {len(names)} parts has a place where it is expected: the middle and an ellipse of one deviation, on "
        f"the grid of {prior.grid[0]} × {prior.grid[1]} patches. Training moved the middles by "
        f"{sum(moved) / len(moved):.2g} patches on average, {max(moved):.2g} at most."
    )
    figures = [
        h("figure", _square(prior.grid, ellipses, names, words), h("figcaption", words))
        for ellipses, words in ((prior.start, "Before training"), (prior.now, "After training"))
    ]
    return join([h("p", told), h("div", figures, class_="cards")])


def _square(grid: tuple[int, int], ellipses: Sequence[Ellipse], names: Sequence[str], words: str) -> Html:
    down, across = SIDE / grid[0], SIDE / grid[1]
    drawn = [h("rect", x=0, y=0, width=SIDE, height=SIDE, fill="none", stroke="currentColor", stroke_opacity=0.4)]
    for each, name in zip(ellipses, names, strict=True):
        x, y = round(each.column * across, 1), round(each.row * down, 1)
        turned = f"rotate({each.degrees:.1f} {x} {y})"
        size = {"rx": round(each.long * across, 1), "ry": round(each.short * down, 1)}
        drawn.append(
            h("ellipse", cx=x, cy=y, **size, transform=turned, fill="none", stroke="currentColor", stroke_opacity=0.5)
        )
        drawn.append(h("circle", cx=x, cy=y, r=2.5, fill="currentColor"))
        drawn.append(h("text", name, x=x + 4, y=y - 3, font_size=11, fill="currentColor"))
    label = f"{words}: " + ", ".join(
        f"{name} at row {each.row:.1f}, column {each.column:.1f}" for each, name in zip(ellipses, names, strict=True)
    )
    return h("svg", drawn, viewBox=f"0 0 {SIDE} {SIDE}", width=SIDE, height=SIDE, role="img", aria_label=label)
