"""Pieces: each is made once, in order, and a failed one is named while the others stay."""

import os
from pathlib import Path

import pytest

from conceptlens.core.engines.pieces import ALONE, Workers, exit_code
from conceptlens.core.errors import UserError

HERE = "tests.core.engines.tasks"


def test_pieces_are_files_and_are_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "src")]))
    said: list[str] = []
    two = Workers(2)
    assert not two.alone
    assert ALONE.alone
    with pytest.raises(UserError, match=r"piece 2 of 3 .*the same command goes on"):
        two.make(3, f"{HERE}:piece", {"bad": 1}, tmp_path, said.append)
    assert sorted(said) == ["piece 1 of 3: done", "piece 2 of 3: failed", "piece 3 of 3: done"]
    files = two.make(3, f"{HERE}:piece", {"bad": -1}, tmp_path, said.append)
    assert said[3:] == ["piece 2 of 3: done"]
    assert [file.read_text() for file in files] == ["0", "1", "2"]


def test_what_is_wrong_is_said_and_answered_by_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise UserError("no such shard")

    assert exit_code(refuse, local=True) == 1
    assert "no such shard" in capsys.readouterr().err
    assert exit_code(lambda: None, local=False) == 0
    with pytest.raises(UserError, match="--jobs"):
        Workers(0)
