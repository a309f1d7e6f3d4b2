"""Our generator: size, quantizer with revival, losses by hand, conditions and the sampler."""

import math

import pytest
import torch
from torch import nn

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.gumbel import gumbel_noise
from conceptlens.cortex.generators.builtin.autoencoder import AutoEncoder, Discriminator, count_bytes
from conceptlens.cortex.generators.builtin.generator import TRAINING_ONLY, SmallGenerator
from conceptlens.cortex.generators.builtin.losses import (
    Perceptual,
    adversarial_weight,
    discriminator_loss,
    generator_loss,
    masked_token_loss,
    reconstruction,
)
from conceptlens.cortex.generators.builtin.quantizer import Quantizer
from conceptlens.cortex.generators.builtin.sampler import hidden_at, sample_tokens
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings
from conceptlens.cortex.generators.builtin.transformer import MaskedTransformer, forget
from conceptlens.cortex.generators.condition import Condition
from conceptlens.encoders.builtin.vit import BuiltinViT
from tests.cortex.tiny import small_settings

SETTINGS = small_settings("round", "square", side=16)


def test_the_built_in_size_ships_in_twelve_megabytes() -> None:
    concepts = ConceptSet.load("blood-cells")
    settings = GeneratorSettings(concepts.classes, {group.name: group.values for group in concepts.groups})
    model = SmallGenerator(settings)
    state = model.state_dict()
    assert count_bytes(model) - 2 * sum(state[name].numel() for name in TRAINING_ONLY) < 12_000_000
    assert model.grid == (16, 16)
    assert tuple(model.codebook.shape) == (1024, 64)


def test_settings_are_checked() -> None:
    for options, hint in (
        ({"codes": 2048}, "1024 codes"),
        ({"width": 65}, "width 1 to 64"),
        ({"image_size": 100}, "multiple of 8"),
        ({"heads": 3}, "multiple of heads"),
    ):
        with pytest.raises(UserError, match=hint):
            GeneratorSettings(("a",), **options)
    with pytest.raises(UserError, match="one class"):
        GeneratorSettings(())


def test_codes_become_running_means_of_their_vectors() -> None:
    quantizer = Quantizer(2, 1, decay=0.5, dead=0.0)
    quantizer.codebook.copy_(torch.tensor([[0.0], [10.0]]))
    quantizer.counts.fill_(1.0)
    quantizer.sums.copy_(quantizer.codebook)
    z = torch.tensor([1.0, 2.0, 9.0]).view(1, 1, 1, 3).requires_grad_()
    found = quantizer(z)
    assert found.tokens.tolist() == [[[0, 0, 1]]]
    assert found.embeddings.flatten().tolist() == [0, 0, 10]
    assert float(found.commitment.detach()) == pytest.approx((1 + 4 + 1) / 3)
    # counts (1, 1) → (1.5, 1), sums (0, 10) → (1.5, 9.5)
    assert quantizer.codebook.flatten().tolist() == pytest.approx([1.0, 9.5])
    found.embeddings.sum().backward()
    assert z.grad.flatten().tolist() == [1, 1, 1]  # straight through


def test_dead_codes_come_back() -> None:
    torch.manual_seed(0)
    quantizer = Quantizer(16, 2, decay=0.9)
    quantizer.train()
    quantizer.counts.fill_(1.0)
    quantizer.codebook.copy_(torch.full((16, 2), 100.0))  # far from everything: one code takes all
    quantizer.codebook[0] = 0
    quantizer.sums.copy_(quantizer.codebook)
    for _ in range(60):
        tokens = quantizer(torch.randn(8, 2, 4, 4)).tokens
    assert len(tokens.unique()) >= 14
    quantizer.eval()
    before = quantizer.codebook.clone()
    quantizer(torch.randn(8, 2, 4, 4))
    assert torch.equal(before, quantizer.codebook)


def test_the_codebook_starts_where_the_vectors_are() -> None:
    torch.manual_seed(0)
    quantizer = Quantizer(4, 3)
    z = 50 + torch.randn(2, 3, 8, 8)
    quantizer.train()(z)
    assert float((quantizer.codebook - 50).abs().max()) < 10


def test_losses_by_hand() -> None:
    assert float(reconstruction(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 1.0]))) == 1.5
    real, fake = torch.tensor([2.0, 0.5]), torch.tensor([-3.0, 0.0])
    assert float(discriminator_loss(real, fake)) == pytest.approx((0.25 + 0.5) / 2)
    assert float(generator_loss(fake)) == 1.5
    weight = nn.Parameter(torch.tensor([2.0]))
    balance = adversarial_weight((3 * weight).sum(), (0.5 * weight).sum(), weight)
    assert float(balance) == pytest.approx(3 / (0.5 + 1e-4))
    logits = torch.log(torch.tensor([[[0.7, 0.3], [0.5, 0.5]]]))
    masked = torch.tensor([[True, False]])
    assert float(masked_token_loss(logits, torch.tensor([[1, 0]]), masked, 0.0)) == pytest.approx(-math.log(0.3))


def test_perception_is_zero_for_the_same_image_and_trains_the_painter_only() -> None:
    torch.manual_seed(0)
    eyes = BuiltinViT(image_size=16, width=8, depth=2, heads=2, stem_width=4, layers=[0], pretrained=False)
    term = Perceptual(eyes)
    image, other = torch.rand(2, 3, 16, 16), torch.rand(2, 3, 16, 16, requires_grad=True)
    assert float(term(image, image)) == pytest.approx(0, abs=1e-6)
    loss = term(other, image)
    assert float(loss.detach()) > 0.01
    loss.backward()
    assert other.grad is not None
    assert all(parameter.grad is None for parameter in eyes.parameters())


def test_the_autoencoder_learns_from_every_term() -> None:
    torch.manual_seed(0)
    model = AutoEncoder(SETTINGS).train()
    painted, quantized = model(torch.rand(4, 3, 16, 16))
    assert painted.shape == (4, 3, 16, 16)
    (painted.abs().mean() + quantized.commitment - Discriminator(8, 2)(painted).mean()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def transformer() -> MaskedTransformer:
    torch.manual_seed(0)
    return MaskedTransformer(SETTINGS).eval()


def test_conditions_become_indices() -> None:
    model = transformer()
    assert model.indices(Condition("square", {"size": "big"}), 2).tolist() == [[1, 1], [1, 1]]
    assert model.indices(Condition(None, {"size": "small"}), 1).tolist() == [[-1, 0]]
    assert model.indices(None, 1).tolist() == [[-1, -1]]
    with pytest.raises(UserError, match="Did you mean 'round'"):
        model.indices(Condition("rund"), 1)
    with pytest.raises(UserError, match="Did you mean 'big'"):
        model.indices(Condition(None, {"size": "bg"}), 1)


def test_masked_tokens_are_not_seen_and_conditions_are() -> None:
    model = transformer()
    codebook = torch.randn(24, 8)
    tokens, masked = torch.randint(24, (1, 16)), torch.zeros(1, 16, dtype=torch.bool)
    masked[0, :8] = True
    other = tokens.clone()
    other[0, :8] = (tokens[0, :8] + 1) % 24
    null = torch.full((1, 2), -1)
    first = model(tokens, masked, null, codebook)
    torch.testing.assert_close(first, model(other, masked, null, codebook))
    asked = model(tokens, masked, torch.tensor([[0, -1]]), codebook)
    assert float((first - asked).detach().abs().max()) > 1e-4
    torch.testing.assert_close(first, model(tokens, masked, null, 3 * codebook + 1), atol=1e-4, rtol=1e-4)


def test_every_subset_of_conditions_is_learned() -> None:
    generator = torch.Generator().manual_seed(0)
    found = forget(torch.ones(4000, 3, dtype=torch.int64), generator, null=0.1)
    kinds = {tuple(row) for row in found.tolist()}
    assert len(kinds) == 8
    nothing = (found == -1).all(1).float().mean()
    # 0.1, and of the others those that lose the class (0.3) and both attributes (∫(1 − u)² = 1/3)
    assert float(nothing) == pytest.approx(0.1 + 0.9 * 0.3 / 3, abs=0.02)


def test_the_sampler_hides_less_and_less() -> None:
    assert [hidden_at(step, 4, 16) for step in range(4)] == [14, 11, 6, 0]


def test_samples_follow_the_probabilities() -> None:
    """A transformer that always says the same: samples must be draws from it."""

    class Same(MaskedTransformer):
        def forward(self, tokens, masked, conditions, codebook):  # type: ignore[no-untyped-def]
            logits = torch.full((*tokens.shape, 24), -torch.inf)
            logits[..., 3], logits[..., 5] = math.log(0.75), math.log(0.25)
            return logits

    torch.manual_seed(0)
    model = Same(SETTINGS).eval()
    drawn = sample_tokens(model, torch.zeros(24, 8), model.indices(None, 200), cells=16, steps=1)
    assert set(drawn.unique().tolist()) == {3, 5}
    assert float((drawn == 3).float().mean()) == pytest.approx(0.75, abs=0.02)


def test_the_first_step_is_shared_by_images_with_one_condition() -> None:
    """With a single step, samples are the argmax of guided logits and noise, each image on its own."""
    model = transformer()
    nn.init.normal_(model.conditions, std=2.0)
    codebook = torch.randn(24, 8)
    conditions = torch.tensor([[1, 0], [-1, -1], [0, 1], [1, 0]])
    drawn = sample_tokens(model, codebook, conditions, cells=16, steps=1, guidance=2.0, seed=3)
    noise = gumbel_noise(torch.Size((4, 16, 24)), torch.Generator().manual_seed(3), torch.device("cpu"))
    for row, condition in enumerate(conditions):
        tokens, masked = torch.zeros(1, 16, dtype=torch.int64), torch.ones(1, 16, dtype=torch.bool)
        asked = model(tokens, masked, condition[None], codebook)
        plain = model(tokens, masked, torch.full((1, 2), -1), codebook)
        assert torch.equal(drawn[row], (3 * asked - 2 * plain + noise[row]).argmax(-1)[0])


def test_what_is_kept_stays() -> None:
    seen = []

    class Watched(MaskedTransformer):
        def forward(self, tokens, masked, conditions, codebook):  # type: ignore[no-untyped-def]
            seen.append((tokens.clone(), masked.clone()))
            return super().forward(tokens, masked, conditions, codebook)

    torch.manual_seed(0)
    model = Watched(SETTINGS).eval()
    final = sample_tokens(model, torch.randn(24, 8), model.indices(Condition("round"), 2), cells=16, steps=5)
    assert bool(seen[0][1].all())  # nothing is kept yet; one image stands for both
    for tokens, masked in seen[2:]:
        assert torch.equal(tokens[~masked], final[~masked])
    hidden = [int(masked[0].sum()) for _, masked in seen[::2]]
    assert hidden == [16, *(hidden_at(step, 5, 16) for step in range(4))]
    with pytest.raises(UserError, match="at least one step"):
        sample_tokens(model, torch.randn(24, 8), model.indices(None, 1), cells=16, steps=0)
