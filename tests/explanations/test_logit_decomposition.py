"""A logit is its base and what the concepts add, to the last bit that floats have."""

import numpy as np
import pytest
import torch

from conceptlens.explanations.logit_decomposition import MEAN, decompose_logit
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.setup import Setup

NAMES = ["a", "b", "c"]
HEAD = LinearHead(np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]), np.array([0.5, 0.0, -1.0]), bypass=False)
SCORES, REFERENCE = np.array([2.0, 1.0]), np.array([1.0, 3.0])
SAID = HEAD.logits(SCORES[None])[0]  # 4.5, −1, 5


def test_by_hand() -> None:
    logit = decompose_logit(HEAD, NAMES, 0, None, SCORES, REFERENCE, SAID)
    assert (logit.of, logit.minus, logit.total, logit.base, logit.values) == ("a", None, 4.5, 7.5, [1.0, -4.0])
    apart = decompose_logit(HEAD, NAMES, 0, 2, SCORES, REFERENCE, SAID)
    assert (apart.minus, apart.total, apart.base, apart.values) == ("c", -0.5, 5.5, [-2.0, -4.0])
    among = decompose_logit(HEAD, NAMES, 0, MEAN, SCORES, REFERENCE, SAID)
    assert among.total == pytest.approx(4.5 - (4.5 - 1 + 5) / 3)
    assert among.total == pytest.approx(among.base + sum(among.values))


def test_what_bypasses_the_concepts_is_an_entry_of_its_own() -> None:
    head = LinearHead(HEAD.weight, HEAD.bias, bypass=True)
    decomposition = decompose_logit(head, NAMES, 1, None, SCORES, REFERENCE, SAID + np.array([0, 7.0, 0]))
    assert decomposition.bypass == pytest.approx(7)
    assert decomposition.total == pytest.approx(decomposition.base + sum(decomposition.values) + decomposition.bypass)


def test_a_head_is_linear_only_if_it_gives_the_logits(setup: Setup) -> None:
    model, scores = IVQCBM(setup), torch.randn(4, len(setup.concepts))
    said = model.decide(scores)
    head = LinearHead.of(model, scores, said)
    assert head is not None
    np.testing.assert_allclose(head.logits(scores.double().numpy()), said.detach().numpy(), atol=1e-5)
    assert LinearHead.of(model, scores, said + 1) is None  # something else reaches the class

    class Open(IVQCBM):
        bypass = "a residual"

    assert LinearHead.of(Open(setup), scores, said) is not None
