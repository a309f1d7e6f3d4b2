"""Is a subgroup of images worse off? A finding if its accuracy is significantly below that of the others.

The tests are those of `subgroups`, corrected for all comparisons; and the group's interval must lie below the accuracy
of all images.
"""

from collections.abc import Mapping, Sequence

from conceptlens.evaluation.subgroups.outcomes import ACCURACY
from conceptlens.evaluation.subgroups.subgroups import FEW, LEVEL, GroupMeasure, GroupResult
from conceptlens.evaluation.verdict import Numbers, Verdict

Rows = list[tuple[GroupResult, GroupMeasure]]


def _tested(groups: Sequence[GroupResult]) -> Rows:
    """Accuracy of each group that has enough images to be tested, the worst first."""
    rows = [(group, row) for group in groups if (row := group.measure(ACCURACY)) is not None and row.p is not None]
    return sorted(rows, key=lambda pair: 1.0 if pair[1].value.value is None else pair[1].value.value)


def subgroup_numbers(groups: Sequence[GroupResult], overall: float | None) -> Numbers:
    """The accuracy of the worst group, and of all images."""
    rows = _tested(groups)
    return {"worst": rows[0][1].value.value, "overall": overall} if rows else {"worst": None, "overall": None}


def judge_subgroups(groups: Sequence[GroupResult], overall: float | None, skipped: Mapping[str, str]) -> Verdict:
    """The verdict.

    Args:
        groups: Every group of every column.
        overall: Accuracy of all images.
        skipped: Columns that make no groups, and why.
    """
    rows = _tested(groups)
    if overall is None or not rows:
        few = f"no subgroup has {FEW} images, or patients with equally many images, and as many others"
        lacks = few if groups else _no_columns(skipped)
        return Verdict(outcome="unmeasured", reason=f"Subgroups cannot be compared: {lacks}.")
    group, worst = rows[0]
    told = (
        f"Accuracy is {worst.value.text()} where {group.column} is {group.group!r}, the worst of {len(rows)} groups, "
        f"and {overall:.3f} overall."
    )
    harmed = [each for each, row in rows if _below(row, overall)]
    if not harmed:
        return Verdict(outcome="pass", reason=f"{told} No group is significantly below.")
    named = ", ".join(f"{each.column} {each.group!r}" for each in harmed[:3])
    return Verdict(outcome="finding", reason=f"{told} Significantly below: {named}.")


def _no_columns(skipped: Mapping[str, str]) -> str:
    left = "; ".join(f"{name}: {why}" for name, why in skipped.items())
    told = f" ({left})" if left else ""
    return f"no column of metadata makes subgroups{told}; add columns such as age, sex or site to the data's table"


def _below(row: GroupMeasure, overall: float) -> bool:
    significant = row.p is not None and row.p < LEVEL and (row.difference.value or 0.0) < 0
    return significant and row.value.high is not None and row.value.high < overall
