"""`accelerate launch` with two processes: the numbers of one process at the same global batch."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file

import conceptlens as cl
from conceptlens.core.files import read_json, write_text
from conceptlens.core.registry import METHOD_PRESETS
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from tests.training.test_resume import KILLER
from tests.training.tiny import tiny


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def numbers(node: object, path: str = "") -> dict[str, float]:
    if isinstance(node, dict):
        return {name: value for key, below in node.items() for name, value in numbers(below, f"{path}.{key}").items()}
    if isinstance(node, list):
        return {
            name: value for key, below in enumerate(node) for name, value in numbers(below, f"{path}.{key}").items()
        }
    return {path: float(node)} if isinstance(node, (int, float)) else {}


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    """Two processes; on a machine without GPUs they talk through gloo."""
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    command += ["--main_process_port", str(free_port()), *words]
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def losses(run: Path) -> list[float]:
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


CHANGES = {
    "training__loss__concept": "group",
    "data__shapes__unknown": 0.2,
    "data__shapes__n": 120,
    "training__ema": 0.9,
    "metrics__rank_images": 3,
}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cl.train(tiny(tmp_path_factory.mktemp("one") / "run", **CHANGES), quiet=True).path


@pytest.mark.slow
def test_two_processes_equal_one(one: Path, tmp_path: Path) -> None:
    recipe, two = tmp_path / "recipe.yaml", tmp_path / "two"
    write_text(recipe, recipe_yaml(load_recipe(tiny(two, training__accumulate=2, **CHANGES))))
    done = launch("-m", "conceptlens", "train", str(recipe), "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    assert read_json(two / "environment.json")["processes"] == 2
    assert done.stdout.count("class balanced accuracy") == 1  # one voice
    a, b = (numbers(read_json(run / "metrics.json")) for run in (one, two))
    assert a.keys() == b.keys()
    for name in a:
        assert np.isclose(a[name], b[name], atol=1e-4), name
    np.testing.assert_allclose(losses(one), losses(two), atol=1e-4)


@pytest.mark.slow
def test_two_processes_resume_in_the_middle_of_an_epoch(one: Path, tmp_path: Path) -> None:
    recipe, two, killer = tmp_path / "recipe.yaml", tmp_path / "two", tmp_path / "killer.py"
    write_text(recipe, recipe_yaml(load_recipe(tiny(two, **CHANGES))))
    write_text(killer, KILLER)
    words = ["conceptlens.training.optimization.step", "augment", "8", "train", str(recipe), "--quiet"]
    assert launch(str(killer), *words).returncode != 0
    position = read_json(sorted((two / "state").glob("0*"))[-1] / "position.json")
    assert position["step"] > 0  # in the middle of an epoch
    done = launch("-m", "conceptlens", "resume", str(two), "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    np.testing.assert_allclose(losses(one), losses(two), atol=1e-4)


def stages(method: str) -> list[dict[str, Any]]:
    """The stages of a preset; one that trains everything where it names none."""
    preset = yaml.safe_load((METHOD_PRESETS / f"{method}.yaml").read_text("utf-8"))
    named: list[dict[str, Any]] = preset.get("training", {}).get("stages", [{}])
    return named


# What is only solved, not trained, has no gradients to share.
METHODS = [name for name in cl.list_methods() if any(stage.get("kind") != "fit" for stage in stages(name))]
READS_TEXTS = ("evidence-cbm-text", "labo", "labo-released", "pcbm-text-h", "sl-cbm")


def test_methods_that_gradients_train_are_known() -> None:
    assert len(METHODS) >= 27
    assert not {"lf-cbm", "pcbm", "zero-shot"} & {*METHODS}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_two_processes_equal_one_for_every_method_that_gradients_train(method: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {"method": method, "training__epochs": 1, "data__shapes__n": 64, "metrics__bootstrap": 0}
    if stages(method) != [{}]:
        changes["training__stages"] = [
            stage if stage.get("kind") == "fit" else {**stage, "epochs": 1} for stage in stages(method)
        ]
    if method.startswith("mvp-cbm"):
        changes["encoder__layers"] = "all"
    if method in READS_TEXTS:  # it needs a text tower
        changes |= {"encoder": {"name": "builtin/vit"}, "data__shapes__n": 32}
    one = cl.train(tiny(tmp_path / "one", **changes), quiet=True).path
    recipe, two = tmp_path / "recipe.yaml", tmp_path / "two"
    write_text(recipe, recipe_yaml(load_recipe(tiny(two, **changes))))
    done = launch("-m", "conceptlens", "train", str(recipe), "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    assert read_json(two / "environment.json")["processes"] == 2
    np.testing.assert_allclose(losses(one), losses(two), atol=1e-4)
    a, b = (load_file(run / "model" / "weights.safetensors") for run in (one, two))
    beyond = {name: int((np.abs(value - b[name]) > 1e-4).sum()) for name, value in a.items()}
    assert not {name: count for name, count in beyond.items() if count}
