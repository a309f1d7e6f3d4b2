"""The page of a run."""

from pathlib import Path
from typing import Any

from conceptlens.files import write_text
from conceptlens.runs import RunFolder


def render_report(run: RunFolder) -> Path:
    write_text(run.path / "report.html", "<!doctype html><title>run</title>")
    return run.path / "report.html"


def write_report(run: RunFolder, session: Any) -> None:
    render_report(run)
