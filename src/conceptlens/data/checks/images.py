"""What the pixels give away: files that cannot be read, unusual ones and what is done about them, copies."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from conceptlens.data.checks.duplicates import near_copies, same_pixels
from conceptlens.data.checks.findings import EXAMPLES, Finding, Level, counted
from conceptlens.data.checks.survey import Survey
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import ImageFacts

SMALL_SIDE = 32


def image_findings(source: DataSource, survey: Survey) -> Iterator[Finding]:
    """Unreadable images, sizes, and kinds of image that are handled."""
    ids = source.examples.ids
    if survey.unreadable:
        reasons = [survey.unreadable[index] for index in sorted(survey.unreadable)]
        message = f"{counted(len(reasons), 'image')} cannot be read. Replace or remove them."
        yield Finding("error", "unreadable", message, len(reasons), tuple(reasons[:EXAMPLES]))

    def which(test: Callable[[ImageFacts], bool]) -> list[str]:
        return [ids[index] for index, facts in enumerate(survey.facts) if facts is not None and test(facts)]

    def handled(level: Level, code: str, names: list[str], what: str) -> Iterator[Finding]:
        if names:
            message = f"{counted(len(names), 'image')} {what}."
            yield Finding(level, code, message, len(names), tuple(names[:EXAMPLES]))

    readable = [facts for facts in survey.facts if facts is not None]
    sizes = {(facts.width, facts.height) for facts in readable}
    if len(sizes) > 1:
        low, high = min(sizes, key=np.prod), max(sizes, key=np.prod)
        ratios = [width / height for width, height in sizes]
        message = (
            f"The images have {len(sizes):,} sizes, from {low[0]} × {low[1]} to {high[0]} × {high[1]} pixels; "
            f"width to height {min(ratios):.2f} to {max(ratios):.2f}. All are resized to one square."
        )
        yield Finding("info", "ragged-sizes", message, len(sizes))
    blank = [ids[index] for index in np.flatnonzero(survey.blank)]
    hint = "nothing can be seen in them. Leave them out, or set data.window if they have more than 8 bits"
    yield from handled("warning", "blank", blank, f"equally bright from edge to edge: {hint}")
    small = which(lambda facts: min(facts.width, facts.height) < SMALL_SIDE)
    yield from handled("warning", "small-images", small, f"smaller than {SMALL_SIDE} pixels on a side")
    gray = which(lambda facts: facts.gray)
    if len(gray) == len(readable):
        yield from handled("info", "gray", gray, "in gray; read as RGB with equal channels")
    else:
        what = "in gray among colour images; read as RGB, but a model may take the difference for a sign"
        yield from handled("warning", "gray", gray, what)
    deep = which(lambda facts: facts.deep)
    scaled = {
        "file": "the window that a DICOM file names, else the image's own darkest and brightest pixel",
        "range": "the image's own darkest and brightest pixel",
        "percentile": "the image's own 1st and 99th percentile",
    }
    chosen = source.window if isinstance(source.window, str) else None
    ends = scaled[chosen] if chosen else "the ends that data.window gives"
    what = f"with more than 8 bits; gray is scaled by {ends}, colour cut to 8 bits"
    yield from handled("info", "16-bit", deep, what)
    yield from handled("info", "alpha", which(lambda facts: facts.alpha), "with transparency; laid over white")
    opaque = which(lambda facts: facts.opaque)
    yield from handled("info", "opaque-alpha", opaque, "with an alpha channel that is opaque everywhere; it is dropped")
    yield from handled("info", "exif-rotated", which(lambda facts: facts.rotated), "turned by a tag; turned upright")
    yield from handled(
        "info",
        "frames",
        which(lambda facts: facts.frames > 1),
        "with several frames; the first is read, or the one that a table names",
    )


@dataclass(frozen=True)
class Copies:
    """Positions of images that are there more than once."""

    equal: list[npt.NDArray[np.int64]]  # sets with equal pixels, each of two or more
    near: npt.NDArray[np.int64]  # (P, 2): pairs that are nearly equal, one image of each set standing for all

    def sets(self, n: int) -> list[list[int]]:
        """Sets of two or more of n images that are equal or nearly so, directly or through others."""
        links = [(int(same[0]), int(other)) for same in self.equal for other in same[1:]]
        links += [(int(a), int(b)) for a, b in self.near]
        graph = coo_array((np.ones(len(links)), tuple(np.array(links, dtype=np.int64).reshape(-1, 2).T)), shape=(n, n))
        labels = connected_components(graph, directed=False)[1]
        together: dict[int, list[int]] = {}
        for position, label in enumerate(labels.tolist()):
            together.setdefault(label, []).append(position)
        return [members for members in together.values() if len(members) > 1]


def find_copies(survey: Survey) -> Copies:
    """Equal and nearly equal images of a survey; blank ones are no copies of each other."""
    usable = np.array([facts is not None for facts in survey.facts], dtype=bool) & ~survey.blank
    equal = same_pixels(survey.digest, usable)
    for same in equal:
        usable[same[1:]] = False
    return Copies(equal, near_copies(survey.gradient, survey.detail, survey.brightness, usable))


def copy_findings(source: DataSource, copies: Copies, side_of: npt.NDArray[np.str_]) -> Iterator[Finding]:
    """Copies within a side of the split, across sides, and copies whose classes contradict each other.

    Args:
        source: The images.
        copies: Those that are there more than once.
        side_of: The side of the split of each image, (N,); "" if it is on none.
    """
    ids, labels = source.examples.ids, source.examples.labels
    sets, pairs = copies.equal, copies.near

    def across(members: npt.NDArray[np.int64]) -> bool:
        return len({side for side in side_of[members].tolist() if side}) > 1

    def shown(groups: list[npt.NDArray[np.int64]]) -> tuple[str, ...]:
        """Three of each, of different sides first."""
        firsts = (np.unique(side_of[group], return_index=True)[1] for group in groups)
        ordered = (
            [*group[np.sort(first)], *np.delete(group, first)] for group, first in zip(groups, firsts, strict=True)
        )
        names = (" = ".join(_placed(ids[index], str(side_of[index])) for index in group[:3]) for group in ordered)
        return tuple(names)[:EXAMPLES]

    torn = [same for same in sets if across(same)]
    if torn:
        message = (
            f"{counted(len(torn), 'image')} found on two sides of the split, pixel for pixel: the test is too easy."
        )
        yield Finding("error", "duplicates-across-splits", message, len(torn), shown(torn))
    quarrel = [same for same in sets if (labels[same] != labels[same[0]]).any()]
    if quarrel:
        message = f"{counted(len(quarrel), 'image')} found twice or more with different classes."
        yield Finding("error", "contradictions", message, len(quarrel), shown(quarrel))
    inside = [same for same in sets if not across(same)]
    if inside:
        message = f"{counted(len(inside), 'image')} found twice or more, pixel for pixel, on one side of the split."
        yield Finding("warning", "duplicates", message, len(inside), shown(inside))
    for divided, level, code, where in (
        (True, "warning", "near-duplicates-across-splits", "on different sides of the split: the test may be too easy"),
        (False, "info", "near-duplicates", "on one side of the split"),
    ):
        found = [pair for pair in pairs if across(pair) is divided]
        if found:
            hint = (
                " A group column (patient, lesion) keeps them together; `--copies FILE.csv` writes one."
                if divided and source.examples.group is None
                else ""
            )
            message = f"{counted(len(found), 'pair')} of nearly equal images {where}.{hint}"
            yield Finding(level, code, message, len(found), shown(found))  # type: ignore[arg-type]


def _placed(name: str, side: str) -> str:
    return f"{name} ({side})" if side else name
