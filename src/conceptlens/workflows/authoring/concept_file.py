"""Arranged concepts as a concept file."""

from collections.abc import Sequence
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import dump_yaml
from conceptlens.workflows.authoring.arrange import Axis

HEADER = "# Drafted with language models and filtered by `conceptlens concepts draft`; read it before you use it.\n"


def concept_yaml(axes: Sequence[Axis], classes: Sequence[str], *, name: str, about: str) -> str:
    """The file's text, checked by reading it back.

    Raises:
        UserError: It could not be read back.
    """
    groups: dict[str, Any] = {}
    for axis in axes:
        group: dict[str, Any] = {"kind": "exclusive" if axis.exclusive else "independent"}
        if axis.part:
            group["part"] = axis.part
        if axis.under:
            above, value = axis.under
            group["under"] = above if value is None else {above: value}
        group["values"] = {each.value: each.text for each in axis.values}
        groups[axis.name] = group
    table: dict[str, dict[str, Any]] = {}
    for class_name in classes:
        row: dict[str, Any] = {}
        for axis in axes:
            shown = [each.value for each in axis.values if class_name in each.classes]
            if shown:
                row[axis.name] = shown[0] if axis.exclusive else shown
            elif not axis.exclusive and all(class_name in each.without for each in axis.values):
                row[axis.name] = []  # known not to show any, which is more than unknown
        if row:
            table[class_name] = row
    raw = {"schema": 1, "name": name, "about": about, "classes": list(classes), "groups": groups, "by_class": table}
    text = HEADER + dump_yaml(raw)
    ConceptSet.from_yaml(text, where="the draft")
    return text
