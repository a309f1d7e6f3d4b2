"""Arranged concepts as a concept file."""

from collections.abc import Sequence
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import dump_yaml
from conceptlens.workflows.authoring.arrange import DraftedGroup

HEADER = "# Drafted with language models and filtered by `conceptlens concepts draft`; read it before you use it.\n"


def concept_yaml(groups: Sequence[DraftedGroup], classes: Sequence[str], *, name: str, about: str) -> str:
    """The file's text, checked by reading it back.

    Raises:
        UserError: It could not be read back.
    """
    written: dict[str, Any] = {}
    for group in groups:
        entry: dict[str, Any] = {"kind": "exclusive" if group.exclusive else "independent"}
        if group.part:
            entry["part"] = group.part
        if group.under:
            above, value = group.under
            entry["under"] = above if value is None else {above: value}
        entry["values"] = {each.value: each.text for each in group.values}
        written[group.name] = entry
    table: dict[str, dict[str, Any]] = {}
    for class_name in classes:
        row: dict[str, Any] = {}
        for group in groups:
            shown = [each.value for each in group.values if class_name in each.classes]
            if shown:
                row[group.name] = shown[0] if group.exclusive else shown
            elif not group.exclusive and all(class_name in each.without for each in group.values):
                row[group.name] = []  # known not to show any, which is more than unknown
        if row:
            table[class_name] = row
    raw = {"schema": 1, "name": name, "about": about, "classes": list(classes), "groups": written, "by_class": table}
    text = HEADER + dump_yaml(raw)
    ConceptSet.from_yaml(text, where="the draft")
    return text
