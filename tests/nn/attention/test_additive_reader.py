"""The additive reader against numbers worked out by hand, and a naive loop in double precision."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.nn.attention.additive_reader import AdditiveReader, GroupCenter, patch_numbers

CONCEPTS = ConceptSet.from_yaml(
    "{groups: {color: {values: [red, green, blue]}, sign: {kind: independent, values: [dot, bar]}}}"
)


def random_reader(attention: str = "group", **options: Any) -> tuple[AdditiveReader, list[Tensor]]:
    torch.manual_seed(0)
    reader = AdditiveReader(CONCEPTS, (4, 6), attention=attention, **options).eval()  # type: ignore[arg-type]
    for parameter in reader.parameters():
        torch.nn.init.normal_(parameter)
    return reader, [torch.randn(2, 5, 4), torch.randn(2, 5, 6)]


def naive(reader: AdditiveReader, layers: list[Tensor]) -> Tensor:
    """Evidence (B, K, L), patch by patch."""
    weights, slots = reader.weights.detach().double(), reader.concept_slot.tolist()
    evidence = torch.zeros(len(layers[0]), 5, 5, dtype=torch.float64)
    for image in range(len(layers[0])):
        rows = []
        for patch in range(5):
            pieces = [layer[image, patch].double() for layer in layers]
            rows.append(torch.cat([(x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt() for x in pieces]))
        for k in range(5):
            query = reader.queries[slots[k]].detach().double()
            asked = [math.exp(float(query @ x) / reader.temperature) for x in rows]
            weight = weights[k] - weights[:3].mean(0) if k < 3 else weights[k]
            for patch, x in enumerate(rows):
                evidence[image, k, patch] = asked[patch] / sum(asked) * float(weight @ x)
    return evidence


@pytest.mark.parametrize("attention", ["group", "concept", "shared"])
def test_evidence_is_attention_times_what_a_patch_says(attention: str) -> None:
    reader, layers = random_reader(attention, temperature=0.7)
    read = reader(layers)
    assert read.evidence is not None
    torch.testing.assert_close(read.evidence.double(), naive(reader, layers), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(read.attention.sum(-1), torch.ones(2, reader.queries.shape[0]))


def test_evidence_and_bias_add_up_to_the_logits_that_training_sees() -> None:
    reader, layers = random_reader()
    read, trained = reader(layers), reader.train()(layers)
    torch.testing.assert_close(read.evidence.sum(-1) + reader.centered_bias(), read.logits)
    torch.testing.assert_close(trained.logits, read.logits, rtol=1e-5, atol=1e-5)
    assert trained.evidence is None


def test_what_patches_say_alone_is_their_value_and_the_bias() -> None:
    """While training asks for it, the logits are those of any other training."""
    reader, layers = random_reader(alone=True)
    read, trained = reader(layers), reader.train()(layers)
    torch.testing.assert_close(trained.logits, read.logits)
    attention = read.attention[:, reader.concept_slot].transpose(1, 2)
    values = naive(reader, layers).float().transpose(1, 2) / attention
    torch.testing.assert_close(trained.alone, values + reader.centered_bias(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(trained.shares, attention)


def test_hidden_patches_say_nothing_alone() -> None:
    reader, layers = random_reader(alone=True, dropout=0.4)
    plain, _ = random_reader(dropout=0.4)
    draws = torch.rand(2, 1)
    read, other = reader.train()(layers, draws=draws), plain.train()(layers, draws=draws)
    assert read.alone.shape == read.shares.shape == (2, 3, 5)
    torch.testing.assert_close(read.logits, other.logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(read.attention, other.attention)
    torch.testing.assert_close((read.alone * read.shares).sum(1), read.logits)


def test_a_patch_that_is_taken_away_at_fixed_attention_takes_its_evidence_with_it() -> None:
    """Leave one token out: with the attention of the whole image, logits change by exactly that token's evidence."""
    reader, layers = random_reader()
    read = reader(layers)
    x = torch.cat([torch.nn.functional.layer_norm(layer, layer.shape[-1:]) for layer in layers], -1)
    for patch in range(5):
        rest = [place for place in range(5) if place != patch]
        gathered = read.attention[:, reader.concept_slot][:, :, rest] @ x[:, rest]
        without = (gathered * reader.center(reader.weights)).sum(-1) + reader.centered_bias()
        torch.testing.assert_close(read.logits - without, read.evidence[:, :, patch], rtol=1e-4, atol=1e-5)


def test_values_of_an_exclusive_group_are_centered_and_others_are_not() -> None:
    center = GroupCenter(CONCEPTS)
    rows = torch.tensor([[3.0], [6.0], [0.0], [5.0], [7.0]])
    assert center(rows)[:, 0].tolist() == [0.0, 3.0, -3.0, 5.0, 7.0]
    reader, layers = random_reader()
    common = torch.randn(1, 10)
    before = reader(layers).evidence
    with torch.no_grad():
        reader.weights[:3] += common  # changes no probability, and no map
    torch.testing.assert_close(reader(layers).evidence, before, rtol=1e-4, atol=1e-5)


def test_patches_count_the_same_at_the_start() -> None:
    reader = AdditiveReader(CONCEPTS, (4,))
    assert bool((reader([torch.randn(2, 5, 4)]).attention == 0.2).all())


def test_half_of_the_patches_of_each_image_are_read_as_if_the_others_were_not_there() -> None:
    torch.manual_seed(0)
    reader = AdditiveReader(CONCEPTS, (4, 3), dropout=0.5).train()
    torch.nn.init.normal_(reader.queries)
    layers, expected = [torch.randn(20, 6, 4), torch.randn(20, 6, 3)], torch.randn(len(reader.queries), 6)
    read = reader(layers, expected)
    assert torch.equal((read.attention > 0).sum(-1), torch.full(read.attention.shape[:2], 3))
    assert torch.allclose(read.attention.sum(-1), torch.ones(read.attention.shape[:2]))
    reader.eval()
    for image in range(20):
        seen = read.attention[image, 0] > 0
        alone = reader([layer[image : image + 1, seen] for layer in layers], expected[:, seen])
        assert torch.allclose(alone.logits[0], read.logits[image], atol=1e-6)
        assert torch.allclose(alone.attention[0], read.attention[image][:, seen], atol=1e-6)


def test_one_patch_at_least_is_read() -> None:
    reader = AdditiveReader(CONCEPTS, (4,), dropout=0.9).train()
    assert torch.equal((reader([torch.randn(5, 4, 4)]).attention > 0).sum(-1).unique(), torch.tensor([1]))


def test_which_patches_are_hidden_follows_from_the_draw_of_the_image() -> None:
    reader = AdditiveReader(CONCEPTS, (4,), dropout=0.5).train()
    tokens, draws = [torch.randn(6, 30, 4)], torch.rand(6, 1)
    whole = reader(tokens, draws=draws).attention == 0
    pieces = [reader([tokens[0][part]], draws=draws[part]).attention == 0 for part in (slice(0, 2), slice(2, 6))]
    assert torch.equal(whole, torch.cat(pieces))
    assert len({tuple(row.tolist()) for row in whole[:, 0]}) == 6


def test_numbers_of_patches_are_uniform_and_unrelated() -> None:
    numbers = patch_numbers(torch.rand(500, 1, generator=torch.Generator().manual_seed(0)), 196)
    assert float(numbers.min()) >= 0
    assert float(numbers.max()) < 1
    shares = torch.histc(numbers, 10, 0, 1) / numbers.numel()
    assert bool(((shares - 0.1).abs() < 0.004).all())  # sd 0.001
    neighbors = torch.corrcoef(torch.stack([numbers[:, :-1].flatten(), numbers[:, 1:].flatten()]))[0, 1]
    between = torch.corrcoef(torch.stack([numbers[:-1].flatten(), numbers[1:].flatten()]))[0, 1]
    assert max(abs(float(neighbors)), abs(float(between))) < 0.02  # sd 0.003


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"dropout": 1.0}])
def test_senseless_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="method"):
        AdditiveReader(CONCEPTS, (4,), **options)


def test_a_mixture_is_layers_side_by_side_with_weights_in_its_shares() -> None:
    torch.manual_seed(1)
    mixed = AdditiveReader(CONCEPTS, (4, 4, 4), temperature=0.7, fusion="mixture").eval()
    for parameter in mixed.parameters():
        torch.nn.init.normal_(parameter)
    assert mixed.mixture is not None
    assert mixed.weights.shape == (5, 4)
    with torch.no_grad():
        mixed.mixture.copy_(torch.tensor([0.0, math.log(2), math.log(5)]))  # shares of 1/8, 2/8 and 5/8
    layers = [torch.randn(2, 5, 4) for _ in range(3)]
    normal = [torch.nn.functional.layer_norm(layer, (4,)) for layer in layers]
    x = normal[0] / 8 + 2 * normal[1] / 8 + 5 * normal[2] / 8
    attention = (x @ mixed.queries.T / 0.7).softmax(1)[..., mixed.concept_slot]
    expected = (attention * (x @ GroupCenter(CONCEPTS)(mixed.weights).T)).mT
    read = mixed(layers)
    torch.testing.assert_close(read.evidence, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mixed.train()(layers).logits, read.logits, rtol=1e-5, atol=1e-5)
    mixed(layers).logits.square().sum().backward()
    assert bool((mixed.mixture.grad != 0).all())  # type: ignore[union-attr]
    with pytest.raises(UserError, match="layers of one width"):
        AdditiveReader(CONCEPTS, (4, 6), fusion="mixture")


def test_gated_attention_is_that_of_its_paper() -> None:
    reader, layers = random_reader(temperature=0.7, gated=True)
    x = torch.cat([torch.nn.functional.layer_norm(layer, layer.shape[-1:]) for layer in layers], -1)
    assert reader.gates is not None
    value, gate = (torch.tanh(reader.gates[0](x)), torch.sigmoid(reader.gates[1](x)))
    expected = ((value * gate) @ reader.queries.T / 0.7).softmax(1).mT
    read = reader(layers)
    torch.testing.assert_close(read.attention, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(read.evidence.sum(-1) + reader.centered_bias(), read.logits)
    torch.testing.assert_close(reader.train()(layers).logits, read.logits, rtol=1e-5, atol=1e-5)
