"""What a manifest notices: edits, bit rot, a kill at any moment."""

import json
import os
from pathlib import Path

import pytest

from conceptlens.core import manifest
from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import new_folder, read_json, read_yaml, write_bytes, write_json, write_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    manifest.begin(tmp_path)
    write_json(tmp_path / "card.json", {"classes": ["a", "b"]})
    write_text(tmp_path / "below" / "words.yaml", "one: 1\n")
    return tmp_path


def rot(path: Path) -> None:
    """Another byte, at the same time and of the same size."""
    status, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_copied_file_keeps_the_time_at_which_it_was_written(folder: Path, tmp_path: Path) -> None:
    card = folder / "card.json"
    written = card.stat().st_mtime
    os.utime(card, (0, 0))  # as a copy, which has a time of its own
    assert manifest.written_at(card) == pytest.approx(written)
    (folder / "other.json").write_text("{}")
    assert manifest.written_at(folder / "other.json") is None


def test_an_edit_is_refused_by_the_reader(folder: Path) -> None:
    assert read_json(folder / "card.json")["classes"] == ["a", "b"]
    (folder / "card.json").write_text('{"classes": ["b", "a"]}')
    with pytest.raises(UserError, match=r"card.json: this file was edited or damaged.*conceptlens rehash"):
        read_json(folder / "card.json")
    (folder / "below" / "words.yaml").write_text("one: 2\n")
    with pytest.raises(UserError, match=r"words.yaml: this file was edited"):
        read_yaml(folder / "below" / "words.yaml")
    found = manifest.changes(folder)
    assert found.changed == ("card.json", "below/words.yaml")
    manifest.rewrite(folder)
    assert not manifest.changes(folder)
    assert read_json(folder / "card.json")["classes"] == ["b", "a"]


def test_a_copy_with_other_times_is_compared_by_hash(folder: Path) -> None:
    os.utime(folder / "card.json", ns=(1, 1))
    assert read_json(folder / "card.json")["classes"] == ["a", "b"]
    assert not manifest.changes(folder)


def test_bit_rot_is_found_with_verify(folder: Path) -> None:
    rot(folder / "below" / "words.yaml")
    manifest.check(folder / "below" / "words.yaml")  # size and time are as they were
    with pytest.raises(UserError, match="edited or damaged"):
        manifest.check(folder / "below" / "words.yaml", always=True)
    with pytest.raises(UserError, match="edited or damaged"):
        manifest.check_all(folder)


def test_what_is_written_again_is_known(folder: Path) -> None:
    for number in range(3):
        write_json(folder / "card.json", {"number": number})
        assert read_json(folder / "card.json")["number"] == number
    with new_folder(folder / "model") as aside:
        (aside / "weights").write_bytes(b"123")
        write_json(aside / "model.json", {})
    assert not manifest.changes(folder)
    (folder / "model" / "weights").write_bytes(b"124")
    assert manifest.changes(folder).changed == ("model/weights",)


def test_a_kill_between_the_line_and_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line comes first: without the rename, the old content is still what was written."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_json(folder / "card.json", {"classes": []})
    assert read_json(folder / "card.json")["classes"] == ["a", "b"]


def test_a_line_that_was_cut_off_is_left_out(folder: Path) -> None:
    with (folder / manifest.NAME).open("ab") as file:
        file.write(b'\n{"file": "card.json", "si')
    assert read_json(folder / "card.json")["classes"] == ["a", "b"]
    write_json(folder / "card.json", {"classes": ["c"]})
    assert read_json(folder / "card.json")["classes"] == ["c"]
    json.loads((folder / manifest.NAME).read_bytes().splitlines()[-1])


@pytest.mark.parametrize(
    "line", [b'{"file": [], "size": 1, "mtime": 1, "sha256": "x"}', b"[]", b"[" * 100_000, b"\xff"]
)
def test_a_line_that_is_none_is_left_out(folder: Path, line: bytes) -> None:
    with (folder / manifest.NAME).open("ab") as file:
        file.write(b"\n" + line)
    assert read_json(folder / "card.json")["classes"] == ["a", "b"]
    assert not manifest.changes(folder)


def test_a_file_that_no_manifest_speaks_of_is_taken_as_it_is(folder: Path, tmp_path: Path) -> None:
    (folder / "mine.json").write_text("{}")
    assert read_json(folder / "mine.json") == {}
    assert manifest.changes(folder).added == ("mine.json",)


def test_the_nearest_manifest_counts(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    manifest.begin(inner)
    write_bytes(inner / "file", b"1")
    assert b"inner" not in (folder / manifest.NAME).read_bytes()
    assert not manifest.changes(folder)
    assert not manifest.changes(inner)


def test_another_programs_manifest_is_no_manifest(tmp_path: Path) -> None:
    (tmp_path / manifest.NAME).write_text("{}")
    with pytest.raises(UserError, match="not a manifest"):
        manifest.check(tmp_path / "x")


def test_what_was_written_and_is_gone_is_not_done_without(folder: Path) -> None:
    file = folder / "card.json"
    manifest.refuse_gone(file)
    manifest.refuse_gone(folder / "never written")
    file.unlink()
    with pytest.raises(DamagedError, match="was written and is gone"):
        manifest.refuse_gone(file)
    file.mkdir()
    with pytest.raises(DamagedError, match="rehash"):
        manifest.refuse_gone(file)
    manifest.rewrite(folder)  # the user's word
    manifest.refuse_gone(file)
