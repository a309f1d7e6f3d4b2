"""Places that cannot be written, disks that are full, run folders that were damaged."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conceptlens.cli import main
from conceptlens.core import manifest
from conceptlens.core.files import read_json
from conceptlens.runs.folder import RunFolder
from tests.conftest import Refuse
from tests.own_data import OwnData

# --- values that nobody thought of


def test_a_folder_that_holds_anything(
    refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a folder is not known to be as it was written, what cannot be read in it is no bug of ours."""
    run = Path(shutil.copytree(own_run, tmp_path / "run"))
    (run / manifest.NAME).unlink()
    text = (run / "run.json").read_text("utf-8")
    (run / "run.json").write_text(json.dumps(json.loads(text) | {"data": {}}), "utf-8")
    refuse("evaluate", run, says=("not what conceptlens writes (KeyError: 'hash')", "they have no manifest"))
    (run / "run.json").write_text(text, "utf-8")
    card = json.loads((run / "model" / "model.json").read_text("utf-8"))
    (run / "model" / "model.json").write_text(json.dumps(card | {"image_size": -1}), "utf-8")
    refuse("predict", run, own.image(0), says="not what conceptlens writes")
    monkeypatch.setattr("conceptlens.runs.opened.read_json", lambda *_: {}["of ours"])
    assert main(["evaluate", str(own_run)]) == 1  # as it was written: a bug


# --- where to write


def test_output(refuse_training: Refuse, refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    for out, says in (
        (tmp_path / "file", "found a file"),
        (tmp_path / "file" / "below", "--out"),
        ("/proc/conceptlens", "--out"),
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / "full", "holds other files"),
        (own_run, "--overwrite"),
    ):
        refuse("train", own.recipe, "--out", out, "--quiet", says=says)
    assert (tmp_path / "file").read_text() == (tmp_path / "full" / "thesis.txt").read_text() == "mine"
    refuse("predict", own_run, own.image(0), "--out", tmp_path / "file" / "x.csv", says=str(tmp_path / "file"))
    refuse("predict", own_run, own.image(0), "--out", "/proc/conceptlens/x.json", says="/proc/conceptlens")
    refuse("evaluate", own_run, "--out", "/proc/conceptlens/x.json", says="/proc/conceptlens")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(refuse: Refuse, own: OwnData, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    refuse("train", own.recipe, "--out", tmp_path / "locked" / "run", says=("locked", "--out"))


def test_a_read_only_disk(refuse: Refuse, own: OwnData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Path, data: bytes) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "write_bytes", refused)
    refuse("train", own.recipe, "--out", tmp_path / "run", "--quiet", says=("Read-only", "--out"))


# The n-th file that is made durable does not fit. A training of two epochs makes about sixty so, with the manifest.
@pytest.mark.parametrize("nth", [1, 18, 52, *(pytest.param(nth, marks=pytest.mark.slow) for nth in (15, 33, 40, 60))])
def test_a_full_disk(
    refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Nothing half-written; a run that had begun says why it failed, and goes on to the same result."""
    out, real, calls = tmp_path / "run", os.fsync, [0]

    def fsync(handle: int) -> None:
        calls[0] += 1
        if calls[0] >= nth and not os.path.isdir(f"/proc/self/fd/{handle}"):
            calls[0] = -10_000  # then there is room again, as after a temporary file went
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        refuse("train", own.recipe, "--out", out, "--quiet", says="The disk is full")
    if nth <= 15:  # the fifteenth is run.json, noted in the manifest; it makes a folder a run
        assert not out.exists()
        return
    info = read_json(out / "run.json")
    assert info["status"] == "failed"
    assert "No space left" in info["reason"]
    assert main(["resume", str(out), "--quiet"]) == 0
    for name in ("metrics.json", "model/weights.safetensors", "stories.json"):
        assert (out / name).read_bytes() == (own_run / name).read_bytes()


# --- run folders that were damaged


def edit(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(run: Path) -> None:
        text = (run / name).read_text("utf-8")
        assert old in text
        (run / name).write_text(text.replace(old, new, 1), "utf-8")

    return change


def remove(name: str) -> Callable[[Path], object]:
    return lambda run: shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda run: (run / name).write_bytes(content)


EVERY = ("evaluate", "predict", "report")
DAMAGE: dict[str, tuple[Callable[[Path], object], tuple[str, ...], str]] = {
    "no run.json": (remove("run.json"), (*EVERY, "resume"), "expected a run folder with a run.json"),
    "torn run.json": (put("run.json", b'{"status": "do'), ("evaluate", "report", "resume"), "run.json: expected JSON"),
    "list in run.json": (put("run.json", b"[]"), ("evaluate", "report", "resume"), "expected what training writes"),
    "nothing in run.json": (put("run.json", b"{}"), ("evaluate", "report", "resume"), "expected what training writes"),
    "bytes in run.json": (put("run.json", b"\xff\xfe"), ("evaluate", "report", "resume"), "run.json: expected JSON"),
    "newer run.json": (put("run.json", b'{"schema": 9}'), ("evaluate", "report", "resume"), "schema 9"),
    "no recipe": (remove("recipe.yaml"), EVERY, "recipe.yaml: no such file"),
    "torn recipe": (put("recipe.yaml", b"data: {sour"), EVERY, "recipe.yaml"),
    "misspelled recipe": (
        edit("recipe.yaml", "epochs: 2", "epoch: 2"),
        ("evaluate", "predict"),
        "Did you mean 'epochs'",
    ),
    "another width": (edit("recipe.yaml", "width: 32", "width: 64"), ("evaluate", "predict"), "do not fit the recipe"),
    "no concepts": (remove("concepts.yaml"), EVERY, "concepts.yaml: no such file"),
    "other concepts": (put("concepts.yaml", b"groups: {a: {values: [b, c]}}"), EVERY, "fit"),
    "no model": (remove("model"), EVERY, "model"),
    "no card": (remove("model/model.json"), EVERY, "model.json: no such file"),
    "damaged card": (put("model/model.json", b"{}"), EVERY, "run"),
    "damaged weights": (put("model/weights.safetensors", b"xx"), EVERY, "Copy the run folder again"),
    "no metrics": (remove("metrics.json"), ("report",), "metrics.json: no such file"),
    "torn metrics": (put("metrics.json", b"{"), ("report",), "metrics.json: expected JSON"),
    "damaged splits": (put("splits.json", b"{}"), ("evaluate", "report"), "splits"),
    "damaged history": (put("history.jsonl", b"nonsense\n"), ("report",), "run"),
    "deep metrics": (put("metrics.json", b"[" * 50_000 + b"]" * 50_000), ("migrate",), "nested too deep"),
    "damaged weights, migrated": (put("model/weights.safetensors", b""), ("migrate",), "cannot be read"),
    "damaged stories": (put("stories.json", b"{}"), ("report",), "stories.json"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_run_folders(refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path, kind: str) -> None:
    damage, commands, says = DAMAGE[kind]
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    damage(run)
    (run / manifest.NAME).unlink()  # as in runs of version 0.1: each reader finds out by itself
    for command in commands:
        refuse(command, run, *([own.image(0)] if command == "predict" else []), says=says)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("model/weights.safetensors", "report"),
        ("predictions/test.safetensors", "migrate"),
        ("manifest.jsonl", "rehash"),
    ],
)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    refuse: Refuse, own_run: Path, tmp_path: Path, name: str, command: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    (run / manifest.NAME).unlink()
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    if name == manifest.NAME:
        assert main([command, str(run), "--check"]) == 0  # as without one
    else:
        refuse(command, run, says="found a pipe")


def test_a_torn_history_is_read_as_far_as_it_goes(own_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    with (run / "history.jsonl").open("a") as file:
        file.write('{"epoch": 3, "los')
    (run / manifest.NAME).unlink()
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_bytes() == (own_run / "report.html").read_bytes()


def stop(*_: object) -> None:
    raise KeyboardInterrupt


STOPPED: dict[str, tuple[Callable[[Path], object], str]] = {
    "misspelled recipe": (edit("recipe.yaml", "epochs: 2", "epoch: 2"), "Did you mean 'epochs'?"),
    "another width": (edit("recipe.yaml", "width: 32", "width: 64"), "do not fit"),
    "other data": (edit("recipe.yaml", "class_column: diagnosis", "class_column: grade"), "class"),
    "no splits": (remove("splits.json"), "splits.json: no such file"),
    "damaged splits": (put("splits.json", b'{"splits": {}}'), "splits.json"),
    "no environment": (remove("environment.json"), "environment.json: no such file"),
    "no concepts": (remove("concepts.yaml"), "concepts.yaml: no such file"),
    "run.json without its data": (put("run.json", b'{"status": "failed"}'), "run.json"),
}


@pytest.fixture(scope="module")
def stopped_run(own: OwnData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("conceptlens.training.train.save_model", stop)
        assert main(["train", str(own.recipe), "--out", str(run), "--quiet"]) == 130
    return run


@pytest.mark.parametrize("kind", STOPPED)
def test_runs_that_were_stopped_and_then_damaged(refuse: Refuse, stopped_run: Path, tmp_path: Path, kind: str) -> None:
    damage, says = STOPPED[kind]
    run = tmp_path / "run"
    shutil.copytree(stopped_run, run)
    damage(run)
    (run / manifest.NAME).unlink()
    refuse("resume", run, "--quiet", says=says)


def test_commands_ask_to_finish_a_stopped_run(refuse: Refuse, own: OwnData, stopped_run: Path) -> None:
    refuse("evaluate", stopped_run, says=("not done (failed)", "conceptlens resume"))
    refuse("report", stopped_run, says=("not done (failed)", "conceptlens resume"))
    refuse("predict", stopped_run, own.image(0), says=("not done (failed)", "conceptlens resume"))


def test_data_that_changed_is_noticed(refuse: Refuse, mine: OwnData, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert main(["train", str(mine.recipe), "--out", str(run), "--quiet", "--training.epochs", "1"]) == 0
    mine.change(39, diagnosis="benign")
    refuse("evaluate", run, says=("changed", "--data"))


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no links here")
@pytest.mark.parametrize("name", ["history.jsonl", "state", "trust", "distribution.safetensors", "manifest.jsonl"])
def test_links_that_lead_out_are_not_followed(refuse: Refuse, own_run: Path, tmp_path: Path, name: str) -> None:
    """`resume` would cut or replace what they point to, `push` and `report` would publish it."""
    run, secret = tmp_path / "run", tmp_path / "secret"
    shutil.copytree(own_run, run)
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink(missing_ok=True)
    (secret / "2019").mkdir(parents=True)
    (secret / "file").write_text("mine")
    (run / name).symlink_to(secret if "." not in name else secret / "file")
    for command in (("resume",), ("evaluate",), ("report",), ("rehash",), ("migrate",), ("push", "lab/x")):
        refuse(command[0], run, *command[1:], says="leads out")
    assert (secret / "file").read_text() == "mine"
    assert sorted(path.name for path in secret.iterdir()) == ["2019", "file"]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no links here")
def test_a_snapshot_of_a_hub_is_links_to_what_lies_beside_it(own_run: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "models--lab--x" / "blobs", tmp_path / "models--lab--x" / "snapshots" / "abc"
    shutil.copytree(own_run, snapshot)
    blobs.mkdir()
    (snapshot / "concepts.yaml").rename(blobs / "1")
    (snapshot / "concepts.yaml").symlink_to("../../blobs/1")
    assert RunFolder.open(snapshot).info["status"] == "done"


@pytest.mark.parametrize("name", ["metrics.json", "splits.json", "predictions/val.safetensors"])
def test_an_explanation_does_not_do_without_what_was_removed(
    refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path, name: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    (run / name).unlink()
    assert "was written and is gone" in refuse("explain", run, own.image(0), "--out", tmp_path / "told")
    (run / name).mkdir()
    assert "was written and is gone" in refuse("explain", run, own.image(0), "--out", tmp_path / "told")
