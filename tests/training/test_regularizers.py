"""Every registered regularizer trains, resumes to the same bits, and leaves a run that loads without it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import conceptlens as cl
from conceptlens.core.files import read_json, write_text
from conceptlens.core.processes import Launched
from conceptlens.core.registry import REGULARIZERS
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.runs.saved import load_pipeline
from conceptlens.training import loop
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session
from tests.nn.quantization.test_library_vq import INSTALLED
from tests.training.test_processes import launch, losses, numbers
from tests.training.test_resume import history, same
from tests.training.tiny import tiny

VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"name": name} for name in REGULARIZERS.names()},
    "barlow-twins over patches": {"name": "barlow-twins", "over": "patches"},
    "spectral-norm, normalize": {"name": "spectral-norm", "mode": "normalize"},
}
LIBRARY = ("explicit-vq-ema", "explicit-vq-rotation")
NEW = [name for name in VARIANTS if name not in ("none", "ivq", "explicit-vq", "l2")]


def skip_without_library(name: str) -> None:
    if name in LIBRARY and not INSTALLED:
        pytest.skip("vector-quantize-pytorch is not installed (conceptlens[vq])")


def small(out: Path, name: str, **changes: Any) -> dict[str, Any]:
    recipe = {"training__epochs": 2, "data__shapes__n": 64, "metrics__bootstrap": 0, **changes}
    return tiny(out, regularizer=VARIANTS[name], **recipe)


@pytest.mark.parametrize("name", VARIANTS)
def test_recipes_accept_it_and_every_one_has_a_weight(name: str) -> None:
    recipe = load_recipe({"data": "shapes", "regularizer": VARIANTS[name]})
    assert recipe.regularizer["name"] == VARIANTS[name]["name"]
    assert ("weight" in recipe.regularizer) == (name != "none")
    again = load_recipe({"data": "shapes", "regularizer": recipe.regularizer})
    assert again.regularizer == recipe.regularizer


def train_until(step: int, recipe: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that is interrupted as it begins this step."""
    real, calls = loop.draw_views, []

    def draw_views(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == step:
            raise KeyboardInterrupt
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "draw_views", draw_views)
        with pytest.raises(KeyboardInterrupt):
            cl.train(recipe, quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_resumed_is_the_same_run_and_loads_plainly(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_library(name)
    whole, out = tmp_path / "whole", tmp_path / "out"
    changes = {"training__ema": 0.9, "training__checkpoint_every": 1}
    run = cl.train(small(whole, name, **changes), quiet=True)
    train_until(4, small(out, name, **changes), monkeypatch)  # of two epochs of two steps
    position = read_json(sorted((out / "state").glob("0*"))[-1] / "position.json")
    assert (position["total_epochs"], position["step"]) == (1, 1)
    cl.resume(out, quiet=True)
    same(whole, out)
    pipeline = load_pipeline(run.path)[0]
    if name not in LIBRARY:
        assert not any(key.startswith("regularizer.") for key in pipeline.state_dict())
    assert not any("parametrizations" in key for key in pipeline.state_dict())
    lines = [line for line in history(run.path) if "loss_class" in line]
    terms = {"barlow-twins": "barlow", "gram": "gram", "spectral-norm": "spectral"}
    term = terms.get(str(VARIANTS[name]["name"]), "commitment")
    assert all((f"loss_{term}" in line) == (name != "spectral-norm, normalize") for line in lines)


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_reach_the_encoder_and_every_learning_parameter(name: str, tmp_path: Path) -> None:
    from conceptlens.methods.build import rest_idle_parameters
    from conceptlens.training.start import meet_encoder

    skip_without_library(name)
    session = open_session(load_recipe(small(tmp_path, name)), None, Launched(), Progress(quiet=True))
    pipeline = session.pipeline
    images = session.reader.batch(session.splits.train[:4])
    meet_encoder(pipeline)
    idle = rest_idle_parameters(pipeline, images)
    assert idle == ["encoder.norm.weight", "encoder.norm.bias"]  # whatever the regularizer: no output reads them
    with torch.no_grad():  # away from the start, where an anchored loss has no slope
        pipeline.encoder.trunk[0].out.bias.add_(torch.randn(32))
    views = [images, images.flip(-1)] if pipeline.regularizer.second_view else [images]
    output = pipeline.train()(*views)
    assert all(value.shape == (4,) for value in output.losses.values())
    weighted = sum(value.mean() for value in output.losses.values())
    if isinstance(weighted, torch.Tensor):
        slopes = torch.autograd.grad(
            weighted, list(pipeline.encoder.trunk[-1].parameters()), retain_graph=True, allow_unused=True
        )
        assert sum(float(slope.abs().sum()) for slope in slopes if slope is not None) > 0
    (output.logits.sum() + output.concept_logits.sum() + weighted).backward()
    for key, parameter in pipeline.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, key


@pytest.mark.parametrize("aggregate", ["magnet", "cross-attention", "cls", "mean"])
def test_every_aggregator_trains(aggregate: str, tmp_path: Path) -> None:
    run = cl.train(small(tmp_path / "run", "ivq", method__aggregate=aggregate), quiet=True)
    output = load_pipeline(run.path)[0](torch.rand(2, 3, 32, 32))
    slots = output.slots.shape[1]
    assert slots == (output.concept_logits.shape[1] if aggregate in ("magnet", "cross-attention") else 1)
    assert (output.attention is None) == (slots == 1)
    if aggregate == "cross-attention":
        torch.testing.assert_close(output.attention.sum(-1), torch.ones(2, slots))


@pytest.mark.slow
def test_first_views_and_so_supervision_do_not_depend_on_the_second(tmp_path: Path) -> None:
    """With a weight of 0, Barlow Twins is the same training as no regularizer."""
    none = cl.train(small(tmp_path / "none", "none"), quiet=True)
    barlow = small(tmp_path / "barlow", "barlow-twins")
    barlow["regularizer"] = {"name": "barlow-twins", "weight": 0.0}
    trained = cl.train(barlow, quiet=True)
    ours = [line["loss_class"] for line in history(trained.path) if "loss_class" in line]
    assert ours == pytest.approx([line["loss_class"] for line in history(none.path) if "loss_class" in line], rel=1e-5)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "none"])
def test_frozen_encoders_are_refused(name: str, tmp_path: Path) -> None:
    skip_without_library(name)
    with pytest.raises(cl.UserError, match="frozen"):
        cl.train(small(tmp_path / "run", name, encoder__train="none"), quiet=True)
    assert not (tmp_path / "run").exists()


def test_two_views_of_stored_tokens_are_refused_and_one_is_not(tmp_path: Path) -> None:
    stored = {"encoder__train": 1, "encoder__store": "run"}
    with pytest.raises(cl.UserError, match=r"second view .* encoder\.store"):
        cl.train(small(tmp_path / "run", "barlow-twins", **stored), quiet=True)
    assert not (tmp_path / "run").exists()
    for name in ("gram", "spectral-norm"):
        run = cl.train(small(tmp_path / name, name, **stored), quiet=True)
        assert read_json(run.path / "run.json")["status"] == "done"


def test_an_anchor_must_be_the_encoder_that_the_run_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    train_until(4, small(out, "gram"), monkeypatch)
    info = read_json(out / "run.json")
    write_text(out / "run.json", (out / "run.json").read_text().replace(info["encoder"]["hash"], "0" * 16))
    with pytest.raises(cl.UserError, match="anchored"):
        cl.resume(out, quiet=True)


@pytest.mark.slow
def test_a_stage_in_which_the_encoder_rests(tmp_path: Path) -> None:
    stages = [{"name": "all", "epochs": 1}, {"name": "head", "epochs": 1, "train": ["model"]}]
    for name in ("spectral-norm", "spectral-norm, normalize", "gram"):
        run = cl.train(small(tmp_path / name, name, training__stages=stages), quiet=True)
        assert len(loop.stages_of(load_recipe(run.path / "recipe.yaml"))) == 2
        assert read_json(run.path / "run.json")["status"] == "done"


@pytest.mark.slow
def test_a_dry_run_counts_the_second_view(tmp_path: Path) -> None:
    from conceptlens.training.cost import estimate

    memory = {}
    for name in ("none", "barlow-twins", "gram", "spectral-norm, normalize"):
        session = open_session(load_recipe(small(tmp_path, name)), None, Launched(), Progress(quiet=True))
        memory[name] = estimate(session, steps=1).memory_mb
    assert memory["barlow-twins"] > memory["none"]  # both views are kept for the gradient


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_two_processes_equal_one(name: str, tmp_path: Path) -> None:
    skip_without_library(name)
    one = cl.train(small(tmp_path / "one", name), quiet=True).path
    recipe, two = tmp_path / "recipe.yaml", tmp_path / "two"
    write_text(recipe, recipe_yaml(load_recipe(small(two, name))))
    done = launch("-m", "conceptlens", "train", str(recipe), "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    np.testing.assert_allclose(losses(one), losses(two), atol=1e-4)
    a, b = (numbers(read_json(run / "metrics.json")) for run in (one, two))
    for key in a:
        assert np.isclose(a[key], b[key], atol=1e-3), key
