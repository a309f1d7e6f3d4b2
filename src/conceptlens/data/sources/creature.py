"""How a creature of the data set `shapes` is drawn: polygons for its parts, placed by a pose, from back to front.

Outlines are in units of the creature, x towards its head and y down, and are made once. Drawing one is an affine map
and a few dozen filled polygons on a canvas that is `FINE` times as fine as the image.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]  # (V, 2)
Color = tuple[int, int, int]

PARTS = ("tail", "legs", "wing", "antennae", "body", "head")  # from back to front
PALETTE: dict[str, Color] = {
    "red": (222, 50, 52),
    "yellow": (246, 202, 40),
    "green": (52, 166, 82),
    "blue": (46, 102, 224),
}
FINE = 3  # odd, so that the center of a pixel is the center of a fine pixel
UNIT = 0.36  # of the image's side, at scale 1
MARGIN = 0.02  # of the image's side, left free at its edge
SCALES = (0.6, 1.1)  # of a part that stands by itself, relative to the creature's own scale
TRIES = 12

_RIM, _PATTERN = 0.55, 0.4  # brightness of a part's rim and of the body's pattern, relative to the part's own color
_INK: Color = (45, 42, 56)
_WHITE: Color = (250, 250, 250)


class Pose(NamedTuple):
    """How a creature stands in the image."""

    x: float  # 0 to 1: its place in the room that is left
    y: float
    scale: float
    turn: float  # degrees
    stretch: float  # width against height
    mirrored: bool


class Stroke(NamedTuple):
    """A filled polygon of a part."""

    outline: Points
    part: str
    color: Color


class Figure(NamedTuple):
    """The polygons of a part, and the same ones grown by the rim that sets a part off from its neighbors."""

    fills: tuple[Points, ...]
    rims: tuple[Points, ...]


def _oval(x: float, y: float, rx: float, ry: float, *, turn: float = 0.0, square: float = 2.0, n: int = 28) -> Points:
    """An ellipse; for `square` > 2 a superellipse, which is a box with round corners."""
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.sign(points) * np.abs(points) ** (2 / square) * (rx, ry)
    return np.asarray(points @ _rotation(turn) + (x, y))


def _rotation(degrees: float) -> Points:
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return np.array([[cos, sin], [-sin, cos]])


def _grow(points: Points, by: float) -> Points:
    """The polygon with every edge moved outwards."""
    after = np.roll(points, -1, axis=0)
    edge = after - points
    turns_right = np.sum(points[:, 0] * after[:, 1] - after[:, 0] * points[:, 1]) > 0
    normal = np.stack([edge[:, 1], -edge[:, 0]], axis=1) / np.linalg.norm(edge, axis=1, keepdims=True)
    normal = normal if turns_right else -normal
    before = np.roll(normal, 1, axis=0)
    # The exact mitre of a sharp corner would run far out, hence the floor.
    mitre = np.maximum(1 + np.sum(normal * before, axis=1, keepdims=True), 0.6)
    return np.asarray(points + by * (normal + before) / mitre)


def _band(points: Points, left: float, right: float) -> Points:
    """What lies between two vertical lines of a convex polygon."""
    for sign, limit in ((1.0, left), (-1.0, right)):
        kept: list[Points] = []
        for a, b in zip(points, np.roll(points, -1, axis=0), strict=True):
            inside_a, inside_b = sign * (a[0] - limit), sign * (b[0] - limit)
            if inside_a >= 0:
                kept.append(a)
            if inside_a * inside_b < 0:
                kept.append(a + (b - a) * inside_a / (inside_a - inside_b))
        points = np.array(kept)
    return points


def _figure(*fills: Points) -> Figure:
    return Figure(fills, tuple(_grow(fill, 0.045) for fill in fills))


def _polygon(*corners: tuple[float, float]) -> Points:
    return np.array(corners)


def _legs(foot: float) -> Figure:
    ankle, toe = foot - 0.14, foot - 0.12
    return _figure(
        *(
            _polygon(
                (x - 0.09, 0.15),
                (x + 0.09, 0.15),
                (x + 0.09, ankle),
                (x + 0.24, toe),
                (x + 0.24, foot),
                (x - 0.09, foot),
            )
            for x in (-0.28, 0.18)
        )
    )


_NECK = _polygon((0.0, -0.12), (0.55, -0.42), (0.66, -0.18), (0.1, 0.2))
_BODY = {
    "round": _oval(0, 0, 0.53, 0.43, n=36),
    "square": _oval(0, 0, 0.47, 0.41, square=7, n=48),
    "triangular": _polygon((0.0, -0.54), (0.62, 0.42), (-0.62, 0.42)),
}
_BODIES = {shape: _figure(_NECK, body) for shape, body in _BODY.items()}
_HEADS = {
    "round": _figure(_oval(0.64, -0.30, 0.27, 0.27)),
    "square": _figure(_oval(0.64, -0.30, 0.25, 0.25, square=8, n=40)),
    "triangular": _figure(_polygon((0.64, -0.68), (0.98, -0.06), (0.30, -0.06))),
}
_TAILS = {
    "round": _figure(_polygon((-0.3, 0.0), (-0.75, -0.10), (-0.75, 0.02), (-0.3, 0.15)), _oval(-0.83, -0.05, 0.2, 0.2)),
    "pointed": _figure(_polygon((-0.25, -0.2), (-1.08, -0.14), (-0.25, 0.26))),
    "forked": _figure(
        _polygon(
            (-0.3, -0.05), (-0.6, -0.04), (-1.02, -0.38), (-0.78, 0.05), (-1.02, 0.44), (-0.6, 0.14), (-0.3, 0.18)
        )
    ),
}  # fmt: skip
_LEGS = {"short": _legs(0.70), "long": _legs(0.98)}
_WING = _figure(_oval(-0.26, -0.58, 0.25, 0.48, turn=-28))
_VEIN = _polygon((-0.10, -0.26), (-0.46, -0.88), (-0.04, -0.30))
_ANTENNAE = (
    _polygon((0.58, -0.45), (0.44, -0.90), (0.51, -0.91), (0.66, -0.46)),
    _polygon((0.63, -0.46), (0.79, -0.91), (0.86, -0.90), (0.72, -0.45)),
    _oval(0.47, -0.93, 0.08, 0.08, n=14),
    _oval(0.84, -0.93, 0.08, 0.08, n=14),
)
_EYE = (_oval(0.70, -0.30, 0.09, 0.09, n=16), _oval(0.72, -0.30, 0.05, 0.05, n=12))
_DOTS = {
    "round": [(-0.36, 0.0), (-0.17, -0.22), (0.1, -0.22), (0.32, 0.06), (-0.03, 0.03), (-0.2, 0.25), (0.14, 0.27)],
    "square": [(-0.31, -0.24), (-0.05, -0.24), (-0.18, 0.0), (0.07, 0.0), (0.31, 0.0), (-0.31, 0.24), (0.2, 0.25)],
    "triangular": [(0, -0.25), (-0.14, 0), (0.14, 0), (-0.36, 0.27), (-0.12, 0.27), (0.12, 0.27), (0.36, 0.27)],
}
_PATTERNS: dict[tuple[str, str], tuple[Points, ...]] = {
    **{(shape, "plain"): () for shape in _BODY},
    **{(s, "striped"): tuple(_band(_BODY[s], x, x + 0.11) for x in (-0.40, -0.18, 0.04, 0.26)) for s in _BODY},
    **{(shape, "dotted"): tuple(_oval(x, y, 0.075, 0.075, n=14) for x, y in _DOTS[shape]) for shape in _BODY},
}


def strokes(look: Mapping[str, str], light: float = 1.0) -> list[Stroke]:
    """The polygons of a creature, from back to front.

    Args:
        look: The value of each group of the concept set `shapes`; for wing and antennae, "present" or anything else.
        light: Brightness of its colors.
    """
    made: list[Stroke] = []

    def add(part: str, figure: Figure, color_name: str) -> Color:
        color = _shade(PALETTE[color_name], light)
        made.extend(Stroke(rim, part, _shade(color, _RIM)) for rim in figure.rims)
        made.extend(Stroke(fill, part, color) for fill in figure.fills)
        return color

    add("tail", _TAILS[look["tail shape"]], look["tail colour"])
    add("legs", _LEGS[look["leg length"]], look["leg colour"])
    if look["wing"] == "present":
        color = add("wing", _WING, look["wing colour"])
        made.append(Stroke(_VEIN, "wing", _shade(color, _RIM)))
    if look["antennae"] == "present":
        made.extend(Stroke(outline, "antennae", _INK) for outline in _ANTENNAE)
    color = add("body", _BODIES[look["body shape"]], look["body colour"])
    made.extend(
        Stroke(outline, "body", _shade(color, _PATTERN))
        for outline in _PATTERNS[look["body shape"], look["body pattern"]]
    )
    add("head", _HEADS[look["head shape"]], look["head colour"])
    made.extend(Stroke(outline, "head", tone) for outline, tone in zip(_EYE, (_WHITE, _INK), strict=True))
    return made


def _shade(color: Color, by: float) -> Color:
    red, green, blue = (min(255, round(channel * by)) for channel in color)
    return red, green, blue


def place(made: list[Stroke], pose: Pose, size: int) -> list[list[float]]:
    """Each stroke's outline on the fine canvas of an image of that side, as x0, y0, x1, y1, …; all of it fits."""
    side = size * FINE
    points = np.concatenate([stroke.outline for stroke in made])
    points = points * (-pose.stretch if pose.mirrored else pose.stretch, 1 / pose.stretch)
    points = points @ _rotation(pose.turn) * (UNIT * pose.scale * side)
    low, high = points.min(axis=0), points.max(axis=0)
    room = side * (1 - 2 * MARGIN) - (high - low)
    points += MARGIN * side - low + room * np.where(room > 0, (pose.x, pose.y), 0.5)
    flat = points.ravel().tolist()
    ends = np.cumsum([2 * len(stroke.outline) for stroke in made]).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def scatter(made: list[Stroke], pose: Pose, size: int, chance: np.random.Generator) -> list[list[float]]:
    """The same with each part by itself, anywhere in the image and at a scale of its own.

    The largest part is placed first. Of `TRIES` places of a part, the one is taken whose box overlaps least with those
    of the parts before: most parts stand alone.
    """
    found: dict[int, list[float]] = {}
    taken: list[Points] = []
    for part in ("body", "legs", "tail", "wing", "antennae", "head"):  # the drawn order of strokes stays
        rows = [row for row, stroke in enumerate(made) if stroke.part == part]
        if not rows:
            continue
        strokes_of = [made[row] for row in rows]
        scale = pose.scale * chance.uniform(*SCALES)
        best, least = None, np.inf
        for _ in range(TRIES):
            x, y = chance.random(2).tolist()
            outlines = place(strokes_of, pose._replace(x=x, y=y, scale=scale), size)
            corners = np.concatenate(outlines).reshape(-1, 2)
            box = np.array([corners.min(0), corners.max(0)])
            overlap = sum(_overlap(box, other) for other in taken)
            if overlap < least:
                best, least, best_box = outlines, overlap, box
            if not overlap:
                break
        assert best is not None
        taken.append(best_box)
        found |= dict(zip(rows, best, strict=True))
    return [found[row] for row in range(len(made))]


def _overlap(one: Points, other: Points) -> float:
    """The common area of two boxes, each [[x0, y0], [x1, y1]]."""
    sides = np.minimum(one[1], other[1]) - np.maximum(one[0], other[0])
    return float(np.prod(np.maximum(sides, 0)))
