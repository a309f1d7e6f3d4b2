"""Write docs/reference.md: every public Python name, and every key of a recipe with its default and its help.

Run `python scripts/reference_docs.py` after a change. A test checks that the page is current.
"""

import inspect
import re
import sys
import typing
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import conceptlens as cl
from conceptlens.core.registry import METHODS, REGULARIZERS
from conceptlens.core.signatures import Docstring
from conceptlens.recipes import schema

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from scripts.files_docs import listing  # noqa: E402

FILE = ROOT / "docs" / "reference.md"
SECTIONS = {"data": schema.DataConfig, "encoder": schema.EncoderConfig, "training": schema.TrainingConfig}
SECTIONS |= {"metrics": schema.MetricsConfig}
CONTRACTS = {  # what plug-ins and tests of theirs are made of
    "methods.contract": ("ConceptModel", "ConceptOutput"),
    "nn.setup": ("Setup",),
    "encoders.contract": ("Encoder", "Tokens", "TextEncoder"),
    "encoders": ("make_encoder", "make_text_encoder"),
    "nn.regularizers.regularizer": ("Regularizer", "Regularized"),
    "data.dataset": ("DataSource", "Examples"),
    "core.documents": ("Document", "Part"),
    "runs.opened": ("OpenedRun",),
    "testing": ("check_method", "check_vq_model"),
}
HEAD = """# Reference

This page is written by `scripts/reference_docs.py` from signatures and docstrings. The commands have a page of their
own: [the command line](command-line.md). `conceptlens recipe RECIPE` shows all keys of a recipe with their values.
"""


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", r"\|") for cell in cells) + " |"


def _type(annotation: Any) -> str:
    """A type as a reader would write it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:typing|collections\.abc|pathlib(?:\._local)?|numpy\.typing)\.", "", text)
    return re.sub(r"Literal\[(.*?)\]", r"\1", re.sub(r"\bconceptlens[\w.]*\.", "", text)).replace("NoneType", "None")


def _signature(function: Any) -> str:
    names = []
    for parameter in inspect.signature(function).parameters.values():
        star = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
        if parameter.name != "self":
            names.append(star + parameter.name + ("" if parameter.default is inspect.Parameter.empty else "=…"))
    return f"({', '.join(names)})"


def _parameters(function: Any) -> list[str]:
    doc = Docstring.of(function)
    rows = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "setup"):
            continue
        default = "" if parameter.default is inspect.Parameter.empty else f"`{parameter.default!r}`"
        kind = "" if parameter.annotation is inspect.Parameter.empty else f"`{_type(parameter.annotation)}`"
        rows.append(_row(f"`{parameter.name}`", kind, default, doc.args.get(parameter.name, "")))
    return ["| parameter | type | default | meaning |", "| --- | --- | --- | --- |", *rows, ""] if rows else []


def _python() -> list[str]:
    lines = ["## Python", ""]
    for name in sorted(set(dir(cl)), key=str.lower):
        if name.startswith("_") or name in ("cortex", "gig"):
            continue
        lines += _entry(f"conceptlens.{name}", getattr(cl, name))
    for module in (cl.gig, cl.cortex):
        functions = {n: f for n, f in vars(module).items() if inspect.isfunction(f) and f.__module__ == module.__name__}
        for name, function in functions.items():
            if not name.startswith("_"):
                lines += _entry(f"{module.__name__}.{name}", function)
    return lines


def _contracts() -> list[str]:
    """Classes that plug-ins derive from or are handed ([how](../CONTRIBUTING.md))."""
    lines = [
        "## For plug-ins",
        "",
        "What own methods, encoders, data and results are made of: [CONTRIBUTING](../CONTRIBUTING.md).",
        "",
    ]
    for module, names in CONTRACTS.items():
        for name in names:
            lines += _entry(f"conceptlens.{module}.{name}", getattr(import_module(f"conceptlens.{module}"), name))
    return lines


def _entry(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        lines = [f"### {name}", "", Docstring.of(value).about, ""]
        if is_dataclass(value):
            lines += ["```yaml", *listing(value, name=value.__name__), "```", ""]
        for method, function in vars(value).items():
            if method.startswith("_"):
                continue
            if isinstance(function, property | cached_property):
                inner: Any = function.fget if isinstance(function, property) else function.func
                lines.append(f"- `{method}`: {Docstring.of(inner).about}")
            elif isinstance(function, classmethod) or (
                inspect.isfunction(function) and method == function.__name__  # no default of a field
            ):
                inner = getattr(value, method)
                lines.append(f"- `{method}{_signature(inner)}`: {Docstring.of(inner).about}")
        return [*lines, ""]
    doc = Docstring.of(value)
    return [
        f"### {name}",
        "",
        f"`{name}{_signature(value)}`",
        "",
        f"{doc.about} {doc.more}".strip(),
        "",
        *_parameters(value),
    ]


def _default(field: "Field[Any]") -> str:
    if field.default is not MISSING:
        return f"`{field.default!r}`"
    if field.default_factory is MISSING:
        return "required"
    value = field.default_factory()
    return "" if is_dataclass(value) else f"`{value!r}`"


def _keys(section: str, kind: Any) -> list[str]:
    """Rows of a section's keys, those of its sections below them."""
    args, rows = Docstring.of(kind).args, []
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        nested = hints[field.name]
        help_text = args.get(field.name, "")
        rows.append(_row(f"`{section}.{field.name}`", f"`{_type(nested)}`", _default(field), help_text))
        if is_dataclass(nested):
            rows += _keys(f"{section}.{field.name}", nested)
    return rows


def _recipes() -> list[str]:
    header = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    args = Docstring.of(schema.Recipe).args
    top = [_row(f"`{name}`", "", "", text) for name, text in args.items() if name]
    lines = ["## Recipes", "", *header, *top, ""]
    for section, kind in SECTIONS.items():
        lines += [f"### {section}", "", Docstring.of(kind).about, "", *header, *_keys(section, kind), ""]
    stages = _keys("training.stages[]", schema.StageConfig)
    lines += ["### training.stages", "", *header, *stages, ""]
    for section, registry in (("method", METHODS), ("regularizer", REGULARIZERS)):
        classes: dict[Any, list[str]] = {}
        for name in registry.names():
            classes.setdefault(registry.get(name), []).append(name)
        for kind, names in classes.items():
            lines += [
                f"### {section}: {', '.join(names)}",
                "",
                Docstring.of(kind).about,
                "",
                *_parameters(kind.__init__),
            ]
    return lines


def page() -> str:
    return "\n".join([HEAD, *_python(), *_contracts(), *_recipes()]).rstrip() + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), "utf-8")
    print(f"written: {FILE}")
