"""Every notebook runs, from its first cell to its last, with fewer images and epochs."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from tests import ROOT

NOTEBOOKS = sorted((ROOT / "examples/notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[str]:
    book = json.loads(path.read_text("utf-8"))
    assert book["nbformat"] == 4
    assert all(not cell.get("outputs") for cell in book["cells"]), "clear the outputs: they make every change large"
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


def small(code: str) -> str:
    """The same with one epoch, and few and small images."""
    code = re.sub(r"data__limit=\d+", "data__limit=48, encoder__image_size=64", code)
    code = re.sub(r"\b(epochs|bootstrap)(=|: )\d+", r"\g<1>\g<2>1", code)
    code = code.replace("name: builtin/vit,", "name: builtin/vit, image_size: 64,").replace("limit: 400", "limit: 48")
    return re.sub(r"(samples_per_concept)=\d+", r"\1=8", code)


def execute(code: str, names: dict[str, Any]) -> None:
    """As a notebook does: the last expression is shown."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        shown = getattr(value, "_repr_png_", None) or getattr(value, "_repr_html_", lambda: None)
        assert value is None or shown() or not repr(value).startswith("<")


def test_there_are_eight_and_the_docs_name_each() -> None:
    page = (ROOT / "docs/notebooks.md").read_text("utf-8")
    assert len(NOTEBOOKS) == 8
    for path in NOTEBOOKS:
        assert f"examples/notebooks/{path.name}" in page
        for code in cells(path):
            ast.parse(code)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    for code in cells(path):
        execute(small(code), names)
