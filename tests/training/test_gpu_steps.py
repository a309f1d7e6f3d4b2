"""On a GPU: no step waits, compiled or not, and a compiled training with CUDA graphs learns what a plain one does."""

from pathlib import Path
from typing import Any

import pytest
import torch

import conceptlens as cl
from conceptlens.core.processes import Launched
from conceptlens.methods.build import rest_idle_parameters, sample_tokens
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.training.loop import TrainStage, stages_of
from conceptlens.training.records.checkpoint import Position, StateFolder
from conceptlens.training.records.history import History
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session
from tests.training.test_processes import losses
from tests.training.tiny import tiny, train_interrupted

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
FREE, ENOUGH = 6, 16  # steps before which kernels load and graphs are captured; steps in all


class Enough(Exception):
    """The steps that are looked at are over."""


class Strict(Progress):
    """From some step on, whatever makes the device and the loop wait for each other is an error."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.steps = 0

    def step(self, *_: Any) -> None:
        self.steps += 1
        if self.steps == FREE:
            torch.cuda.set_sync_debug_mode("error")
        if self.steps == ENOUGH:
            raise Enough


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"training__precision": "bf16", "training__ema": 0.9, "data__resident": False},
        {"training__augment__brightness": 0.2, "training__accumulate": 2, "regularizer": "explicit-vq"},
        {"training__compile": True, "training__precision": "bf16"},
        {"training__compile": True, "training__accumulate": 2, "data__resident": False},
    ],
)
def test_no_step_waits(changes: dict[str, Any], tmp_path: Path) -> None:
    recipe = load_recipe(
        tiny(
            tmp_path / "run",
            **{"data__shapes__n": 600, "training__checkpoint_every": 0, "training__rank_every": 8, **changes},
        )
    )
    session = open_session(recipe, None, Launched(recipe.training.precision), Strict())
    pipeline, run = session.pipeline.to("cuda"), RunFolder(Path(recipe.out))
    run.path.mkdir()
    sample = session.reader.batch(session.splits.train[:16]).cuda()
    pieces = sample_tokens(pipeline, sample)
    pipeline.regularizer.prepare(pieces)
    pipeline.model.prepare(pieces, session.blueprint.concepts)
    rest_idle_parameters(pipeline, sample)
    learning = {name for name, each in pipeline.named_parameters() if each.requires_grad}
    try:
        with session.resident_images():
            assert (session.resident is not None) is changes.get("data__resident", True)
            state = (Position(), StateFolder(run.path), History(run.history), sample)
            stage = TrainStage(session, stages_of(session.recipe)[0], learning, *state)
            with pytest.raises(Enough):
                stage.train_epoch()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    stage.ranks.settle()
    assert sum("rank_published" in line for line in run.read_history()) == 2
    stage.close()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_compiled_training_learns_the_same(accumulate: int, tmp_path: Path) -> None:
    changes = {"training__accumulate": accumulate, "training__ema": 0.9, "data__shapes__n": 300}
    plain = cl.train(tiny(tmp_path / "plain", **changes), quiet=True)
    quick = cl.train(tiny(tmp_path / "quick", training__compile=True, **changes), quiet=True)
    assert losses(plain.path) == pytest.approx(losses(quick.path), rel=1e-3)
    ranks = [
        [line["rank_published"] for line in run.read_history() if "rank_published" in line] for run in (plain, quick)
    ]
    assert len(ranks[0]) == len(ranks[1])
    assert ranks[0] == pytest.approx(ranks[1], abs=1)


def test_a_compiled_training_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"training__compile": True, "data__shapes__n": 300}
    whole = cl.train(tiny(tmp_path / "whole", **changes), quiet=True)
    train_interrupted(tiny(tmp_path / "broken", **changes), 8, monkeypatch)
    cl.resume(tmp_path / "broken", quiet=True)
    assert losses(whole.path) == pytest.approx(losses(tmp_path / "broken"), rel=1e-3)


def test_images_on_the_device_change_nothing(tmp_path: Path) -> None:
    there, away = (
        cl.train(tiny(tmp_path / str(resident), data__resident=resident), quiet=True).path for resident in (True, False)
    )
    assert losses(there) == pytest.approx(losses(away), rel=1e-4)
