"""Explicd against a naive version of its forward pass, head by head, and of its alignment loss."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.explicd import Explicd
from conceptlens.nn.setup import Setup
from conceptlens.recipes import LossConfig
from conceptlens.recipes.parse import load_recipe
from conceptlens.training.optimization.losses import SupervisedLoss, Targets


def tokens(batch: int = 3) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    return Tokens(torch.randn(batch, 9, 8, generator=generator), (3, 3))


def naive(model: Explicd, patches: Tensor) -> Tensor:
    """Cosines (B, K) of each axis's visual concept with its own texts."""
    attend, heads = model.attend.attend, model.attend.attend.num_heads
    to_q, to_k, to_v = attend.in_proj_weight.chunk(3)
    of_q, of_k, of_v = attend.in_proj_bias.chunk(3)
    q, k, v = model.attend.queries @ to_q.T + of_q, patches @ to_k.T + of_k, patches @ to_v.T + of_v
    gathered = []
    for part_q, part_k, part_v in zip(q.chunk(heads, -1), k.chunk(heads, -1), v.chunk(heads, -1), strict=True):
        weights = torch.softmax(part_q @ part_k.transpose(1, 2) / math.sqrt(part_q.shape[-1]), -1)
        gathered.append(weights @ part_v)
    slots = torch.cat(gathered, -1) @ attend.out_proj.weight.T + attend.out_proj.bias
    first, _, second, norm, out = model.project
    hidden = torch.relu(slots @ first.weight.T + first.bias) @ second.weight.T + second.bias
    visual = F.layer_norm(hidden, (8,), norm.weight, norm.bias) @ out.weight.T
    visual = visual / visual.norm(dim=-1, keepdim=True)
    return torch.cat(
        [visual[:, 0] @ model.text[:2].T, visual[:, 1] @ model.text[2:4].T, visual[:, 2] @ model.text[4:].T], -1
    )


def test_probabilities_within_each_axis_decide(setup: Setup) -> None:
    model = Explicd(setup)
    output = model(tokens())
    scores = 10 * naive(model, tokens().patches)
    torch.testing.assert_close(output.concept_logits, scores)
    shares = torch.cat([scores[:, :2].softmax(-1), scores[:, 2:4].softmax(-1), scores[:, 4:].sigmoid()], -1)
    torch.testing.assert_close(output.bottleneck, shares)
    torch.testing.assert_close(output.logits, shares @ model.head.weight.T + model.head.bias)


def test_released_preset_reads_scaled_cosines(setup: Setup) -> None:
    recipe = load_recipe({"data": "shapes", "method": "explicd-released"})
    model = Explicd(setup, **{key: value for key, value in recipe.method.items() if key != "name"})  # type: ignore[arg-type]
    output = model(tokens())
    scores = 100 * naive(model, tokens().patches)
    torch.testing.assert_close(output.bottleneck, scores, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.logits, scores @ model.head.weight.T + model.head.bias, rtol=1e-4, atol=1e-4)
    assert {name for name, value in model.named_parameters() if not value.requires_grad} == {"log_scale"}


def test_one_query_per_axis_with_weights_that_add_up(setup: Setup) -> None:
    output = Explicd(setup)(tokens())
    assert output.attention.shape == (3, 3, 9)
    torch.testing.assert_close(output.attention.sum(-1), torch.ones(3, 3))
    assert Explicd(setup).concept_slot.tolist() == [0, 0, 1, 1, 2]


def test_alignment_is_the_cross_entropy_of_each_axis(setup: Setup) -> None:
    """−log of the true criterion's share, averaged over axes; an independent axis has a binary one."""
    model = Explicd(setup)
    scores = model(tokens(1)).concept_logits
    targets = Targets(torch.tensor([0]), torch.tensor([[1, 0, 0, 1, 1]]), torch.ones(1, 5))
    loss = SupervisedLoss(LossConfig(concept="group"), setup.concepts, "single", torch.ones(2))
    size, color = scores[0, :2].softmax(-1), scores[0, 2:4].softmax(-1)
    expected = -(size[0].log() + color[1].log() + scores[0, 4].sigmoid().log()) / 3
    torch.testing.assert_close(loss.concept_loss(scores, targets, loss.count(targets)), expected)


def test_wrong_options(setup: Setup) -> None:
    with pytest.raises(UserError, match="heads"):
        Explicd(setup, heads=3)
    with pytest.raises(UserError, match="logit_scale"):
        Explicd(setup, logit_scale=0)
