"""Eq. 6 to 13 against an implementation with one-hot matrices, as the equations are written."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.gumbel import gumbel_noise, select_codes
from conceptlens.cortex.editing.region import parse_region
from conceptlens.cortex.editing.search import search_embeddings, search_tokens
from conceptlens.cortex.editing.settings import SearchSettings

CODES, WIDTH, GRID = 6, 3, (4, 4)


def extractor() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(WIDTH, 8, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 16, 3)).eval()


def codebook() -> Tensor:
    return torch.randn(CODES, WIDTH, generator=torch.Generator().manual_seed(1))


def grids(count: int) -> Tensor:
    return torch.randint(CODES, (count, *GRID), generator=torch.Generator().manual_seed(2))


def straight_through(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Eq. 10 to 12."""
    y = ((logits + noise) / temperature).softmax(-1)
    hard = F.one_hot(y.argmax(-1), y.shape[-1]).to(y.dtype)
    return (hard - y).detach() + y


def test_selection_has_the_values_and_gradients_of_one_hot_matrices() -> None:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 5, CODES, generator=generator, dtype=torch.float64)
    noise = gumbel_noise(logits.shape, generator, logits.device).double()
    weights = torch.randn(2, 5, WIDTH, generator=generator, dtype=torch.float64)
    codes = codebook().double()
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    vectors, chosen = select_codes(ours, codes, 0.7, noise.clone())
    mixed = straight_through(theirs, noise, 0.7) @ codes
    torch.testing.assert_close(vectors, mixed)
    assert torch.equal(chosen, (logits + noise).argmax(-1))
    (vectors * weights).sum().backward()
    (mixed * weights).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_the_gradient_is_that_of_equation_13() -> None:
    logits = torch.tensor([[0.3, -0.2, 0.1]], dtype=torch.float64, requires_grad=True)
    vectors, _ = select_codes(logits, torch.eye(3, dtype=torch.float64), 2.0)
    vectors[0, 1].backward()
    y = (logits.detach()[0] / 2).softmax(0)
    expected = [float(y[1] * ((1.0 if k == 1 else 0.0) - y[k]) / 2) for k in range(3)]
    assert logits.grad[0].tolist() == pytest.approx(expected)


def test_draws_follow_the_probabilities() -> None:
    p = torch.tensor([0.5, 0.3, 0.2])
    noise = gumbel_noise(torch.Size((40_000, 3)), torch.Generator().manual_seed(0), p.device)
    _, chosen = select_codes(p.log().expand(40_000, 3), torch.eye(3), 1.0, noise)
    assert torch.bincount(chosen).div(40_000).tolist() == pytest.approx(p.tolist(), abs=0.01)


@pytest.mark.parametrize("objective", ["probability", "logit"])
@pytest.mark.parametrize("optimizer", ["gradient", "adam"])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_search_is_equation_7_with_full_matrices(objective: str, optimizer: str, reduction: str) -> None:
    network, codes, tokens = extractor(), codebook(), grids(2)
    mask = parse_region("1:3,0:2", GRID)
    concepts = torch.tensor([2, 0])
    settings = SearchSettings(
        steps=4,
        learning_rate=0.3,
        optimizer=optimizer,
        objective=objective,
        norm_weight=0.01,
        norm_reduction=reduction,
        temperature=1.5,
        last_temperature=0.5,
        record_every=1,  # type: ignore[arg-type]
    )
    found = search_tokens(network, codes, concepts, mask, tokens=tokens, settings=settings, seed=5)

    generator = torch.Generator().manual_seed(5)
    places = mask.flatten().nonzero()[:, 0]
    start = torch.randn(2, len(places), CODES, generator=generator)
    full = torch.full((2, 16, CODES), -300.0).scatter(2, tokens.flatten(1)[..., None], 300.0)
    full[:, places] = start
    full.requires_grad_()
    stepper = (torch.optim.Adam if optimizer == "adam" else torch.optim.SGD)([full], lr=0.3)
    for step in range(4):
        noise = torch.zeros_like(full)
        noise[:, places] = gumbel_noise(start.shape, generator, start.device)
        temperature = 1.5 * (0.5 / 1.5) ** (step / 3)
        one_hot = straight_through(full, noise, temperature)
        embeddings = (one_hot @ codes).transpose(1, 2).view(2, WIDTH, *GRID)
        scores = network(embeddings)
        wanted = (scores.softmax(1) if objective == "probability" else scores)[torch.arange(2), concepts]
        squares = embeddings.square().flatten(1)
        loss = -wanted.sum() + 0.01 * (squares.sum(1) if reduction == "sum" else squares.mean(1)).sum()
        full.grad = None
        loss.backward()
        full.grad *= mask.flatten()[None, :, None]
        stepper.step()
        seen = scores.softmax(1)[torch.arange(2), concepts].detach()
        torch.testing.assert_close(found.path[:, step], seen, atol=1e-5, rtol=1e-5)
    assert torch.equal(found.tokens.flatten(1)[:, places], full.detach()[:, places].argmax(-1))
    assert torch.equal(found.selected, found.tokens.flatten(1)[:, places])


def test_only_the_mask_changes_and_the_concept_rises() -> None:
    mask = parse_region("center 2x2", GRID)
    tokens, concepts = grids(3), torch.tensor([1, 1, 1])
    settings = SearchSettings(steps=300, keep="best")
    found = search_tokens(extractor(), codebook(), concepts, mask, tokens=tokens, settings=settings)
    assert torch.equal(found.tokens[:, ~mask], tokens[:, ~mask])
    assert bool((found.end > found.start).all())
    best = []  # all 6⁴ combinations of the first image
    with torch.no_grad():
        combinations = torch.cartesian_prod(*[torch.arange(CODES)] * 4)
        every = tokens[:1].repeat(len(combinations), 1, 1)
        every[:, mask] = combinations
        best = extractor()(codebook()[every].movedim(-1, 1)).softmax(1)[:, 1]
    assert float(found.end[0]) >= float(best.quantile(0.99))


def test_the_baseline_takes_the_nearest_tokens() -> None:
    mask, tokens, concepts = parse_region("0:2,0:4", GRID), grids(2), torch.tensor([0, 2])
    settings = SearchSettings(steps=3, learning_rate=0.5, objective="logit", optimizer="gradient")
    found = search_embeddings(extractor(), codebook(), concepts, mask, tokens=tokens, settings=settings)
    codes = codebook()
    embeddings = codes[tokens].movedim(-1, 1)
    for _ in range(3):
        leaf = embeddings.clone().requires_grad_()
        extractor()(leaf)[torch.arange(2), concepts].sum().backward()
        embeddings = embeddings + 0.5 * leaf.grad * mask
    expected = torch.cdist(embeddings.movedim(1, -1).reshape(-1, WIDTH), codes).argmin(1).view(2, *GRID)
    assert torch.equal(found.tokens[:, mask], expected[:, mask])
    assert torch.equal(found.tokens[:, ~mask], tokens[:, ~mask])


def test_from_nothing_all_positions_are_free() -> None:
    found = search_tokens(
        extractor(), codebook(), torch.tensor([0, 1]), parse_region("all", GRID), settings=SearchSettings(40)
    )
    assert found.tokens.shape == (2, *GRID)
    assert bool((found.end > found.start).all())
    with pytest.raises(UserError, match="from nothing"):
        search_tokens(extractor(), codebook(), torch.tensor([0]), parse_region("0:2,0:2", GRID))


def test_the_same_seed_finds_the_same_tokens() -> None:
    mask, tokens = parse_region("0:2,0:2", GRID), grids(2)
    runs = [
        search_tokens(
            extractor(), codebook(), torch.tensor([0, 1]), mask, tokens=tokens, settings=SearchSettings(5), seed=seed
        )
        for seed in (1, 1, 2)
    ]
    assert torch.equal(runs[0].frames, runs[1].frames)
    assert not torch.equal(runs[0].frames, runs[2].frames)


def test_temperatures() -> None:
    assert SearchSettings(11, temperature=2, last_temperature=1, schedule="linear").temperature_at(5) == pytest.approx(
        1.5
    )
    assert SearchSettings(3, temperature=4, last_temperature=1).temperature_at(1) == pytest.approx(2)
    assert SearchSettings(3).temperature_at(2) == 1
    assert SearchSettings(3, temperature=4, last_temperature=1, schedule="constant").temperature_at(2) == 4


def test_starts() -> None:
    mask, tokens = parse_region("0:2,0:2", GRID), grids(1)
    settings = SearchSettings(1, learning_rate=1e-6, start="image", start_bias=50)
    found = search_tokens(extractor(), codebook(), torch.tensor([0]), mask, tokens=tokens, settings=settings)
    assert torch.equal(found.tokens, tokens)
    with pytest.raises(UserError, match="no image to start from"):
        search_tokens(extractor(), codebook(), torch.tensor([0]), parse_region("all", GRID), settings=settings)


def test_regions() -> None:
    assert parse_region("center 2x2", GRID).nonzero().tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]
    assert parse_region("0:1,2:4", GRID).nonzero().tolist() == [[0, 2], [0, 3]]
    for words in ("0:5,0:1", "2:2,0:1", "center 5x1", "center 0x2"):
        with pytest.raises(UserError, match="at least one token"):
            parse_region(words, GRID)
    with pytest.raises(UserError, match="expected a region"):
        parse_region("the beak", GRID)


def test_bad_input_is_said() -> None:
    with pytest.raises(UserError, match="mask is empty"):
        search_tokens(extractor(), codebook(), torch.tensor([0]), torch.zeros(GRID, dtype=torch.bool), tokens=grids(1))
    with pytest.raises(UserError, match="Did you mean 'linear'"):
        SearchSettings(schedule="liner")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="evaluation mode"):
        search_tokens(extractor().train(), codebook(), torch.tensor([0]), parse_region("all", GRID))
    with pytest.raises(UserError, match="above 0"):
        SearchSettings(temperature=0)


@pytest.mark.parametrize("search", [search_tokens, search_embeddings])
def test_a_search_is_watched_and_can_be_halted(search: Any) -> None:
    seen: list[tuple[int, float, Tensor]] = []
    found = search(
        extractor(),
        codebook(),
        torch.tensor([1]),
        parse_region("0:2,0:2", GRID),
        tokens=grids(1),
        settings=SearchSettings(steps=50, record_every=2),
        see=lambda step, probability, draw: seen.append((step, float(probability[0]), draw[0].clone())),
        halt=lambda: len(seen) == 4,
    )
    assert [step for step, _, _ in seen] == [0, 2, 4, 6]
    assert found.steps == (0, 2, 4, 6)  # it ended there
    assert found.path[0].tolist() == pytest.approx([value for _, value, _ in seen])
    assert all(torch.equal(draw[2:], grids(1)[0][2:]) for _, _, draw in seen)
