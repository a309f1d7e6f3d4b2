"""kill -9 at any moment, also while a state is being written, then resume: the same bits as an uninterrupted run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens.core.files import read_json, write_text
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.runs.folder import RunFolder
from tests.training.tiny import tiny

# Runs conceptlens, and kills its own process with SIGKILL when a chosen function has been entered often enough.
KILLER = """
import os, signal, sys
module, name, times, *words = sys.argv[1:]
import importlib
owner = importlib.import_module(module)
*path, last = name.split(".")
for step in path:
    owner = getattr(owner, step)
real, calls = getattr(owner, last), [0]
def deadly(*args, **kwargs):
    calls[0] += 1
    if calls[0] == int(times):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(owner, last, deadly)
from conceptlens.cli import main
sys.exit(main(words))
"""


def run_and_kill(where: tuple[str, str, int], *words: str) -> None:
    module, name, times = where
    done = subprocess.run(
        [sys.executable, "-c", KILLER, module, name, str(times), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr


def history(run: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


def same(first: Path, second: Path) -> None:
    assert (first / "model" / "weights.safetensors").read_bytes() == (
        second / "model" / "weights.safetensors"
    ).read_bytes()
    assert (first / "metrics.json").read_bytes() == (second / "metrics.json").read_bytes()
    assert history(first) == history(second)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cl.train(tiny(tmp_path_factory.mktemp("whole") / "run", training__ema=0.9), quiet=True).path


def killed(tmp_path: Path, where: tuple[str, str, int], **changes: Any) -> Path:
    """A training that was killed: module, function, and at which call of it."""
    recipe = tmp_path / "recipe.yaml"
    write_text(recipe, recipe_yaml(load_recipe(tiny(tmp_path / "run", **changes))))
    run_and_kill(where, "train", str(recipe), "--quiet")
    return tmp_path / "run"


@pytest.mark.slow
def test_killed_again_and_again(whole: Path, tmp_path: Path) -> None:
    """In turn: while a state's file is written, while a state is renamed, while measuring."""
    out = killed(tmp_path, ("conceptlens.training.records.checkpoint", "save_file", 10), training__ema=0.9)
    assert RunFolder.open(out).info["status"] == "running"
    run_and_kill(("conceptlens.core.files", "os.replace", 9), "resume", str(out), "--quiet")
    run_and_kill(("conceptlens.training.train", "save_model", 1), "resume", str(out), "--quiet")
    cl.resume(out, quiet=True)
    same(whole, out)
    assert not [entry for entry in out.rglob(".*") if entry.suffix in (".tmp", ".old")]
    assert not (out / "state").exists()


@pytest.mark.slow
def test_killed_before_the_first_state(whole: Path, tmp_path: Path) -> None:
    out = killed(tmp_path, ("conceptlens.training.optimization.step", "augment", 1), training__ema=0.9)
    assert not (out / "state").exists()
    cl.resume(out, quiet=True)
    same(whole, out)


@pytest.mark.slow
def test_changed_data_is_refused(tmp_path: Path) -> None:
    out = killed(tmp_path, ("conceptlens.training.optimization.step", "augment", 3))
    text = (out / "recipe.yaml").read_text()
    write_text(out / "recipe.yaml", text.replace("n: 96", "n: 90"))
    with pytest.raises(cl.UserError, match="data changed"):
        cl.resume(out, quiet=True)


@pytest.mark.slow
def test_a_run_that_is_being_trained_is_locked(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    out = killed(tmp_path, ("conceptlens.training.optimization.step", "augment", 1))
    with (out / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(cl.UserError, match="another process"):
            cl.resume(out, quiet=True)


@pytest.mark.slow
def test_states_keep_the_last_two(tmp_path: Path) -> None:
    out = killed(tmp_path, ("conceptlens.training.train", "save_model", 1))
    states = sorted(entry.name for entry in (out / "state").iterdir() if entry.is_dir())
    assert len(states) == 2
    named = {read_json(out / "state" / state / "position.json")["best_file"] for state in states}
    assert {file.name for file in (out / "state").glob("best-*")} == named


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"training__patience": 1, "training__epochs": 6, "training__learning_rate": 1e-6}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"training__stages": [{"name": "a", "epochs": 1}, {"name": "b", "epochs": 1, "train": ["model"]}]},
            marks=pytest.mark.slow,
        ),
        pytest.param({"training__validate_every": 2, "training__checkpoint_every": 3}, marks=pytest.mark.slow),
    ],
)
def test_killed_while_measuring_after_early_stopping_stages_or_sparse_validation(
    changes: dict[str, object], tmp_path: Path
) -> None:
    first, second, recipe = tmp_path / "first", tmp_path / "second", tmp_path / "recipe.yaml"
    cl.train(tiny(first, **changes), quiet=True)
    write_text(recipe, recipe_yaml(load_recipe(tiny(second, **changes))))
    run_and_kill(("conceptlens.training.train", "save_model", 1), "train", str(recipe), "--quiet")
    cl.resume(second, quiet=True)
    same(first, second)


@pytest.mark.slow
def test_temperatures_are_fitted_at_each_validation_and_resumed(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "method": {"name": "cbm", "space": "probability", "calibrate": True},
        "regularizer": {"name": "none"},
    }
    first = cl.train(tiny(tmp_path / "first", **changes), quiet=True)
    fitted = [line for line in first.read_history() if line.get("kind") == "temperature"]
    assert [line["epoch"] for line in fitted] == [1, 2, 3]
    found = [line["mean_temperature"] for line in fitted]
    assert len({1.0, *found}) == 4  # each epoch has its own
    assert min(found) > 0
    # Killed in the third epoch: the state of the second holds the temperatures.
    second = killed(tmp_path, ("conceptlens.training.optimization.step", "augment", 8), **changes)
    assert read_json(next((second / "state").glob("*/position.json")))["total_epochs"] > 0
    cl.resume(second, quiet=True)
    same(first.path, second)
