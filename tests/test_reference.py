"""Every public name, every key of a recipe, every file and its keys have an entry in the reference, with help."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

from torch import nn

import conceptlens as cl
from scripts import files_docs
from scripts.reference_docs import FILE, page
from tests import ROOT


def test_the_reference_is_current_and_nothing_is_without_help() -> None:
    text = page()
    assert FILE.read_text("utf-8") == text, "run `python scripts/reference_docs.py`"
    without = [line for line in text.splitlines() if re.fullmatch(r"\| .*\| +\||- `[^`]+`: ?", line)]
    assert not without


def test_names_in_documents_and_notebooks_exist() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/notebooks/*.ipynb")]
    known = set(dir(cl)) | {"api"}
    for file in files:
        text = file.read_text("utf-8")
        assert set(re.findall(r"(?<![\w./])cl\.(\w+)", text)) <= known, file
        for method in re.findall(r"(?<![\w.])model\.(\w+)\(", text):
            assert hasattr(cl.TrainedModel, method) or hasattr(nn.Module, method), (file, method)


def test_the_page_of_files_is_current_and_a_run_holds_nothing_else(evidence_run: Path) -> None:
    assert files_docs.FILE.read_text("utf-8") == files_docs.page(), "run `python scripts/files_docs.py`"
    for path in evidence_run.rglob("*"):
        name = path.relative_to(evidence_run).as_posix()
        if path.is_file() and not path.name.startswith("."):
            schemas = [schema for file, _, _, schema in files_docs.about("bottleneck") if fnmatch(name, file)]
            assert schemas, f"{name}: describe it in scripts/files_docs.py"
            if path.suffix == ".json" and schemas[0]:
                known = schemas[0] if isinstance(schemas[0], dict) else files_docs.keys(schemas[0])
                assert set(json.loads(path.read_text("utf-8"))) <= {*known, "schema"}, name
