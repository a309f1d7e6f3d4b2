"""Codebook studies on another device than the host's say the same: nothing is mixed, and nothing is drawn otherwise."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from conceptlens import cortex
from conceptlens.core.files import read_json
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions
from tests.cortex.generators import test_llamagen, test_var, test_vqgan
from tests.cortex.tiny import TinyVQ, save_small_generator
from tests.second_device import second_device

FEW: dict[str, Any] = {"samples_per_concept": 10, "epochs": 1, "batch_size": 8, "filters": 4, "hidden": 8}


def everything(model: VQModel, out: Path) -> dict[str, Any]:
    """All analyses of one small study; what is written, by file."""
    study = cortex.extract(model, out=out / "study", **FEW)
    steps = SearchSettings(steps=2)
    cortex.tokens(study, tokens_per_image=3, tokens_per_concept=3, noise_samples=2)
    cortex.search(study, "red", starts=2, settings=steps)
    cortex.edit(study, to="green", region="center 4x4", sample=0, settings=steps)

    def judge(images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)).softmax(1)

    own = {"mean color": judge}
    cortex.mask(study, judge=own, counts=(2,), tokens_per_image=3, samples_per_concept=2)
    cortex.pairs(study, judge=own, pair=["red; green"], n=2, settings=steps)
    sizes = cortex.extract(model, out=out / "sizes", concepts=["size=small", "size=big"], **FEW)
    cortex.measure_bias([sizes], tokens_per_image=[3], tokens_per_concept=3, neutral=8, permutations=5)
    written = {}
    for file in sorted(out.rglob("codebook/**/*.json")):
        written[str(file.relative_to(out))] = read_json(file)
    return written


@pytest.mark.slow
def test_a_study_is_the_same_on_another_device(tmp_path: Path) -> None:
    near = everything(TinyVQ(), tmp_path / "near")
    with second_device() as device, mock.patch("conceptlens.cortex.study.best_device", return_value=device):
        assert everything(TinyVQ(), tmp_path / "far") == near
    assert len(near) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("network", ["RE", "TE"])
def test_other_extractors_are_the_same_on_another_device(network: str, tmp_path: Path) -> None:
    few = {name: value for name, value in FEW.items() if name not in ("filters", "hidden")}
    size: dict[str, Any] = {"filters": 4, "hidden": 8} if network == "RE" else {"hidden": 8}

    def sets(out: Path) -> Any:
        study = cortex.extract(TinyVQ(), out=out, network=network, **few, **size)  # type: ignore[arg-type]
        return cortex.tokens(study, tokens_per_image=3, tokens_per_concept=3, noise_samples=2).data

    near = sets(tmp_path / "near")
    with second_device() as device, mock.patch("conceptlens.cortex.study.best_device", return_value=device):
        assert sets(tmp_path / "far") == near


def opened(name: str, folder: Path) -> VQModel:
    """Small models in published files."""
    if name == "built-in":
        return open_model(save_small_generator(folder / "small", "disc", "ring", side=32))
    if name == "taming":
        state = {f"first_stage_model.{key}": value for key, value in test_vqgan.tiny_state().items()}
        state |= {f"transformer.{key}": value for key, value in test_vqgan.transformer_state().items()}
        torch.save({"state_dict": state}, folder / "both.ckpt")
        return open_model(folder / "both.ckpt", image_size=16, checkpoint=CheckpointOptions(heads=16, classes=12))
    if name == "LlamaGen":
        torch.save({"model": test_llamagen.in_its_names(test_vqgan.tiny_state())}, folder / "vq.pt")
        torch.save({"model": test_llamagen.model_state()}, folder / "t.pt")
        told = CheckpointOptions(transformer=str(folder / "t.pt"), heads=4)
    else:
        torch.save(test_var.tokenizer_state(), folder / "vq.pt")
        torch.save(test_var.transformer_state(), folder / "t.pt")
        told = CheckpointOptions(transformer=str(folder / "t.pt"))
    return open_model(folder / "vq.pt", image_size=16, checkpoint=told)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["built-in", "taming", "LlamaGen", "VAR"])
def test_generators_are_the_same_on_another_device(name: str, tmp_path: Path) -> None:
    model = opened(name, tmp_path)
    images = torch.rand(2, 3, model.image_size, model.image_size)
    condition = Condition(class_name=model.classes[1])

    def said(place: torch.device) -> list[torch.Tensor]:
        at = model.to(place)
        tokens = at.encode(images.to(place))
        drawn = at.generate(condition, 3, seed=4)
        return [tokens.cpu(), at.decode(tokens).cpu(), drawn.cpu(), at.decode(drawn.to(place)).cpu()]

    near = said(torch.device("cpu"))
    with second_device() as device:
        far = said(device)
    for one, other in zip(near, far, strict=True):
        assert torch.equal(one, other)
