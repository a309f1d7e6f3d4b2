"""Chunks: each is computed once, in order, and a failed one is named while the results of the others stay."""

import os
from pathlib import Path

import pytest

from conceptlens.core import plugins
from conceptlens.core.engines.workers import IN_PROCESS, Workers, exit_code
from conceptlens.core.errors import UserError

HERE = "tests.core.engines.tasks"


def test_chunks_are_files_and_are_not_computed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "src")]))
    notes: list[str] = []
    two = Workers(2)
    assert not two.in_process
    assert IN_PROCESS.in_process
    with pytest.raises(UserError, match=r"chunk 2 of 3 .*the same command goes on"):
        two.compute(3, f"{HERE}:write_chunk", {"bad": 1}, tmp_path, notes.append)
    assert sorted(notes) == ["chunk 1 of 3: done", "chunk 2 of 3: failed", "chunk 3 of 3: done"]
    files = two.compute(3, f"{HERE}:write_chunk", {"bad": -1}, tmp_path, notes.append)
    assert notes[3:] == ["chunk 2 of 3: done"]
    assert [file.read_text() for file in files] == ["0", "1", "2"]


def test_code_that_the_user_allowed_may_run_in_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`audit RUN --allow-code own.py --jobs 2` was refused by its own processes."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "src")]))
    monkeypatch.setattr(plugins, "_allowed", set())
    code = tmp_path / "own.py"
    code.write_text("def build(): ...\n")
    with pytest.raises(UserError, match="chunk 1 of 1"):
        Workers(2).compute(1, f"{HERE}:load_code", {"code": f"{code}:build"}, tmp_path / "chunks", print)
    plugins.allow_code(code)
    Workers(2).compute(1, f"{HERE}:load_code", {"code": f"{code}:build"}, tmp_path / "chunks", print)


def test_an_error_is_printed_and_becomes_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> None:
        raise UserError("no such shard")

    assert exit_code(refuse, local=True) == 1
    assert "no such shard" in capsys.readouterr().err
    assert exit_code(lambda: None, local=False) == 0
    with pytest.raises(UserError, match="--jobs"):
        Workers(0)
