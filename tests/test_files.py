"""Files are whole or not there, and reading runs no code."""

import json
from pathlib import Path

import pytest

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import (
    LONG_YAML,
    dump_yaml,
    new_folder,
    parse_yaml,
    read_json,
    read_text,
    remove_leftovers,
    stored,
    write_bytes,
    write_json,
    write_text,
)
from conceptlens.core.upgrades import SCHEMA


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.json"
    write_bytes(file, b"old")

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("conceptlens.core.files.os.fsync", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_bytes(file, b"new")
    assert file.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_folder_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    def killed() -> None:
        with new_folder(tmp_path / "state") as aside:
            (aside / "half").write_text("x")
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed()
    assert list(tmp_path.iterdir()) == []
    for text in ("first", "second"):
        with new_folder(tmp_path / "state") as aside:
            (aside / "file").write_text(text)
    assert (tmp_path / "state" / "file").read_text() == "second"
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".state.12.tmp").mkdir()
    (tmp_path / ".state.12.tmp" / "x").write_text("")
    (tmp_path / ".a.json.12.tmp").write_text("")
    (tmp_path / "kept").write_text("")
    remove_leftovers(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_json_has_a_schema_and_no_nan(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": None})
    assert json.loads((tmp_path / "a.json").read_text()) == {"schema": SCHEMA, "x": None}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "b.json", {"x": float("nan")})
    assert not (tmp_path / "b.json").exists()
    (tmp_path / "c.json").write_text('{"schema": 9}')
    with pytest.raises(UserError, match="schema 9"):
        read_json(tmp_path / "c.json")
    (tmp_path / "d.json").write_text("{")
    with pytest.raises(UserError, match="expected JSON"):
        read_json(tmp_path / "d.json")


def test_a_name_that_ends_in_gz_is_compressed(tmp_path: Path) -> None:
    plain, packed, again = tmp_path / "rows.json", tmp_path / "rows.json.gz", tmp_path / "again.json.gz"
    rows = {"schema": SCHEMA, "rows": [0.1, "µ", None]}
    write_json(packed, rows)
    write_json(again, rows)
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    assert packed.read_bytes() == again.read_bytes()
    assert read_json(packed) == rows
    assert stored(plain) == packed
    write_text(plain, "[1]")
    assert stored(plain) == plain
    assert read_text(plain) == "[1]"
    packed.write_text("[1]", "utf-8")
    with pytest.raises(UserError, match="expected JSON"):
        read_json(packed)


def test_yaml_keeps_words_and_understands_exponents() -> None:
    read = parse_yaml("{yes: no, on: off, flag: true, rate: 1e-4, n: 3, day: 2020-01-01}", where="x")
    assert read == {"yes": "no", "on": "off", "flag": True, "rate": 1e-4, "n": 3, "day": "2020-01-01"}


def test_yaml_takes_no_word_for_a_number() -> None:
    read = parse_yaml("[010, 12:30, 1_2, 0x1F, 0b_, 1:2.5, =, +1, -0.5, .inf, 08]", where="x")
    assert read == ["010", "12:30", "1_2", "0x1F", "0b_", "1:2.5", "=", 1, -0.5, float("inf"), "08"]
    assert parse_yaml("a: " + ":".join(300_000 * ["1"]), where="x")  # a number to the base 60 once, after half a minute


def test_what_is_written_as_yaml_is_read_again() -> None:
    value: dict[str, object] = {
        "words": ["010", "12:30", "1_2", "0x1F", "=", "<<", "1e5", "null", "yes", ""],
        "numbers": [1, -2.5, 1e-7],
    }
    value["twice"] = [value["words"], value["words"]]
    assert parse_yaml(dump_yaml(value), where="x") == value


def test_a_long_yaml_file_is_read_as_a_short_one() -> None:
    text = "".join(f"- {{key {n}: [no, 010, 1e-4, true, ~]}}\n" for n in range(50))
    long = parse_yaml(text + "# " + LONG_YAML * "x", where="x")
    assert long == parse_yaml(text, where="x")
    for damage in (
        "? [a]\n: b",
        "a: 1\na: 2",
        "a: &x [1]\nb: *x",
        "a: !!int x",
        "a: [",
        "a: \ud800",
        "a: " + 5000 * "1",
    ):
        with pytest.raises(UserError):
            parse_yaml(f"{damage}\n# " + LONG_YAML * "x", where="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "line 1"),
        ("a: 1\na: 2", "given twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("!!python/object/apply:os.system ['echo hi']", "not valid YAML"),
        ("[" * 5000, "levels deep"),
        ("? [a]\n: b", "a key must be a word"),
        *[
            (f"a: !!{tag}", "line 1, column 4 .* tags")
            for tag in ("int x", "bool x", "timestamp 2001-13-45", "set {x}")
        ],
        ("? !!set {a}\n: b", "tags"),
        ("a: " + 5000 * "1", "4300 digits"),
    ],
)
def test_bad_yaml_is_a_clear_error(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_yaml(text, where="x")


def test_closest_match() -> None:
    assert did_you_mean("trian", ["train", "resume"]) == "Did you mean 'train'?"
    assert did_you_mean("zzz", ["train", "resume"]) == "Available: 'resume', 'train'."
    assert did_you_mean("Granule_Colour", ["granule-colour"]) == "Did you mean 'granule-colour'?"
