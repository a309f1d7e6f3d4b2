"""The concept bottleneck of Koh et al.: who learns from what in its three kinds."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import conceptlens as cl
from conceptlens import testing as conformance
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.cbm import CBM
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe
from conceptlens.training.optimization.step import Step
from tests.training.tiny import tiny


def tokens(batch: int = 3) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    patches = torch.randn(batch, 9, 8, generator=generator)
    return Tokens(patches, (3, 3), cls=patches[:, 0])


KINDS: dict[str, dict[str, Any]] = {
    "joint": {},
    "sequential": {"space": "probability", "class_gradient": 0.0},
    "independent": {"space": "probability", "class_gradient": 0.0, "randint": 1.0},
}
LABELS = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0], [1, 0, -1, -1, 1]])


def test_joint_is_two_linear_maps_on_logits(setup: Setup) -> None:
    model, seen = CBM(setup), tokens()
    output = model(seen)
    scores = seen.cls @ model.concepts.weight.T + model.concepts.bias
    torch.testing.assert_close(output.concept_logits, scores)
    torch.testing.assert_close(output.logits, scores @ model.head.weight.T + model.head.bias)
    assert model.space == "logit"


def test_others_read_probabilities(setup: Setup) -> None:
    """Softmax over size and over color, sigmoid for the extra."""
    model = CBM(setup, **KINDS["sequential"], pool="mean")
    with torch.no_grad():
        model.concepts.weight.zero_()
        model.concepts.bias.copy_(torch.tensor([0.0, 0.0, torch.log(torch.tensor(3.0)), 0.0, 0.0]))
    output = model(tokens(1))
    torch.testing.assert_close(output.bottleneck, torch.tensor([[0.5, 0.5, 0.75, 0.25, 0.5]]))
    assert model.space == "probability"


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_joint_class_moves_the_concepts(setup: Setup, kind: str) -> None:
    model = CBM(setup, **KINDS[kind])
    output = model.teach(model(tokens()), LABELS)
    F.cross_entropy(output.logits, torch.tensor([0, 1, 0])).backward()
    assert (model.concepts.weight.grad is not None) is (kind == "joint")
    assert model.head.weight.grad is not None


def test_an_independent_head_learns_from_true_concepts(setup: Setup) -> None:
    """Its gradient is that of a linear classifier on the labels; unknown ones are what the model says."""
    model = CBM(setup, **KINDS["independent"])
    output = model(tokens())
    tested = output.logits.clone()
    read = LABELS.float()
    read[2, 2:4] = output.bottleneck[2, 2:4].detach()
    taught = model.teach(output, LABELS)
    torch.testing.assert_close(taught.logits, read @ model.head.weight.T + model.head.bias)
    assert not torch.allclose(taught.logits, tested)
    torch.testing.assert_close(model(tokens()).logits, tested)  # when tested, it reads what was predicted


def test_joint_and_sequential_heads_are_not_taught(setup: Setup) -> None:
    for model in (CBM(setup), CBM(setup, **KINDS["sequential"])):
        output = model(tokens())
        assert torch.equal(model.teach(output, LABELS).logits, model(tokens()).logits)


def test_a_hidden_layer(setup: Setup) -> None:
    model = CBM(setup, hidden=7)
    first, _, second = model.head
    output = model(tokens())
    hidden = torch.relu(output.bottleneck @ first.weight.T + first.bias)
    torch.testing.assert_close(output.logits, hidden @ second.weight.T + second.bias)


def test_presets_bring_the_stages() -> None:
    recipe = load_recipe({"data": "shapes", "method": "cbm-sequential"})
    assert [stage.train for stage in recipe.training.stages] == [
        ["encoder", "regularizer", "model.concepts"],
        ["model.head"],
    ]
    assert load_recipe({"data": "shapes", "method": "cbm-independent"}).method["randint"] == 1
    assert load_recipe({"data": "shapes", "method": "cbm"}).training.stages == []


def test_options_out_of_range(setup: Setup) -> None:
    with pytest.raises(UserError, match=r"method\.randint"):
        CBM(setup, randint=1.5)
    with pytest.raises(UserError, match=r"method\.class_gradient"):
        CBM(setup, class_gradient=-1)
    with pytest.raises(UserError, match="hidden"):
        CBM(setup, hidden=-1)
    with pytest.raises(UserError, match="class token"):
        CBM(setup)(Tokens(torch.randn(1, 4, 8), (2, 2)))


def test_a_sequential_run_teaches_concepts_then_classes(tmp_path: Path) -> None:
    run = cl.train(tiny(tmp_path / "run", method={"name": "cbm-sequential"}, training__epochs=1), quiet=True)
    lines = [line for line in run.read_history() if line["split"] == "train" and "loss_class" in line]
    assert [line["stage"] for line in lines] == ["concepts", "classes"]
    validated = [line for line in run.read_history() if line["split"] == "val"]
    # The second stage moves the class head alone: what is said of concepts stays as it was.
    moved = {key for key in validated[-1] if validated[-1][key] != validated[-2].get(key)}
    assert {key.split(".")[0] for key in moved} == {"epoch", "step", "time", "class"}


def test_a_training_step_teaches_the_independent_head() -> None:
    """The class loss of a step is that of the head on the labels, whatever the images show."""
    pipeline = conformance.build("cbm-independent")
    loss, targets = conformance.supervised("cbm-independent")
    step = Step(pipeline.train(), loss, contextlib.nullcontext, 0)
    with torch.no_grad():
        _, terms, _ = step.plain(conformance.images(), (), targets, loss.count(targets))
        pipeline.eval()
        said = pipeline(conformance.images()).bottleneck
        read = torch.where(targets.concepts < 0, said, targets.concepts.float())
        expected = F.cross_entropy(pipeline.model.decide(read), targets.labels)
    torch.testing.assert_close(terms["class"], expected)


def test_the_head_may_learn_faster(setup: Setup) -> None:
    model = CBM(setup, head_rate=5.0)
    assert {getattr(value, "rate", 1.0) for value in model.head.parameters()} == {5.0}
    assert {getattr(value, "rate", 1.0) for value in model.concepts.parameters()} == {1.0}
    with pytest.raises(UserError, match=r"method\.head_rate"):
        CBM(setup, head_rate=0.0)
