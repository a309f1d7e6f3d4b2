"""Eq. 3 to 5 against a loop of one backward per image and sample, and against numbers worked out by hand."""

import pytest
import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.cortex.extractors.extractors import make_network
from conceptlens.cortex.extractors.importance import VARIANTS, SmoothGrad, image_noise, importance_of, token_importance
from conceptlens.cortex.token_sets import concept_set, frequency_set, image_sets, members

WIDTH, GRID, CLASSES = 5, (4, 4), 3


def network(name: str = "CE") -> nn.Module:
    torch.manual_seed(0)
    options = {"TE": {"depth": 1, "heads": 2}}.get(name, {})
    made = make_network(name, WIDTH, GRID, CLASSES, **options)
    for module in made.modules():  # statistics as after training
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return made.eval()


def naive(extractor: nn.Module, embeddings: Tensor, concepts: Tensor, settings: SmoothGrad, seed: int) -> Tensor:
    """One forward and one backward for each image and sample."""
    rows = []
    for index, (one, concept) in enumerate(zip(embeddings, concepts, strict=True)):
        span = embeddings if settings.noise == "batch" else one
        sigma = settings.alpha * (span.max() - span.min())
        total = torch.zeros_like(one)
        for noise in image_noise(one.shape, index, settings, seed, one.device):
            leaf = (one + sigma * noise)[None].requires_grad_()
            logits = extractor(leaf)[0]
            score = logits.softmax(0)[concept] if settings.of == "probability" else logits[concept]
            score.backward()
            total += leaf.grad[0]
        mean = total / settings.samples
        if settings.channels == "max-abs":
            rows.append(mean.abs().max(0).values)
        else:
            rows.append(mean.max(0).values if settings.channels == "max" else mean.mean(0))
    return torch.stack(rows)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ["CE", "RE", "TE"])
def test_batches_equal_one_backward_each(variant: str, name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    embeddings = torch.randn(5, WIDTH, *GRID, generator=generator) * torch.tensor([1, 2, 3, 4, 5]).view(-1, 1, 1, 1)
    concepts = torch.tensor([0, 1, 2, 1, 0])
    kind = VARIANTS[variant]
    settings = SmoothGrad(3, 0.2, kind.of, kind.noise, kind.channels)
    extractor = network(name)
    expected = naive(extractor, embeddings, concepts, settings, seed=7)
    for batch in (1, 4, 7, 100):
        found = token_importance(extractor, embeddings, concepts, settings, seed=7, batch=batch)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert all(parameter.requires_grad for parameter in extractor.parameters())


def test_a_list_worked_off_in_pieces_has_the_same_noise() -> None:
    embeddings = torch.randn(4, WIDTH, *GRID, generator=torch.Generator().manual_seed(2))
    concepts = torch.tensor([0, 1, 2, 0])
    whole = token_importance(network(), embeddings, concepts, SmoothGrad(2))
    parts = [
        token_importance(network(), embeddings[i : i + 2], concepts[i : i + 2], SmoothGrad(2), first=i) for i in (0, 2)
    ]
    torch.testing.assert_close(torch.cat(parts), whole)


def test_the_saliency_of_a_linear_logit_is_its_weight() -> None:
    linear = nn.Sequential(nn.Flatten(), nn.Linear(2 * 4, 2)).eval()
    weight = torch.tensor([[1.0, -2, 3, -4, -5, 1, 0, 2], [0.0] * 8])
    with torch.no_grad():
        linear[1].weight.copy_(weight)
    embeddings = torch.randn(1, 2, 2, 2)
    chosen = torch.tensor([0])
    found = token_importance(linear, embeddings, chosen, SmoothGrad(4, of="logit"))
    assert found[0].tolist() == [[5, 2], [3, 4]]  # channels: (1, −2, 3, −4) and (−5, 1, 0, 2)
    signed = token_importance(linear, embeddings, chosen, SmoothGrad(4, of="logit", channels="max"))
    assert signed[0].tolist() == [[1, 1], [3, 2]]
    mean = token_importance(linear, embeddings, chosen, SmoothGrad(4, of="logit", channels="mean"))
    assert mean[0].tolist() == [[-2, -0.5], [1.5, -1]]


def test_importance_is_the_largest_absolute_channel() -> None:
    saliency = torch.tensor([[[[1.0, -3.0]], [[-2.0, 2.0]]]])
    assert importance_of(saliency).tolist() == [[[2, 3]]]


def test_sets_of_images_and_of_a_concept() -> None:
    tokens = torch.tensor([[[4, 1], [2, 3]], [[1, 4], [4, 0]]])
    scores = torch.tensor([[[9.0, 8], [1, 7]], [[5, 9], [8, 1]]])
    assert image_sets(tokens, scores, 2).tolist() == [[4, 1], [4, 4]]
    found = concept_set(tokens, scores, "bird", codes=5, n=2, k=1)
    assert (found.tokens, found.counts, found.images, found.n) == ((4,), (3,), 2, 2)
    # n = 3 takes 4, 1, 3 and 4, 4, 1: of equally many the smaller id comes first, and no token without a count
    assert concept_set(tokens, scores, "bird", codes=5, n=3, k=9).tokens == (4, 1, 3)
    assert frequency_set(tokens, "bird", codes=5, k=2).tokens == (4, 1)
    assert members(tokens, (4, 0), 5).tolist() == [[[True, False], [False, False]], [[False, True], [True, True]]]


def test_what_cannot_be_asked_is_said() -> None:
    embeddings = torch.zeros(1, WIDTH, *GRID)
    with pytest.raises(UserError, match="evaluation mode"):
        token_importance(network().train(), embeddings, torch.tensor([0]))
    with pytest.raises(UserError, match="each of 1 images"):
        token_importance(network(), embeddings, torch.tensor([0, 1]))
    with pytest.raises(UserError, match="Did you mean 'max-abs'"):
        SmoothGrad(channels="max-ab")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="noise sample"):
        SmoothGrad(samples=0)
    with pytest.raises(UserError, match="1 to 16"):
        concept_set(torch.zeros(1, *GRID, dtype=torch.long), torch.zeros(1, *GRID), "x", codes=2, n=17)
    with pytest.raises(UserError, match="No image shows"):
        concept_set(torch.zeros(0, *GRID, dtype=torch.long), torch.zeros(0, *GRID), "x", codes=2)
