"""What every registered method keeps to, with a two-block encoder: a new method is tested by being registered."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch
from torch import nn

import conceptlens as cl
from conceptlens.core.files import read_json
from conceptlens.core.registry import METHODS
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.cbm import CBM
from conceptlens.methods.contract import ConceptOutput, Supervision
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe, recipe_names
from conceptlens.testing import CHECKS, build, check_method, images, is_fitted, supervised
from conceptlens.workflows.compare.file import SUPERVISIONS
from tests.training.tiny import tiny

every = pytest.mark.parametrize("name", METHODS.names())


@every
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_it_conforms(name: str, check: Callable[[str], None]) -> None:
    check(name)


def test_supervisions_are_those_that_comparisons_know() -> None:
    assert get_args(Supervision) == SUPERVISIONS


class Wrong(CBM):
    """Breaks the contract as an option says."""

    def __init__(self, setup: Setup, *, breaks: str = "nothing") -> None:
        super().__init__(setup)
        self.breaks = breaks
        if breaks == "gradient":
            self.idle = nn.Parameter(torch.ones(1))

    def forward(self, tokens: Tokens) -> ConceptOutput:
        output = super().forward(tokens)
        if self.breaks == "batch":
            output.logits = output.logits + output.logits.sum()
        if self.breaks == "decision":
            output.logits = output.logits + 1
        if self.breaks == "gradient":
            output.logits = output.logits + 0 * self.idle
        if self.breaks == "declaration":
            output.attention = torch.ones(len(output.logits), 1, 16)
        return output


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        ("declaration", "has_attention"),
        ("batch", "not close"),
        ("decision", "not close"),
        ("gradient", r"model\.idle: its gradient is zero"),
    ],
)
def test_a_third_partys_method_that_does_not_conform_is_told(breaks: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_method(Wrong, breaks=breaks)


def test_a_third_partys_method_that_conforms_passes() -> None:
    check_method(Wrong)
    check_method("conceptlens.methods.cbm:CBM", class_gradient=0.0)
    assert "checked-wrong" not in METHODS.entries


@every
def test_its_ready_recipe_is_its_own(name: str) -> None:
    if f"blood-cells/{name}" in recipe_names():
        assert load_recipe(f"blood-cells/{name}").method["name"] == name


ENCODER_ONLY = {"mvp-cbm-released": "its published code trains encoder and class head, not the twelve maps between"}


@every
def test_a_few_drawings_are_learned_by_heart(name: str) -> None:
    """Six drawings, behind an encoder that stays as it is: a gradient that leads nowhere would show."""
    if name in ENCODER_ONLY:
        pytest.skip(ENCODER_ONLY[name])
    pipeline = build(name)
    pipeline.encoder.requires_grad_(False)
    learning = [value for value in pipeline.parameters() if value.requires_grad]
    if not learning or is_fitted(name):
        pytest.skip("nothing is trained by gradients")
    loss, targets = supervised(name)
    with torch.no_grad():
        tokens = pipeline.encoder(images())
    optimizer = torch.optim.AdamW(learning, lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        output = pipeline.model.teach(pipeline.read(tokens), targets.concepts)
        sum(loss(output, targets, loss.count(targets)).values()).backward()
        optimizer.step()
    with torch.no_grad():
        right = pipeline.read(tokens).logits.argmax(1) == targets.labels
    assert int(right.sum()) >= 5


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Tokens of the package's encoder, for all methods."""
    return str(tmp_path_factory.mktemp("tokens") / "store")


OPTIONS = {
    "clear": {"score_hidden": 64, "score_steps": 200},
    "vlg-cbm": {"crop": 0.0},  # drawings have parts, not boxes of concepts
    "dcbm": {"images": 10},
    "dcbm-visual": {"images": 10},
}
SETTINGS = {  # the published IVQ-CBM and its equations learn slowly from frozen tokens: near chance after 8 epochs
    "explicd-released": {"learning_rate": 3e-4},
    "ivq-cbm-released": {"learning_rate": 3e-4, "epochs": 24},
    "ivq-cbm-as-printed": {"epochs": 24},
}
STATED = dict.fromkeys(
    ("labo", "labo-released"), 0.31
)  # texts alone, of drawings the encoder knows nothing of: chance + 2 sd
TOO_LITTLE = {
    "explicd-released": "a scale of 100 on raw frozen tokens: 0.31 after these few steps",
    "mvp-cbm-released": "nothing between encoder and class head learns, and here the encoder is frozen: 0.26",
    "clear": "eight of 36 texts, of an encoder that knows nothing of drawings: 0.29",
}
UNTRAINED = {"zero-shot": "nothing is trained, and the creatures' names are made up"}


@pytest.mark.slow
@every
def test_learns_shapes(name: str, store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Which of four creatures, on 200 test drawings, from tokens of the frozen encoder.

    One who guesses has 0.25 ± 0.03. The class hangs on several concepts at once: a logistic regression on the
    encoder's class token reaches 0.45 from 300 drawings.
    """
    if name in UNTRAINED:
        pytest.skip(UNTRAINED[name])
    if name in TOO_LITTLE:
        request.applymarker(pytest.mark.xfail(reason=TOO_LITTLE[name], strict=True))
    changes = {
        "method": {"name": name, **OPTIONS.get(name, {})},
        "regularizer": {"name": "none"},  # they act on what the encoder learns
        "data__shapes": {"n": 1000, "size": 64},
        "encoder": {"name": "builtin/vit", "train": "none", "image_size": 64, "store": store},
        "training": {"epochs": 8, "batch_size": 32, "learning_rate": 3e-3, "warmup": 1, "rank_every": 0, "threads": 1}
        | SETTINGS.get(name, {}),
        "metrics": {"bootstrap": 0, "rank_images": 0},
    }
    run = cl.train(tiny(tmp_path / "run", **changes), quiet=True)
    test = read_json(run.path / "metrics.json")["splits"]["test"]
    assert test["class"]["balanced_accuracy"] >= STATED.get(name, 0.35)
