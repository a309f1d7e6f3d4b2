"""Stages that fit: files that agree with each other, kill and resume, several processes, refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import conceptlens as cl
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json, write_text
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.runs.saved import load_pipeline
from tests.training.test_processes import launch, numbers
from tests.training.test_resume import run_and_kill, same
from tests.training.tiny import tiny


def fitted(out: Path, method: str, **changes: Any) -> dict[str, Any]:
    """A recipe that fits in a second; the encoder has a text tower, without having learned what texts mean."""
    training = changes.pop("training", {})
    recipe = tiny(out, method__name=method, method__lam=0.02, encoder__options__text_width=384, **changes)
    recipe["training"] = {"threads": 1, "rank_every": 0} | training
    return recipe


CHOOSY = {"method__activation": 0.2, "method__activation_by": "quantile", "method__interpretability": 0.1}


def pixels() -> torch.Tensor:
    return torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def choosy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LF-CBM that leaves some concepts out."""
    out = tmp_path_factory.mktemp("choosy") / "run"
    return cl.train(fitted(out, "lf-cbm", **CHOOSY), quiet=True).path


def test_the_files_of_a_run_speak_of_the_chosen_concepts(choosy: Path) -> None:
    concepts, info = ConceptSet.load(choosy / "concepts.yaml"), read_json(choosy / "run.json")
    dropped = {entry["concept"]: entry["reason"] for entry in info["dropped_concepts"]}
    assert 0 < len(concepts) < len(concepts.whole) == info["concepts"]["offered"]
    assert set(dropped) == set(concepts.whole.names) - set(concepts.names)
    assert all(dropped.values())
    assert info["concepts"]["hash"] == concepts.fingerprint
    assert info["concepts"]["offered_hash"] == concepts.whole.fingerprint
    weights = load_file(choosy / "model" / "weights.safetensors")
    assert len(weights["model.vectors"]) == len(weights["model.text"]) == len(concepts)
    assert weights["model.head.weight"].shape[1] == len(concepts)
    assert len(read_json(choosy / "model" / "model.json")["concept_priors"]) == len(concepts)
    assert not (choosy / "fit").exists()
    assert not (choosy / "state").exists()


def test_it_can_be_used_and_measured(choosy: Path) -> None:
    pipeline, _, concepts = load_pipeline(choosy)
    output = pipeline(pixels())
    assert output.concept_logits.shape == (3, len(concepts))
    assert torch.equal(pipeline.model.decide(output.bottleneck), output.logits)
    measured = cl.evaluate(choosy, split="test").metrics
    stored = read_json(choosy / "metrics.json")["splits"]["test"]
    assert measured["class"] == stored["class"]
    assert measured["concept"] == stored["concept"]


@pytest.mark.parametrize("method", ["pcbm", "pcbm-text", "pcbm-h"])
def test_what_was_fitted_is_what_is_loaded(method: str, tmp_path: Path) -> None:
    run = cl.train(fitted(tmp_path / "run", method), quiet=True)
    history = run.read_history()
    assert history[0]["kind"] == "fit"
    assert history[0]["duality_gap"] <= 1e-4
    measured = cl.evaluate(run.path, split="val").metrics["class"]["balanced_accuracy"]
    seen = [line["class.balanced_accuracy"] for line in history if line["split"] == "val"]
    assert measured == pytest.approx(max(seen[1:] or seen))  # of a stage behind the fit, the best epoch
    assert (run.info["bypass"] is not None) == (method == "pcbm-h")
    assert len(history) == (42 if method == "pcbm-h" else 2)  # a fit and twenty epochs, each with its validation


@pytest.mark.slow
def test_only_the_residual_is_trained_after_the_fit(tmp_path: Path) -> None:
    """Epochs leave everything that was fitted as it was; the encoder as it came."""
    first = fitted(tmp_path / "fit", "pcbm")
    second = fitted(tmp_path / "both", "pcbm-h", training={"select": "-class.ece"})
    second["training"]["stages"] = [
        {"name": "fit", "kind": "fit"},
        {"name": "residual", "epochs": 2, "train": ["model.residual"]},
    ]
    weights = [load_file(cl.train(each, quiet=True).path / "model" / "weights.safetensors") for each in (first, second)]
    added = set(weights[1]) - set(weights[0])
    assert added == {"model.residual.weight", "model.residual.bias"}
    assert float(weights[1]["model.residual.weight"].abs().sum()) > 0
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


@pytest.mark.slow
def test_killed_again_and_again(choosy: Path, tmp_path: Path) -> None:
    """In turn: in the middle of the fit, while its state is written, before the run's files follow, while measuring."""
    out, recipe = tmp_path / "run", tmp_path / "recipe.yaml"
    write_text(recipe, recipe_yaml(load_recipe(fitted(out, "lf-cbm", **CHOOSY))))
    run_and_kill(("conceptlens.methods.lf_cbm", "LFCBM.standardize", 1), "train", str(recipe), "--quiet")
    assert (out / "fit").exists()
    run_and_kill(("conceptlens.training.records.checkpoint", "save_file", 2), "resume", str(out), "--quiet")
    run_and_kill(("conceptlens.training.session", "Session.write_choice", 1), "resume", str(out), "--quiet")
    assert "left_out" not in (out / "concepts.yaml").read_text()
    assert len(list((out / "state").glob("0*"))) == 1
    run_and_kill(("conceptlens.training.train", "save_model", 1), "resume", str(out), "--quiet")
    assert "left_out" in (out / "concepts.yaml").read_text()
    cl.resume(out, quiet=True)
    same(choosy, out)
    assert (out / "concepts.yaml").read_text() == (choosy / "concepts.yaml").read_text()
    for key in ("concepts", "dropped_concepts", "data"):
        assert read_json(out / "run.json")[key] == read_json(choosy / "run.json")[key]
    assert not (out / "fit").exists()


@pytest.mark.slow
def test_killed_in_the_stage_after_the_fit(tmp_path: Path) -> None:
    whole, out, recipe = tmp_path / "whole", tmp_path / "run", tmp_path / "recipe.yaml"
    short = {"stages": [{"name": "fit", "kind": "fit"}, {"name": "more", "epochs": 3, "train": ["model.residual"]}]}
    cl.train(fitted(whole, "pcbm-h", training=short), quiet=True)
    write_text(recipe, recipe_yaml(load_recipe(fitted(out, "pcbm-h", training=short))))
    run_and_kill(("conceptlens.training.optimization.step", "augment", 2), "train", str(recipe), "--quiet")
    cl.resume(out, quiet=True)
    same(whole, out)


@pytest.mark.slow
def test_two_processes_equal_one(choosy: Path, tmp_path: Path) -> None:
    recipe, two = tmp_path / "recipe.yaml", tmp_path / "two"
    write_text(recipe, recipe_yaml(load_recipe(fitted(two, "lf-cbm", **CHOOSY))))
    done = launch("-m", "conceptlens", "train", str(recipe), "--quiet")
    assert done.returncode == 0, done.stderr[-3000:]
    a, b = (numbers(read_json(run / "metrics.json")) for run in (choosy, two))
    assert a.keys() == b.keys()
    for name in a:
        assert np.isclose(a[name], b[name], atol=1e-3), name
    assert (two / "concepts.yaml").read_text() == (choosy / "concepts.yaml").read_text()


def test_a_second_encoder_gives_the_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own image size and text vectors; with random texts they stay random. It is not a part of the model."""
    from conceptlens.encoders.builtin.vit import BuiltinViT
    from conceptlens.training.batches import fit_data

    torch.manual_seed(5)
    second = BuiltinViT(image_size=40, width=16, depth=1, heads=1, registers=0, text_width=24, name="builtin/other")
    monkeypatch.setattr(fit_data, "make_encoder", lambda config: second)
    keep = {"activation": -1.0, "activation_by": "value", "interpretability": -1.0, "concept_similarity": 1.0}
    changes = {f"method__{name}": value for name, value in keep.items()}
    recipe = fitted(tmp_path / "run", "lf-cbm", method__targets="builtin/other", **changes)
    recipe["encoder"]["text"] = "builtin/random-text"
    seen = []
    real = fit_data._assemble
    monkeypatch.setattr(fit_data, "_assemble", lambda *args: seen.append(real(*args)) or seen[-1])
    run = cl.train(recipe, quiet=True)
    (data,) = seen
    assert data.text.shape == (36, 24)
    assert data.train.image_text.shape == (len(data.train), 24)
    weights = load_file(run.path / "model" / "weights.safetensors")
    assert not [name for name in weights if "to_text" in name and weights[name].shape[0] == 24]


def test_an_encoder_that_learns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cl.UserError, match=r"needs a frozen encoder.*encoder.train: none"):
        cl.train(fitted(tmp_path / "run", "pcbm", encoder__train="all"), quiet=True)


def test_an_encoder_without_texts_is_refused(tmp_path: Path) -> None:
    recipe = fitted(tmp_path / "run", "lf-cbm")
    recipe["encoder"]["options"]["text_width"] = 0
    with pytest.raises(cl.UserError, match=r"method.targets: builtin/vit.* no text tower"):
        cl.train(recipe, quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_method_that_trains_has_nothing_to_fit(tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run", encoder__train="none", regularizer__name="none")
    recipe["training"]["stages"] = [{"name": "fit", "kind": "fit"}]
    with pytest.raises(cl.UserError, match="trains by gradients"):
        cl.train(recipe, quiet=True)


def test_a_regularizer_of_the_concepts_size_does_not_go_with_choosing(tmp_path: Path) -> None:
    from conceptlens.training.train import open_session

    session = open_session(load_recipe(tiny(tmp_path / "run")), None, *_alone())
    concepts = session.blueprint.concepts
    with pytest.raises(cl.UserError, match="regularizer: none"):
        session.choose(concepts.subset([0, 1]))


def _alone() -> tuple[Any, Any]:
    from conceptlens.core.processes import Launched
    from conceptlens.training.records.progress import Progress

    return Launched(), Progress(quiet=True)
