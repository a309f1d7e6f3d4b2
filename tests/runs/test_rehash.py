"""A run that was edited: every reader refuses it until the user accepts the change."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conceptlens.cli import main
from conceptlens.core import manifest
from conceptlens.core.files import read_json
from tests.conftest import Refuse
from tests.core.test_manifest import rot
from tests.own_data import OwnData


@pytest.fixture
def run(own_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(own_run, tmp_path / "run")
    return tmp_path / "run"


def edit(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        text = (run / name).read_text("utf-8")
        assert old in text
        (run / name).write_text(text.replace(old, new), "utf-8")

    return change


def rotate_classes(run: Path) -> None:
    card = read_json(run / "model/model.json")
    one, two = card["classes"]
    edit("model/model.json", f'"{one}",\n  "{two}"', f'"{two}",\n  "{one}"')(run)


def zero_predictions(run: Path) -> None:
    file = run / "predictions/test.safetensors"
    from safetensors import safe_open

    with safe_open(file, "np") as opened:
        words = opened.metadata()
    save_file({name: np.zeros_like(value) for name, value in load_file(file).items()}, file, words)


SILENT: dict[str, tuple[Callable[[Path], None], str]] = {
    "rotated classes": (rotate_classes, "predict"),
    "another option": (edit("recipe.yaml", "fit: ", "fit: # "), "predict"),
    "another concept": (edit("concepts.yaml", "groups:", "groups: "), "predict"),
    "zeroed predictions": (zero_predictions, "leakage"),
    "another metric": (edit("metrics.json", '"n": ', '"n": 1'), "report"),
}


@pytest.mark.parametrize("kind", SILENT)
def test_a_silent_change_is_refused(refuse: Refuse, own: OwnData, run: Path, kind: str) -> None:
    change, command = SILENT[kind]
    change(run)
    images = [own.image(0)] if command == "predict" else []
    refuse(command, run, *images, says=("edited or damaged", "conceptlens rehash"))


def test_an_accepted_change(refuse: Refuse, own: OwnData, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rehash", str(run)]) == 0
    assert "every file is as it was written" in capsys.readouterr().out
    edit("concepts.yaml", "groups:", "groups: ")(run)
    (run / "notes.txt").write_text("mine")
    (run / "stories.json").unlink()
    assert main(["rehash", str(run), "--check", "--fail-on-findings"]) == 3
    refuse("predict", run, own.image(0), says="concepts.yaml")
    capsys.readouterr()
    assert main(["rehash", str(run)]) == 0
    said = capsys.readouterr().out
    assert "changed: concepts.yaml" in said
    assert "added: notes.txt" in said
    assert "removed: stories.json" in said
    assert main(["predict", str(run), str(own.image(0))]) == 0


def test_verify_finds_what_rotted_in_its_place(refuse: Refuse, own: OwnData, run: Path) -> None:
    assert main(["predict", str(run), str(own.image(0)), "--verify"]) == 0
    rot(run / "splits.json")
    refuse("predict", run, own.image(0), "--verify", says="splits.json: this file was edited or damaged")
    assert main(["predict", str(run), str(own.image(0))]) == 0  # it does not read the splits


def test_a_run_without_a_manifest(own: OwnData, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(run), str(own.image(0))]) == 0
    assert "unverified" not in capsys.readouterr().out
    (run / manifest.NAME).unlink()
    assert main(["predict", str(run), str(own.image(0))]) == 0
    assert "unverified" in capsys.readouterr().out
    assert main(["rehash", str(run), "--check"]) == 0
    assert "unverified" in capsys.readouterr().out
    assert not manifest.has_manifest(run)
    (run / manifest.NAME).write_text("damaged")
    assert main(["rehash", str(run)]) == 0
    assert not manifest.changes(run)


def test_results_that_come_later_are_in_the_manifest(own: OwnData, run: Path) -> None:
    assert main(["evaluate", str(run)]) == 0
    assert main(["report", str(run)]) == 0
    assert not manifest.changes(run, always=True)
