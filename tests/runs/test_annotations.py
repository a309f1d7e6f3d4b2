"""Names, groups and notes: the later line counts, null keeps a field, an empty text removes it."""

from pathlib import Path

import pytest

from conceptlens.core.errors import UserError
from conceptlens.runs.annotations import FILE, annotate, read_annotations


def test_what_is_said_last_counts(tmp_path: Path) -> None:
    assert read_annotations(tmp_path)["node"] == {}
    annotate(tmp_path, "node", ["layer2/3"], author="Ann", name="wing", group="bird")
    annotate(tmp_path, "node", ["layer2/3", "layer2/4"], author="Bob", name=" left\twing ")
    nodes = read_annotations(tmp_path)["node"]
    assert (nodes["layer2/3"].name, nodes["layer2/3"].group, nodes["layer2/3"].author) == ("left wing", "bird", "Bob")
    assert nodes["layer2/4"].group == ""
    assert nodes["layer2/3"].time.endswith("Z")


def test_an_empty_text_removes(tmp_path: Path) -> None:
    annotate(tmp_path, "code", ["7"], author="Ann", name="edge")
    assert annotate(tmp_path, "code", ["7"], author="Ann", name="")["code"] == {}
    assert len((tmp_path / FILE).read_text("utf-8").splitlines()) == 2  # what was said stays on file


@pytest.mark.parametrize("author", ["", "=1+1", "-", "<b>"])
def test_an_author_has_a_name(tmp_path: Path, author: str) -> None:
    with pytest.raises(UserError, match="author"):
        annotate(tmp_path, "code", ["7"], author=author, name="edge")


def test_nothing_said_and_damaged_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a name, a group or a note"):
        annotate(tmp_path, "code", ["7"], author="Ann")
    (tmp_path / FILE).write_text('{"kind": "code"}\n', "utf-8")
    with pytest.raises(UserError, match="line 1 is damaged"):
        read_annotations(tmp_path)
