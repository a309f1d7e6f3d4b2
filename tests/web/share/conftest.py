"""A run whose folder, data and classes are named so that every leak and every unescaped letter would show."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens.runs.folder import RunFolder
from tests.reports.conftest import SCRIPT, hostile
from tests.training.tiny import tiny

__all__ = ["SCRIPT", "hostile"]
pytest.importorskip("fastapi", reason="a file to send is made from the page, which needs the extra `page`")


@dataclass(frozen=True)
class Opened:
    """A shared file, taken apart."""

    text: str
    note: dict[str, Any]
    answers: dict[str, Any]  # address → {status, body}
    pictures: dict[str, str]
    files: dict[str, str]


def taken_apart(file: Path) -> Opened:
    from conceptlens.web.share.pack import unpacked

    text = file.read_text("utf-8")
    blocks = dict(re.findall(r'<script type="application/json" id="share-(\w+)">(.*?)</script>', text, re.DOTALL))
    note, answers, pictures, files = (json.loads(blocks[name]) for name in ("note", "answers", "pictures", "files"))
    return Opened(text, note, {address: unpacked(packed) for address, packed in answers.items()}, pictures, files)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run with slots and a codebook."""
    return cl.train(tiny(tmp_path_factory.mktemp("secret-place") / "cells", training__epochs=2), quiet=True)


@pytest.fixture(scope="session")
def shared(run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All views of it, with eight images."""
    file = tmp_path_factory.mktemp("mail") / "cells.html"
    cl.api.share(run.path, file, n=8, quiet=True)
    return file
