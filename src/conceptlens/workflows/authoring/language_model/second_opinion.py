"""What a second model objects to: a class loses the feature, and a concept goes when no class is left to show it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from conceptlens.workflows.authoring.candidates import Candidate
from conceptlens.workflows.authoring.language_model.replies import Opinion


def objections(
    candidates: Sequence[Candidate], by_class: Mapping[str, Sequence[tuple[str, Opinion]]]
) -> tuple[list[Candidate], dict[int, str], list[str]]:
    """Apply a second model's opinions.

    Args:
        candidates: All of them.
        by_class: For each class the candidates it was asked about, by name, with its opinion.

    Returns:
        The candidates less the classes it denies; removals by position; and what it denied of single classes, in words.
    """
    denied: dict[str, set[str]] = {}
    unseen: dict[str, list[str]] = {}
    naming: dict[str, list[str]] = {}
    why: dict[str, str] = {}
    notes: list[str] = []
    for class_name, opinions in by_class.items():
        for name, opinion in opinions:
            if opinion.visible and opinion.holds and not opinion.names_class:
                continue
            why.setdefault(name, opinion.why)
            if not opinion.holds:
                denied.setdefault(name, set()).add(class_name)
            if not opinion.visible:
                unseen.setdefault(name, []).append(class_name)
            if opinion.names_class:
                naming.setdefault(name, []).append(class_name)
    left: list[Candidate] = []
    removed: dict[int, str] = {}
    for at, each in enumerate(candidates):
        reason = f" ({why[each.name]})" if why.get(each.name) else ""
        # Asked about the same concept for several classes it may waver: most must object.
        if 2 * len(unseen.get(each.name, [])) > len(each.classes):
            removed[at] = f"it cannot be seen in a still image{reason}"
        elif 2 * len(naming.get(each.name, [])) > len(each.classes):
            removed[at] = f"it names a class instead of a feature{reason}"
        gone = denied.get(each.name, set()) & each.classes
        if gone and gone == each.classes:
            removed.setdefault(at, f"it holds for none of the classes said to show it{reason}")
        elif gone:
            notes.append(f"{each.name}: no longer said of {', '.join(sorted(gone))}{reason}")
            each = replace(each, classes=each.classes - gone, without=each.without | gone)
        left.append(each)
    return left, removed, notes
