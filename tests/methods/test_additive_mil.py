"""Additive MIL against a loop over patches."""

import math

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.additive_mil import AdditiveMIL
from conceptlens.nn.setup import Setup


@pytest.mark.parametrize("hidden", [0, 5])
def test_class_logits_are_sums_of_what_each_patch_says(setup: Setup, hidden: int) -> None:
    torch.manual_seed(0)
    two = Setup(setup.concepts, setup.text, 8, 3, layer_widths=(4,))
    model = AdditiveMIL(two, inner=6, hidden=hidden)
    torch.nn.init.normal_(model.bias)
    given = Tokens(torch.randn(2, 7, 8), (1, 7), layers=(torch.randn(2, 7, 4),))
    output = model(given)
    for image in range(2):
        rows = []
        for patch in range(7):
            pieces = [given.layers[0][image, patch], given.patches[image, patch]]
            rows.append(torch.cat([(x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() for x in pieces]))
        first, _, last = model.attend
        asked = [math.exp(float(last.weight[0].detach() @ torch.tanh(first.weight @ x + first.bias))) for x in rows]
        logits = model.bias.clone()
        for patch, x in enumerate(rows):
            said = model.classify(asked[patch] / sum(asked) * x)
            torch.testing.assert_close(output.class_evidence[image, :, patch], said, rtol=1e-4, atol=1e-6)
            logits = logits + said
        torch.testing.assert_close(output.logits[image], logits, rtol=1e-4, atol=1e-5)
    assert output.concept_logits.shape == (2, 0)


def test_senseless_widths_are_refused(setup: Setup) -> None:
    with pytest.raises(UserError, match=r"method\.inner"):
        AdditiveMIL(setup, inner=0)
