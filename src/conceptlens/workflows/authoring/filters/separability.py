"""Concepts that tell no classes apart: shown by every class, or by none."""

from collections.abc import Sequence

from conceptlens.workflows.authoring.candidates import Candidate


def tells_nothing_apart(candidates: Sequence[Candidate], classes: Sequence[str]) -> dict[int, str]:
    """Candidates that all classes share, or that no class is left to show; none where the table says nothing.

    A candidate that the table leaves open for some classes may yet tell them apart, if it is denied of none: then it is
    removed only when every class shows it.
    """
    found: dict[int, str] = {}
    every = set(classes)
    for at, each in enumerate(candidates):
        if every and len(every) > 1 and each.classes >= every:
            found[at] = f"all {len(every)} classes show it, so it tells none apart"
        elif not each.classes and each.without >= every and every:
            found[at] = "no class shows it, so it tells none apart"
    return found


def indistinct(candidates: Sequence[Candidate], classes: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of classes that no concept is said to tell apart."""
    shown = {name: frozenset(at for at, each in enumerate(candidates) if name in each.classes) for name in classes}
    by_pattern: dict[frozenset[int], list[str]] = {}
    for name in classes:
        by_pattern.setdefault(shown[name], []).append(name)
    return [(group[0], other) for group in by_pattern.values() for other in group[1:]]
