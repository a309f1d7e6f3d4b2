"""A run folder belongs to one process from before its first file on, and a kill leaves one that can be taken."""

from pathlib import Path

import pytest

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.runs.folder import RunFolder


def begin(run: RunFolder, name: str) -> None:
    run.write("recipe.yaml", name)
    run.update(id=name, status="running", data={})


def _refused(place: Path) -> None:
    for overwrite in (False, True):
        created = RunFolder.create(place, overwrite=overwrite)
        with pytest.raises(UserError, match="another process is training"), created:
            pass


def test_a_second_start_finds_the_folder_held(tmp_path: Path) -> None:
    """Both find no run; the slower one must not leave its recipe beside the weights of the other."""
    place = tmp_path / "run"
    with RunFolder.create(place) as first:
        _refused(place)
        begin(first, "first")
        _refused(place)
    assert (place / "recipe.yaml").read_text() == read_json(place / "run.json")["id"] == "first"


def test_what_a_kill_before_run_json_leaves(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    (place / ".lock").touch()
    (place / ".manifest.jsonl.0badcafe.tmp").touch()
    with RunFolder.create(place) as run:  # nothing was there yet
        begin(run, "first")
    (place / "run.json").unlink()  # as if killed after recipe.yaml
    with pytest.raises(UserError, match=r"stopped before it began.*--overwrite"), RunFolder.create(place):
        pass
    with RunFolder.create(place, overwrite=True) as run:
        begin(run, "second")
    assert (place / "recipe.yaml").read_text() == "second"
    assert not manifest.changes(place)


def test_a_folder_of_other_files_is_never_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match="holds other files"), RunFolder.create(tmp_path, overwrite=overwrite):
            pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_an_error_before_run_json_leaves_nothing(tmp_path: Path) -> None:
    def stopped() -> None:
        with RunFolder.create(tmp_path / "run") as run:
            run.write("recipe.yaml", "")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not (tmp_path / "run").exists()


def test_a_damaged_history_line_is_named(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as run:
        begin(run, "one")
    run.history.write_text('{"epoch": 0}\nnonsense\n{"epoch": 1}\n')
    with pytest.raises(UserError, match=r"history.jsonl: a line is no JSON"):
        run.read_history()


def test_what_a_kill_left_half_written_is_removed_below_the_folder_too(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run") as run:
        begin(run, "one")
        left = [run.path / name for name in (".recipe.yaml.1.tmp", "samples/.test.json.2.tmp", "model/.old.3.old/x")]
        for path in left:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("half")
        (tmp_path / "else").mkdir()
        (tmp_path / "else" / ".mine.tmp").write_text("mine")
        (run.path / "link").symlink_to(tmp_path / "else")
        run.clean()
        assert not any(path.exists() for path in left)
        assert (run.path / "recipe.yaml").is_file()
        assert (tmp_path / "else" / ".mine.tmp").is_file()
