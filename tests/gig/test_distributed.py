"""A decomposition shared by processes is that of one process."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.gig import decompose, distributed
from conceptlens.gig.document import Graph
from tests.gig.own_model import build
from tests.gig.test_run import FEW, OWN


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    draw = np.random.default_rng(0)
    for number in range(70):  # two shards of samples
        pixels = draw.integers(0, 80, (24, 24, 3))
        x, y = draw.integers(0, 14, 2)
        pixels[y : y + 10, x : x + 10, number % 3] = 250
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02d}.png")
    return folder


def in_this_process(tasks: list[distributed.Task], engine: distributed.Engine, note: object) -> None:
    assert engine.at_once == 2
    assert [task.run() for task in tasks] == [0] * len(tasks)


@pytest.mark.parametrize("engine", ["", *(pytest.param(name, marks=pytest.mark.slow) for name in ("local", "slurm"))])
def test_two_processes_equal_one(engine: Any, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not engine:
        monkeypatch.setattr(distributed, "run_tasks", in_this_process)
    if engine == "slurm":
        pytest.importorskip("submitit")
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    few: dict[str, Any] = dict(FEW)
    two_at_once = {"processes": 2, "engine": engine or "local"}
    two_at_once |= {"engine_option": ["cluster=local"]} if engine == "slurm" else {}
    made = []
    for words in ({}, two_at_once):
        out = tmp_path / str(len(words))
        found = decompose(f"{OWN}:build", photos, layers=["one", "two"], out=out, **words, **few)
        assert found.page.is_file()
        made.append(out)
        distributed._open.cache_clear()
    one, two = made
    for file in ("outputs.safetensors", *(f"samples/{start:08d}.safetensors" for start in (0, 64))):
        before, after = load_file(one / file), load_file(two / file)
        assert before.keys() == after.keys()
        for name, value in before.items():
            torch.testing.assert_close(after[name], value, msg=f"{file} {name}")
    graphs = [Graph.read(run / "graph.json") for run in made]
    assert [node.id for node in graphs[0].nodes] == [node.id for node in graphs[1].nodes]
    assert not (two / "jobs").exists()


def test_what_fails_in_a_process_is_said(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: dict[str, Any] = {"layers": ["one"], "processes": 2, **FEW}
    with pytest.raises(UserError, match="known to this process alone"):
        decompose(build(), photos, out=tmp_path / "a", **words)
    with pytest.raises(UserError, match="expected 1 or more, got 0"):
        decompose(f"{OWN}:build", photos, out=tmp_path / "a", **{**words, "processes": 0})
    assert not (tmp_path / "a").exists()
    run = tmp_path / "gone"
    assert distributed.do_layer(str(run), "one", 8, 0, True) == 1
    assert distributed.do_images(str(run), [0, 2], 8, 0, True) == 1


def test_damaged_outputs_are_refused(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "run_tasks", in_this_process)
    out = tmp_path / "run"
    decompose(f"{OWN}:build", photos, layers=["one"], out=out, **FEW)
    whole = (out / "outputs.safetensors").read_bytes()
    (out / "run.json").write_text((out / "run.json").read_text("utf-8").replace('"done"', '"running"'), "utf-8")
    shutil.rmtree(out / "layers")
    (out / manifest.NAME).unlink()
    for damaged in (whole[:200], save({"outputs": torch.zeros(3, 2)}), save({"other": torch.zeros(3, 2)})):
        (out / "outputs.safetensors").write_bytes(damaged)
        for processes in (1, 2):
            distributed._open.cache_clear()
            with pytest.raises(UserError, match=r"outputs\.safetensors: expected"):
                decompose(f"{OWN}:build", photos, layers=["one"], out=out, processes=processes, **FEW)
