"""A compiled step: one graph for the whole training, the same numbers, names and states as without.

dynamo's own tests count graphs by a backend that runs them as they are: fast, and without other roundings.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch._dynamo.testing import CompileCounter

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_text
from conceptlens.core.processes import Launched
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.training.batches.augment import Draw
from conceptlens.training.loop import TrainStage, stages_of
from conceptlens.training.optimization import compiled
from conceptlens.training.optimization.compiled import LEAST_STEPS, Compiled, compiles
from conceptlens.training.optimization.step import Step
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session
from tests.training.test_processes import launch, losses
from tests.training.test_resume import same
from tests.training.tiny import tiny, train_interrupted

WEIGHTS = "model/weights.safetensors"
# Lets a command compile by a backend that is quick to start.
QUICK = "import conceptlens.training.optimization.compiled as compiled\ncompiled.BACKEND = 'aot_eager'\n"


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> CompileCounter:
    counter = CompileCounter()
    monkeypatch.setattr(compiled, "BACKEND", counter)
    return counter


def test_the_rule() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert compiles(True, 1, cpu)
    assert not compiles(False, 10**6, gpu)
    assert not compiles("auto", 10**6, cpu)
    assert not compiles("auto", LEAST_STEPS - 1, gpu)
    assert compiles("auto", LEAST_STEPS, gpu)


@pytest.mark.slow
def test_a_training_is_one_graph_with_the_same_bits(tmp_path: Path, counter: CompileCounter) -> None:
    """Validation, rank tracking, checkpoints and the average of the weights in between make it compile nothing anew."""
    plain = cl.train(tiny(tmp_path / "plain", training__ema=0.9), quiet=True)
    assert counter.frame_count == 0  # auto leaves a CPU alone
    quick = cl.train(tiny(tmp_path / "quick", training__ema=0.9, training__compile=True), quiet=True)
    assert counter.frame_count == 1
    first, second = (load_file(run.path / WEIGHTS) for run in (plain, quick))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    timeless = [[{**line, "time": 0} for line in run.read_history()] for run in (plain, quick)]
    assert timeless[0] == timeless[1]
    assert any("rank_published" in line for line in timeless[1])


@pytest.mark.slow
def test_every_stage_has_a_graph_of_its_own(tmp_path: Path, counter: CompileCounter) -> None:
    stages = [{"name": "all", "epochs": 1}, {"name": "head", "epochs": 1, "train": ["model.head"]}]
    cl.train(tiny(tmp_path / "run", training__stages=stages, training__compile=True), quiet=True)
    assert counter.frame_count == 2


def first_step(recipe: dict[str, Any], *, whole_graph: bool) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Loss terms and gradients of a step from a fixed start."""
    torch.manual_seed(0)
    loaded = load_recipe(recipe)
    session = open_session(loaded, None, Launched(loaded.training.precision), Progress(quiet=True))
    session.pipeline.regularizer.attach(session.pipeline.encoder)
    learning = {name for name, each in session.pipeline.named_parameters() if each.requires_grad}
    stage = TrainStage(session, stages_of(loaded)[0], learning, *(None,) * 4)  # type: ignore[arg-type]
    step = stage.step
    assert isinstance(step, Step)
    step.train()
    stage.position = type("Start", (), {"total_epochs": 0})()  # type: ignore[assignment]
    indices = torch.from_numpy(session.splits.train[:16])
    images = session.reader.batch(indices.numpy())
    run = torch.compile(step.plain, fullgraph=True, backend="eager") if whole_graph else step.plain
    total, terms, _ = run(images, stage.draw(0), stage.targets.targets(indices), stage.targets.counts(indices))
    total.backward()
    gradients = {name: each.grad for name, each in session.pipeline.named_parameters() if each.grad is not None}
    return terms, gradients


@pytest.mark.parametrize(
    "changes",
    [
        {"training__augment__brightness": 0.2, "training__augment__rotate": 10.0},
        {
            "training__precision": "bf16",
            "training__loss__concept": "group",
            "training__loss__class_balance": "balanced",
        },
        pytest.param({"method": "ivq-cbm-released"}, marks=pytest.mark.slow),
        pytest.param({"method__aggregate": "mean", "regularizer": "l2"}, marks=pytest.mark.slow),
        pytest.param({"regularizer": "explicit-vq"}, marks=pytest.mark.slow),
        {"encoder": {"name": "timm/test_vit", "pretrained": False, "image_size": 32}, "regularizer": "barlow-twins"},
    ],
)
def test_nothing_in_a_step_asks_the_device_for_a_number(changes: dict[str, Any], tmp_path: Path) -> None:
    """A whole graph has no place where a value decides what comes next, on any device."""
    recipe = tiny(tmp_path / "run", **changes)
    (terms, gradients), (again, others) = (first_step(recipe, whole_graph=whole) for whole in (False, True))
    assert terms.keys() == again.keys()
    assert gradients.keys() == others.keys()
    assert all(torch.equal(terms[name], again[name]) for name in terms)
    assert all(torch.equal(gradients[name], others[name]) for name in gradients)


def broken(graph: object, inputs: object) -> None:
    raise RuntimeError("no compiler here")


def test_what_cannot_be_compiled_runs_as_it_is_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "BACKEND", broken)
    notes: list[str] = []
    lenient = Compiled(lambda x: x + 1, graphs=True, must=False, note=notes.append)
    assert lenient(torch.ones(1)).item() == lenient(torch.ones(1)).item() == 2
    assert len(notes) == 1
    assert "no compiler here" in notes[0]
    with pytest.raises(UserError, match=r"no compiler here.*training\.compile to false"):
        Compiled(lambda x: x + 1, graphs=False, must=True, note=notes.append)(torch.ones(1))


def test_graphs_only_where_each_step_has_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(Step, "use_compiled", lambda self, graphs, must, note: asked.append(graphs))
    for pieces in (1, 2):
        recipe = load_recipe(tiny(tmp_path, training__compile=True, training__accumulate=pieces))
        session = open_session(recipe, None, Launched(), Progress(quiet=True))
        TrainStage(session, stages_of(recipe)[0], {"model.head.weight"}, *(None,) * 4)  # type: ignore[arg-type]
    assert asked == [True, False]


@pytest.mark.slow
def test_stopped_and_resumed_to_the_same_bits(
    tmp_path: Path, counter: CompileCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also from images on the device; the resumed training compiles its own graph."""
    changes = {"training__compile": True, "training__epochs": 2, "data__resident": True}
    whole = cl.train(tiny(tmp_path / "whole", **changes), quiet=True).path
    train_interrupted(tiny(tmp_path / "broken", **changes), 6, monkeypatch)
    state = sorted((tmp_path / "broken" / "state").glob("0*"))[-1]
    assert read_json(state / "position.json")["step"] > 0  # in the middle of an epoch
    cl.resume(tmp_path / "broken", quiet=True)
    same(whole, tmp_path / "broken")
    assert counter.frame_count == 3


@pytest.mark.slow
def test_two_processes_compile_too(tmp_path: Path) -> None:
    recipe, script = tmp_path / "recipe.yaml", tmp_path / "quick.py"
    one = cl.train(tiny(tmp_path / "one"), quiet=True).path
    write_text(recipe, recipe_yaml(load_recipe(tiny(tmp_path / "two", training__compile=True, training__accumulate=2))))
    write_text(script, QUICK + "import sys\nfrom conceptlens.cli import main\nsys.exit(main(sys.argv[1:]))")
    done = launch(str(script), "train", str(recipe), "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    assert losses(one) == pytest.approx(losses(tmp_path / "two"), abs=1e-4)


@pytest.mark.slow
def test_the_real_compiler_agrees(tmp_path: Path) -> None:
    """Generated code rounds otherwise; a training from the same start stays beside the plain one."""
    plain = cl.train(tiny(tmp_path / "plain"), quiet=True)
    quick = cl.train(tiny(tmp_path / "quick", training__compile=True), quiet=True)
    assert losses(plain.path) == pytest.approx(losses(quick.path), abs=1e-4)
    assert (plain.path / WEIGHTS).stat().st_size == (quick.path / WEIGHTS).stat().st_size


def test_a_draw_is_sent_whole() -> None:
    drawn = Draw(torch.randn(4, 2, 3), torch.rand(4, 3), recolors=False)
    sent = drawn.to(torch.device("cpu"))
    assert torch.equal(sent.affine, drawn.affine)
    assert torch.equal(sent.color, drawn.color)
    assert sent[1:3].recolors is False
