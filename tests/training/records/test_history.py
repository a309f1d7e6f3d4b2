"""history.jsonl: appended, cut back to its place, never a line that is not JSON."""

import json
from pathlib import Path

import pytest

from conceptlens.training.records.history import History


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_lines_as_they_were_given(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.add(epoch=1, split="train", loss=0.5)
    history.add(epoch=1, split="val", note="größer")
    found = lines(history.path)
    assert [{key: value for key, value in line.items() if key != "time"} for line in found] == [
        {"epoch": 1, "split": "train", "loss": 0.5},
        {"epoch": 1, "split": "val", "note": "größer"},
    ]
    assert all(isinstance(line["time"], float) for line in found)


def test_a_resumed_run_drops_what_its_state_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first = History(path)
    first.add(step=1)
    kept = first.flush()
    assert kept == path.stat().st_size
    first.add(step=2)
    with path.open("a") as file:
        file.write('{"step": 3, "lo')  # torn by a kill
    again = History(path, keep_bytes=kept)
    again.add(step=2)
    assert [line["step"] for line in lines(path)] == [1, 2]


def test_a_new_run_starts_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("left over\n")
    History(path)
    assert path.read_bytes() == b""


def test_time_goes_on_over_sessions(tmp_path: Path) -> None:
    assert 100 <= History(tmp_path / "history.jsonl", seconds=100.0).seconds < 110


def test_what_is_not_a_number_is_not_written(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    with pytest.raises(ValueError):
        history.add(loss=float("nan"))
    assert history.flush() == 0
