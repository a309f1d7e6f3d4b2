"""Comparisons on engines: the same bits from every one, and a killed worker loses no job."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest
from safetensors.numpy import load_file

from conceptlens.core.engines import EngineName
from conceptlens.core.files import dump_yaml
from conceptlens.recipes.parse import load_recipe, recipe_names, recipe_tree
from conceptlens.workflows.compare.compare import compare
from conceptlens.workflows.compare.execution import do_here
from conceptlens.workflows.compare.jobs import _section_yaml
from conceptlens.workflows.compare.state import same_recipe
from tests.workflows.compare.fakes import comparison_file, jobs_of


def weights(out: Path) -> dict[str, dict[str, bytes]]:
    files = sorted(out.glob("runs/*/model/weights.safetensors"))
    return {file.parts[-3]: {name: value.tobytes() for name, value in load_file(file).items()} for file in files}


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_every_engine_gives_the_bits_of_local_processes(engine: EngineName, module: str, tmp_path: Path) -> None:
    pytest.importorskip(module)
    file = comparison_file(tmp_path)
    words = ["cluster=local"] if engine == "slurm" else []
    local = compare(file, out=tmp_path / "local", at_once=2, quiet=True)
    result = compare(file, out=tmp_path / engine, at_once=2, engine=engine, engine_option=words, quiet=True)
    assert not result.failed
    assert result.results["jobs"] == {"done": 4, "of": 4}
    assert weights(tmp_path / engine) == weights(tmp_path / "local")
    assert result.markdown.split("\n\n")[0] == local.markdown.split("\n\n")[0]


@pytest.mark.slow
def test_a_killed_worker_loses_no_job(tmp_path: Path) -> None:
    """Its training goes on from the last checkpoint and gives the same bits."""
    changes = {"training.epochs": 6, "training.checkpoint_every": 1}
    recipes = {"one": {"random_text": False, "set": changes}}
    file = comparison_file(tmp_path, recipes=recipes, seeds=[0, 1])
    compare(file, out=tmp_path / "calm", at_once=2, quiet=True)
    killed: list[int] = []

    def kill_one() -> None:
        while not list((tmp_path / "out").glob("runs/*/state/*")):
            time.sleep(0.01)
        (pid, *_) = (child.pid for child in psutil.Process().children() if "engines.local" in str(child.cmdline()))
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    result = compare(file, out=tmp_path / "out", at_once=2, quiet=True)
    assert killed
    assert not result.failed
    assert weights(tmp_path / "out") == weights(tmp_path / "calm")


def test_the_yaml_of_a_job_is_that_of_its_whole_recipe() -> None:
    """Its hash is part of the job's name: other line breaks would train everything again."""
    for name in recipe_names()[::6]:
        tree = {**recipe_tree(load_recipe(name)), "concepts": "x" * 150, "more": {"words": ["a: b", "", "é" * 130]}}
        assert "".join(_section_yaml(key, value) for key, value in tree.items()) == dump_yaml(tree)


def test_a_finished_job_is_known_without_reading_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, places = jobs_of(
        comparison_file(tmp_path, seeds=[0], recipes={"one": {"random_text": False}}), tmp_path / "o"
    )
    do_here(jobs, places, lambda _: None)
    calls: list[Path] = []

    def spy(folder: Path, job: object) -> bool:
        calls.append(folder)
        return same_recipe(folder, job)  # type: ignore[arg-type]

    monkeypatch.setattr("conceptlens.workflows.compare.state.same_recipe", spy)
    assert places.state(jobs[0]) == "done"
    assert not calls
    places.recipe(jobs[0]).write_text("seed: 3\n")
    assert places.state(jobs[0]) == "to do"
    assert calls
