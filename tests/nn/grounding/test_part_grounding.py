"""Gate, queries, prior and the token of the whole together, against equations 1 to 3 of PF-CBM written out in loops."""

import math

import torch
from torch.nn import functional as F

from conceptlens.encoders.contract import Tokens
from conceptlens.nn.grounding.foreground_gate import EPSILON
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior
from conceptlens.nn.grounding.part_attention import PartAttention
from conceptlens.nn.grounding.part_grounding import PartGrounding

GRID, WIDTH, PARTS = (2, 3), 5, 2


def grounding(*, whole: bool = True, prior: bool = True) -> PartGrounding:
    torch.manual_seed(0)
    gaussians = GaussianPrior(PARTS, sigma=1.5) if prior else None
    made = PartGrounding(PARTS, WIDTH, inner=4, hidden=3, whole=whole, prior=gaussians)
    if gaussians is not None:
        gaussians.start(torch.tensor([[0.5, 0.7], [1.5, 2.9]]), torch.tensor([0.6, 1.2]))
    for parameter in made.parameters():  # norms too shall count
        parameter.data += 0.1 * torch.randn_like(parameter)
    return made.requires_grad_(False)


def naive(
    made: PartGrounding, queries: PartAttention, patches: torch.Tensor, part: int, *, placed: bool
) -> list[float]:
    """The attention of one query in one image, Eq. 1 and 2, a patch at a time."""
    scores = []
    for n, patch in enumerate(patches):
        gate = made.gate
        hidden = F.gelu(gate.norm(patch) @ gate.hidden.weight.T + gate.hidden.bias)
        chance = 1 / (1 + math.exp(-float(hidden @ gate.out.weight[0] + gate.out.bias)))
        query, key = queries.query.weight @ queries.queries[part], queries.key.weight @ patch
        score = float(query @ key) / math.sqrt(len(query)) + math.log(chance + EPSILON)
        if placed:
            assert made.prior is not None
            (row, column), sigma = made.prior.means[part].tolist(), math.exp(float(made.prior.log_sigma[part]))
            away = (n // GRID[1] + 0.5 - row) ** 2 + (n % GRID[1] + 0.5 - column) ** 2
            score += -away / (2 * sigma**2) - math.log(sigma)
        scores.append(score)
    total = sum(math.exp(score) for score in scores)
    return [math.exp(score) / total for score in scores]


def test_equations_1_to_3() -> None:
    made, patches = grounding(), torch.randn(2, 6, WIDTH)
    assert made.whole is not None
    found = made(Tokens(patches, GRID))
    for b in range(2):
        for slot in range(PARTS + 1):
            queries = made.whole if slot == PARTS else made.parts
            part = 0 if slot == PARTS else slot
            weights = naive(made, queries, patches[b], part, placed=slot < PARTS)
            torch.testing.assert_close(found.attention[b, slot], torch.tensor(weights), rtol=1e-4, atol=1e-6)
            values = [
                weight * (queries.value.weight @ patch) for weight, patch in zip(weights, patches[b], strict=True)
            ]
            torch.testing.assert_close(found.slots[b, slot], queries.norm(sum(values)), rtol=1e-3, atol=1e-5)


def test_without_whole_or_prior() -> None:
    patches = torch.randn(2, 6, WIDTH)
    for whole in (False, True):
        made = grounding(whole=whole, prior=False)
        found = made(Tokens(patches, GRID))
        assert found.slots.shape == (2, PARTS + whole, 4)
        expected = naive(made, made.parts, patches[1], 1, placed=False)
        torch.testing.assert_close(found.attention[1, 1], torch.tensor(expected), rtol=1e-4, atol=1e-6)


def test_who_has_a_say() -> None:
    """Standard deviations over patches of what queries and Gaussians add; ten times the query, ten times its say."""
    made, tokens = grounding(), Tokens(torch.randn(3, 6, WIDTH), GRID)
    queries, gaussians = made.say(tokens)
    assert made.prior is not None
    rows = torch.tensor([[0.5 + row, 0.5 + column] for row in range(2) for column in range(3)])
    away = (rows - made.prior.means[:, None]).square().sum(-1)
    by_hand = (-away / (2 * (2 * made.prior.log_sigma).exp())).std(-1).mean()
    assert abs(gaussians - float(by_hand)) < 1e-4
    made.parts.queries.mul_(10)
    louder, same = made.say(tokens)
    assert abs(louder - 10 * queries) < 1e-3 * louder
    assert same == gaussians
    assert grounding(prior=False).say(tokens)[1] == 0.0
