"""Coop-CBM: what each of its losses sees, and that the auxiliary head decides nothing."""

import pytest
import torch
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.coop_cbm import CoopCBM
from conceptlens.nn.losses.orthogonal import class_members, concept_members, orthogonal_loss
from conceptlens.nn.setup import Setup
from conceptlens.recipes import LossConfig
from conceptlens.recipes.parse import load_recipe
from conceptlens.training.optimization.losses import SupervisedLoss, Targets

CONCEPTS = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0], [1, 0, -1, -1, 1]])
CLASSES = torch.tensor([0, 1, 1])


def tokens() -> Tokens:
    generator = torch.Generator().manual_seed(5)
    return Tokens(torch.randn(3, 9, 8, generator=generator), (3, 3), torch.randn(3, 8, generator=generator))


def of_preset(name: str, setup: Setup) -> CoopCBM:
    recipe = load_recipe({"data": "shapes", "method": name})
    return CoopCBM(setup, **{key: value for key, value in recipe.method.items() if key != "name"})  # type: ignore[arg-type]


def test_heads_read_the_token_and_the_class_reads_the_concepts(setup: Setup) -> None:
    model = CoopCBM(setup)
    output, q = model(tokens()), tokens().cls
    scores = q @ model.concepts.weight.T + model.concepts.bias
    torch.testing.assert_close(output.concept_logits, scores)
    torch.testing.assert_close(output.logits, scores @ model.head.weight.T + model.head.bias)
    torch.testing.assert_close(output.auxiliary, q @ model.auxiliary.weight.T + model.auxiliary.bias)
    with torch.no_grad():
        model.auxiliary.weight.mul_(-3)
    assert torch.equal(model(tokens()).logits, output.logits)
    assert model.bypass is None


def test_the_whole_loss(setup: Setup) -> None:
    """L = class + γ auxiliary + concept + w COL, each term by its own formula."""
    model = CoopCBM(setup, auxiliary_weight=0.7, orthogonal_concepts=2.0, orthogonal_classes=3.0, apart=0.4)
    output = model.teach_classes(model.teach(model(tokens()), CONCEPTS), CLASSES)
    targets = Targets(CLASSES, CONCEPTS, (CONCEPTS != -1).float())
    loss = SupervisedLoss(LossConfig(concept="bce", class_weight=0.5), setup.concepts, "single", torch.ones(2))
    terms = loss(output, targets, loss.count(targets))
    assert set(terms) == {"class", "auxiliary", "concept", "orthogonal_concepts", "orthogonal_classes"}
    torch.testing.assert_close(terms["class"], 0.5 * F.cross_entropy(output.logits, CLASSES))
    torch.testing.assert_close(terms["auxiliary"], 0.5 * 0.7 * F.cross_entropy(output.auxiliary, CLASSES))
    by_concept = orthogonal_loss(tokens().cls, concept_members(CONCEPTS), 0.4).mean()
    torch.testing.assert_close(terms["orthogonal_concepts"], 2 * by_concept)
    by_class = orthogonal_loss(tokens().cls, class_members(CLASSES, 2), 0.4)[0]
    torch.testing.assert_close(terms["orthogonal_classes"], 3 * by_class)


def test_the_published_code_weighs_classes_and_adds_concepts_up(setup: Setup) -> None:
    model = of_preset("coop-cbm-released", setup)
    losses = model.teach_classes(model.teach(model(tokens()), CONCEPTS), CLASSES).losses
    by_concept = orthogonal_loss(tokens().cls, concept_members(CONCEPTS), 0.5).sum()
    torch.testing.assert_close(losses["orthogonal_concepts"], (0.001 * by_concept).expand(3))
    by_class = orthogonal_loss(tokens().cls, class_members(CLASSES, 2), 0.5)[0]
    torch.testing.assert_close(losses["orthogonal_classes"], by_class.expand(3))
    losses = (
        (paper := of_preset("coop-cbm", setup)).teach_classes(paper.teach(paper(tokens()), CONCEPTS), CLASSES).losses
    )
    assert set(losses) == {"orthogonal_concepts"}


def test_a_hidden_layer_gives_the_orthogonal_loss_something_to_move(setup: Setup) -> None:
    model = CoopCBM(setup, hidden=6)
    output = model.teach(model(tokens()), CONCEPTS)
    output.losses["orthogonal_concepts"].sum().backward()
    assert float(model.features[0].weight.grad.abs().sum()) > 0
    assert output.features.shape == (3, 6)


def test_without_the_helpers_it_is_a_joint_bottleneck(setup: Setup) -> None:
    model = CoopCBM(setup, auxiliary_weight=0, orthogonal_concepts=0, space="probability")
    output = model.teach(model(tokens()), CONCEPTS)
    assert output.auxiliary is None
    assert output.losses == {}
    shares = torch.cat([output.concept_logits[:, :2].softmax(-1), output.concept_logits[:, 2:4].softmax(-1)], -1)
    torch.testing.assert_close(output.bottleneck[:, :4], shares)


@pytest.mark.parametrize("option", ["hidden", "auxiliary_weight", "orthogonal_classes", "apart"])
def test_options_out_of_range(setup: Setup, option: str) -> None:
    with pytest.raises(UserError, match=f"method.{option}"):
        CoopCBM(setup, **{option: -1})  # type: ignore[arg-type]
