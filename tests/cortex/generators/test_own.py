"""Models of third parties: objects that fulfil the contract, and functions that make them."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from conceptlens import cortex
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.core.plugins import _allowed
from conceptlens.cortex.generators.adapted import AdaptedVQ
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.study import open_study
from conceptlens.testing import check_vq_model
from tests.cortex.tiny import TinyVQ


class Foreign:
    """No class of ours: what a third party might have, here by way of the small one."""

    name, image_size, classes = "theirs", 32, ("red", "green", "blue")

    def __init__(self) -> None:
        self.inner = TinyVQ()
        self.grid, self.image_size = self.inner.grid, self.inner.image_size
        self.codebook = self.inner.codebook

    def encode(self, images: Tensor) -> Tensor:
        return self.inner.encode(images)

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        return self.inner.decode_embeddings(embeddings)

    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        if condition is not None and condition.class_name not in (None, *self.classes):
            raise UserError("unknown class")
        return self.inner.generate(condition, n, seed=seed)


def test_an_object_that_fulfils_the_contract_will_do() -> None:
    model = open_model(Foreign())
    assert isinstance(model, AdaptedVQ)
    assert (model.name, model.generates, model.decodes, model.attributes) == ("theirs", True, True, {})
    check_vq_model(Foreign())
    check_vq_model(TinyVQ())
    with pytest.raises(UserError, match="it has no codebook, encode, image_size, grid"):
        open_model(object())


class Wrong(Foreign):
    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        return torch.randint(4, (n, *self.grid))


class Blind(Foreign):
    def encode(self, images: Tensor) -> Tensor:
        return torch.zeros(len(images), *self.grid)


class TwoNeutrals(TinyVQ):
    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        return super().generate(condition, n, seed=seed if condition is None else seed + 1)


def test_a_foreign_model_is_asked_for_neutral_in_one_way() -> None:
    asked = []

    class Remembers(Foreign):
        def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
            asked.append(condition)
            return super().generate(condition, n, seed=seed)

    model = open_model(Remembers())
    for condition in (None, Condition(), Condition("red")):
        model.generate(condition, 1)
    assert asked == [None, None, Condition("red")]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(Wrong, "a seed makes the tokens"), (Blind, "whole numbers"), (TwoNeutrals, "are the same, neutral")],
)
def test_the_contract_test_says_what_is_wrong(wrong: type[VQModel | Foreign], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_vq_model(wrong())


def test_a_function_of_the_users_own_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from tests.cortex.tiny import TinyVQ\n\ndef build():\n    return TinyVQ()\n")
    few = ["--samples-per-concept", "12", "--epochs", "1", "--batch-size", "8", "--filters", "4", "--hidden", "8"]
    study = str(tmp_path / "study")
    assert main(["codebook", "extract", f"{file}:build", "--out", study, "--quiet", *few]) == 0
    about = json.loads((tmp_path / "study" / "run.json").read_text())["model"]
    assert about["name"] == f"{file.resolve()}:build"
    capsys.readouterr()
    _allowed.discard(str(file.resolve()))
    assert main(["codebook", "tokens", study]) == 2  # a folder may not have code run by itself
    assert "--allow-code" in capsys.readouterr().err
    more = ["--tokens-per-image", "3", "--tokens-per-concept", "4", "--noise-samples", "2"]
    assert main(["codebook", "tokens", study, "--allow-code", str(file), *more]) == 0


class Stops(TinyVQ):
    """Breaks off after some chunks."""

    calls, most = 0, 4

    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        self.calls += 1
        if self.calls > self.most:
            raise KeyboardInterrupt
        return super().generate(condition, n, seed=seed)


def test_sampling_that_was_stopped_goes_on(tmp_path: Path) -> None:
    options = {"samples_per_concept": 80, "epochs": 1, "batch_size": 8, "filters": 4, "hidden": 8}
    model = Stops()
    with pytest.raises(KeyboardInterrupt):
        cortex.extract(model, out=tmp_path / "a", **options)  # type: ignore[arg-type]
    kept = list((tmp_path / "a").glob(".drawn-*/*.safetensors"))
    assert len(kept) == 1  # three concepts were drawn for the first chunk
    with pytest.raises(UserError, match="begun here with another model"):
        cortex.extract(model, out=tmp_path / "a", **{**options, "seed": 1})  # type: ignore[arg-type]
    model.calls, model.most = 0, 99
    study = cortex.extract(model, out=tmp_path / "a", **options)  # type: ignore[arg-type]
    assert model.calls == 6  # two of three chunks
    assert not list((tmp_path / "a").glob(".drawn-*"))
    whole = cortex.extract(TinyVQ(), out=tmp_path / "b", **options)  # type: ignore[arg-type]
    for split, samples in whole.samples.items():
        assert torch.equal(samples.tokens, study.samples[split].tokens)
    with pytest.raises(UserError, match="a study is here already"):
        cortex.extract(model, out=tmp_path / "a", **options)  # type: ignore[arg-type]
    assert open_study(tmp_path / "a", model=TinyVQ()).extractor.card.concepts == ("red", "green", "blue")
