"""`accelerate launch` with two processes: the numbers of one process at the same global batch."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

import conceptlens as cl
from conceptlens.files import write_text
from conceptlens.recipe.parse import load_recipe, recipe_yaml
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


def test_two_processes_equal_one(tmp_path: Path) -> None:
    changes = {"training__loss__concept": "axis", "data__shapes__unknown": 0.2, "data__shapes__n": 120}
    one = cl.train(tiny(tmp_path / "one", **changes), quiet=True).path
    recipe = tmp_path / "recipe.yaml"
    write_text(recipe, recipe_yaml(load_recipe(tiny(tmp_path / "two", **changes))))
    launch = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
    ]
    launch += [
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
        "--main_process_port",
        str(free_port()),
        "-m",
        "conceptlens",
    ]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launch, "train", str(recipe), "--quiet"], capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("class balanced accuracy") == 1  # one voice
    a, b = (numbers(json.loads((run / "metrics.json").read_text())) for run in (one, tmp_path / "two"))
    assert a.keys() == b.keys()
    for name in a:
        assert np.isclose(a[name], b[name], atol=1e-4), name
    first, second = (
        [json.loads(line)["loss"] for line in (run / "history.jsonl").read_text().splitlines() if '"loss"' in line]
        for run in (one, tmp_path / "two")
    )
    np.testing.assert_allclose(first, second, atol=1e-4)
