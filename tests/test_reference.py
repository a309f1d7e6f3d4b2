"""Every public name and every key of a recipe has an entry in docs/reference.md, with help."""

import re

from torch import nn

import conceptlens as cl
from scripts.reference_docs import FILE, page
from tests import ROOT


def test_the_reference_is_current_and_nothing_is_without_help() -> None:
    text = page()
    assert FILE.read_text("utf-8") == text, "run `python scripts/reference_docs.py`"
    without = [line for line in text.splitlines() if re.fullmatch(r"\| .*\| +\|", line)]
    assert not without


def test_names_in_documents_and_notebooks_exist() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/notebooks/*.ipynb")]
    known = set(dir(cl)) | {"api"}
    for file in files:
        text = file.read_text("utf-8")
        assert set(re.findall(r"(?<![\w./])cl\.(\w+)", text)) <= known, file
        for method in re.findall(r"(?<![\w.])model\.(\w+)\(", text):
            assert hasattr(cl.TrainedModel, method) or hasattr(nn.Module, method), (file, method)
