"""CEM against its equations one concept at a time; what random interventions do, and what real ones."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.cem import CEM
from conceptlens.nn.setup import Setup

LABELS = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0], [1, 0, -1, -1, 1]])
M = 4


def tokens(batch: int = 3) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    patches = torch.randn(batch, 9, 8, generator=generator)
    return Tokens(patches, (3, 3), cls=patches[:, 0])


def of_concept(model: CEM, vector: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """ĉ⁺, ĉ⁻ and the score of one concept of one image."""
    weight, bias = model.embed.weight[2 * M * k : 2 * M * (k + 1)], model.embed.bias[2 * M * k : 2 * M * (k + 1)]
    both = F.leaky_relu(weight @ vector + bias)
    own = 0 if len(model.score.weight) == 1 else k
    return both[:M], both[M:], both @ model.score.weight[own] + model.score.bias[own]


def naive(model: CEM, vector: Tensor, probabilities: Tensor) -> Tensor:
    """Class logits of one image: each concept's two embeddings mixed, then all side by side."""
    mixed = []
    for k in range(5):
        present, absent, _ = of_concept(model, vector, k)
        mixed.append(probabilities[k] * present + (1 - probabilities[k]) * absent)
    return model.head.weight @ torch.cat(mixed) + model.head.bias


@pytest.mark.parametrize("share", [True, False])
def test_the_equations(setup: Setup, share: bool) -> None:
    model, seen = CEM(setup, width=M, share_score=share), tokens()
    output = model(seen)
    assert seen.cls is not None
    for n in range(3):
        scores = torch.stack([of_concept(model, seen.cls[n], k)[2] for k in range(5)])
        torch.testing.assert_close(output.concept_logits[n], scores)
        shares = torch.cat([scores[:2].softmax(0), scores[2:4].softmax(0), scores[4:].sigmoid()])
        torch.testing.assert_close(output.bottleneck[n], shares)
        torch.testing.assert_close(output.logits[n], naive(model, seen.cls[n], shares))
    assert model.head.weight.shape == (2, 5 * M)
    assert model.bypass


def test_an_intervention_sets_probabilities_and_leaves_embeddings(setup: Setup) -> None:
    model, seen = CEM(setup, width=M), tokens()
    output = model(seen)
    truth = torch.tensor([[1.0, 0, 0, 1, 1]]).expand(3, 5)
    assert seen.cls is not None
    assert output.context is not None
    found = model.decide_within(truth, output.context)
    for n in range(3):
        torch.testing.assert_close(found[n], naive(model, seen.cls[n], truth[n]))
    torch.testing.assert_close(model.decide_within(output.bottleneck, output.context), output.logits)


def test_decide_reads_an_average_image(setup: Setup) -> None:
    model, seen = CEM(setup, width=M), tokens()
    model.prepare([tokens(2), Tokens(seen.patches[2:], (3, 3), seen.patches[2:, 0])], setup.concepts)
    output = model(seen)
    assert output.context is not None
    torch.testing.assert_close(model.typical.flatten(), output.context.mean(0))
    shares = output.bottleneck[:1]
    # The class is linear in the embeddings: the mean image's class is the mean of the images' classes.
    expected = model.decide_within(shares.expand(3, 5), output.context).mean(0, keepdim=True)
    torch.testing.assert_close(model.decide(shares), expected)
    with torch.no_grad():
        model.embed.weight.mul_(2)
    model.end_epoch(seen)
    torch.testing.assert_close(model.typical, model.embeddings(seen).mean(0))


def test_randint_sets_what_is_known(setup: Setup) -> None:
    model, seen = CEM(setup, width=M, randint=1.0), tokens()
    said = model(seen)
    taught = model.teach(model(seen), LABELS)
    for n in range(3):
        known = LABELS[n] != -1
        shares = torch.where(known, LABELS[n].float(), said.bottleneck[n])
        assert seen.cls is not None
        torch.testing.assert_close(taught.logits[n], naive(model, seen.cls[n], shares))
    torch.testing.assert_close(taught.concept_logits, said.concept_logits)
    torch.testing.assert_close(taught.bottleneck, said.bottleneck)


def test_no_randint_when_tested_or_switched_off(setup: Setup) -> None:
    for model in (CEM(setup, randint=1.0).eval(), CEM(setup, randint=0.0)):
        assert torch.equal(model.teach(model(tokens()), LABELS).logits, model(tokens()).logits)


def drawn(model: CEM, batch: int) -> np.ndarray:
    """(B, K): which concepts were set, seen through a head that reads one entry of each concept."""
    torch.manual_seed(0)
    model.classify = lambda probabilities, embeddings: probabilities  # type: ignore[method-assign]
    output = model(tokens(batch))
    said = output.bottleneck.detach().clone()
    return (model.teach(output, (said > 2).long()).logits != said).numpy()


def test_randint_draws_a_quarter_and_an_axis_at_once(setup: Setup) -> None:
    found = drawn(CEM(setup), 4000)
    assert np.abs(found.mean(0) - 0.25).max() < 0.03
    assert np.array_equal(found[:, 0], found[:, 1])  # size
    assert np.array_equal(found[:, 2], found[:, 3])  # color
    for first, second in ((0, 2), (0, 4), (2, 4)):
        assert abs(np.corrcoef(found[:, first], found[:, second])[0, 1]) < 0.05
    together = drawn(CEM(setup, randint=0.5, randint_per="batch"), 50)
    assert (together == together[0]).all()


def test_the_class_learns_through_what_is_set_the_concepts_do_not(setup: Setup) -> None:
    """Where the label is put in, no gradient of the class reaches the scoring function."""
    model = CEM(setup, randint=1.0)
    model.teach(model(tokens()), LABELS.abs()).logits[:, 0].sum().backward()
    assert model.score.weight.grad is None or float(model.score.weight.grad.abs().sum()) == 0
    assert float(model.embed.weight.grad.abs().sum()) > 0  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [{"width": 0}, {"randint": 1.5}])
def test_options_out_of_range(setup: Setup, options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"method.{next(iter(options))}"):
        CEM(setup, **options)  # type: ignore[arg-type]
