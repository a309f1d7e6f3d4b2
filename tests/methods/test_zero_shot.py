"""Zero-shot with texts whose vectors are known: every number can be worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import conceptlens as cl
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR
from conceptlens.methods.zero_shot import ZeroShot
from conceptlens.nn.setup import Setup
from conceptlens.runs.folder import RunFolder
from conceptlens.testing import ENCODER
from tests.conftest import CONCEPTS
from tests.training.tiny import tiny

WORDS = {"left": (1.0, 0.0), "a left": (0.0, 1.0), "right": (-1.0, 0.0), "a right": (-1.0, 0.0), "west": (0.6, 0.8)}


def embed(texts: Sequence[str]) -> Tensor:
    return torch.tensor([WORDS[text] for text in texts])


def made(concepts: ConceptSet) -> Setup:
    text = torch.tensor([(1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (-1.0, 0.0), (0.0, -1.0)])
    return Setup(concepts, text, 8, 2, ("left", "right"), embed)


def seen(*vector: float) -> Tokens:
    return Tokens(torch.zeros(1, 4, 8), (2, 2), aux={IMAGE_VECTOR: torch.tensor([vector])})


def test_classes_are_the_mean_of_their_prompts(concepts: ConceptSet) -> None:
    """left: (1, 0) and (0, 1), together (√½, √½); the image (0.6, 0.8) has the cosine 1.4 √½ with it."""
    model = ZeroShot(made(concepts), templates=["{class}", "a {class}"])
    output = model(seen(0.6, 0.8))
    torch.testing.assert_close(output.logits, torch.tensor([[140 * 0.5**0.5, -60.0]]))
    torch.testing.assert_close(output.concept_logits, torch.tensor([[60.0, 80.0, 100.0, -60.0, -80.0]]))


def test_what_decides_besides_concepts_is_declared(concepts: ConceptSet) -> None:
    model = ZeroShot(made(concepts), templates=["{class}"])
    assert model.bypass
    assert torch.equal(model.decide(model(seen(1.0, 0.0)).bottleneck), torch.zeros(1, 2))
    assert not list(model.parameters())


def test_other_words_for_a_class(concepts: ConceptSet) -> None:
    model = ZeroShot(made(concepts), templates=["{class}"], class_texts=["west", "right"], logit_scale=1.0)
    torch.testing.assert_close(model(seen(0.0, 1.0)).logits, torch.tensor([[0.8, 0.0]]))


TABLE = "by_class: {left: {size: big, color: red}, right: {size: small}}"


def test_concepts_decide_by_the_class_table(concepts: ConceptSet) -> None:
    """left: mean of `big` and `red`; right: `small` alone."""
    model = ZeroShot(made(ConceptSet.from_yaml(f"{CONCEPTS}\n{TABLE}")), through="concepts")
    output = model(seen(0.6, 0.8))
    torch.testing.assert_close(output.logits, torch.tensor([[(60.0 + 100.0) / 2, 80.0]]))
    torch.testing.assert_close(model.decide(output.bottleneck), output.logits)
    assert model.bypass is None
    assert model.supervision == "class-table"
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_what_cannot_be_done_is_said(concepts: ConceptSet) -> None:
    setup = made(concepts)
    with pytest.raises(UserError, match="by_class"):
        ZeroShot(setup, through="concepts")
    with pytest.raises(UserError, match=r"\{class\}"):
        ZeroShot(setup, templates=["a photo"])
    with pytest.raises(UserError, match="class_texts"):
        ZeroShot(setup, class_texts=["one"])
    with pytest.raises(UserError, match=r"encoder\.text"):
        ZeroShot(replace(setup, text=torch.zeros(5, 3)), templates=["{class}"])(seen(1.0, 0.0))


def test_a_run_measures_the_encoder_as_it_comes(tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run", method={"name": "zero-shot"}, encoder=ENCODER)
    assert cl.estimate(recipe).learning_parameters == 0
    run = cl.train(recipe, quiet=True)
    test = read_json(run.path / "metrics.json")["splits"]["test"]
    assert test["concept"]["auc"] is not None
    assert RunFolder.open(run.path).info["bypass"].startswith("the likeness")
    assert "prompts" in (run.path / "report.html").read_text("utf-8")


def test_an_encoder_without_words_is_refused(tmp_path: Path) -> None:
    options = {**ENCODER, "options": {"width": 32, "depth": 2, "heads": 2}}
    with pytest.raises(UserError, match="text tower"):
        cl.train(tiny(tmp_path / "run", method={"name": "zero-shot"}, encoder=options), quiet=True)
