"""SL-CBM against a loop over patches and concepts."""

import math

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR
from conceptlens.methods.sl_cbm import SLCBM
from conceptlens.nn.setup import Setup


def normal(x: torch.Tensor, norm: torch.nn.LayerNorm) -> torch.Tensor:
    return (x - x.mean()) / (x.var(correction=0) + norm.eps).sqrt() * norm.weight + norm.bias


def test_its_equations(setup: Setup) -> None:
    torch.manual_seed(0)
    model, count = SLCBM(setup, entropy_weight=0.3).eval(), len(setup.concepts)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    given = Tokens(torch.randn(2, 5, 8), (1, 5), aux={IMAGE_VECTOR: torch.randn(2, 6)})
    with torch.no_grad():
        output = model(given)
    for image in range(2):
        similar = torch.stack([given.aux[IMAGE_VECTOR][image] @ text for text in setup.text])
        maps = [model.maps.weight @ z + model.maps.bias for z in given.patches[image]]
        values = [normal(each, model.norm) for each in maps]
        asked = [
            math.exp(float((model.query.weight @ similar) @ (model.key.weight @ v)) / math.sqrt(count)) for v in values
        ]
        weights = [each / sum(asked) for each in asked]
        pooled = sum(weight * value for weight, value in zip(weights, values, strict=True))
        torch.testing.assert_close(output.concept_logits[image], pooled, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(output.attention[image, 0], torch.tensor(weights), rtol=1e-4, atol=1e-6)
        wanted = model.head[1](normal(pooled, model.head[0]))
        torch.testing.assert_close(output.logits[image], wanted, rtol=1e-4, atol=1e-4)
        entropy = [-float((each.softmax(0) * each.log_softmax(0)).sum()) for each in maps]
        assert float(output.losses["entropy"][image]) == pytest.approx(0.3 * sum(entropy) / 5, rel=1e-4)
    torch.testing.assert_close(output.evidence.sum(-1), output.concept_logits, rtol=1e-5, atol=1e-5)


def test_a_negative_weight_is_refused(setup: Setup) -> None:
    with pytest.raises(UserError, match="entropy_weight"):
        SLCBM(setup, entropy_weight=-1)
