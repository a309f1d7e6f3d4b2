"""The cubed cosine against numbers worked by hand, and the projection against a map that is known."""

import numpy as np
import pytest
import torch

from conceptlens.nn.losses.cubed_cosine import Rows, cubed_cosine, fit_projection


def rows(x: torch.Tensor, p: torch.Tensor) -> tuple[Rows, int]:
    return lambda at: (x[at], p[at]), len(x)


def test_by_hand() -> None:
    """(0, 0, 3) is (−1, −1, 2) centered and (−1, −1, 8) cubed; (3, 0, 0) is (8, −1, −1); the cosine is −15/66."""
    q = torch.tensor([[0.0, 5.0], [0.0, 7.0], [3.0, 9.0]])
    p = torch.tensor([[3.0, -1.0], [0.0, 0.0], [0.0, 1.0]])
    torch.testing.assert_close(cubed_cosine(q, p), torch.tensor([-15 / 66, 1.0]))


def test_shift_and_scale_of_a_concept_change_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    q, p = torch.randn(20, 3, generator=generator), torch.randn(20, 3, generator=generator)
    scaled = p * torch.tensor([0.001, 2.0, 300.0]) - 7
    torch.testing.assert_close(cubed_cosine(q, p), cubed_cosine(q, scaled), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(cubed_cosine(q, -q), torch.full((3,), -1.0))


def test_strong_images_outweigh_weak_ones() -> None:
    """Two outputs miss one image each by as much; only the one that misses the strongest image is punished."""
    p = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 5.0]).unsqueeze(1)
    weak, strong = p.clone(), p.clone()
    weak[6] += 1
    strong[7] -= 4
    assert float(cubed_cosine(weak, p)) > 0.99
    assert float(cubed_cosine(strong, p)) < 0.9


def test_a_known_map_is_found_and_the_best_on_validation_is_kept() -> None:
    generator = torch.Generator().manual_seed(1)
    x, v = torch.randn(300, 6, generator=generator), torch.randn(4, 6, generator=generator)
    held = torch.randn(100, 6, generator=generator)
    found = fit_projection(rows(x, x @ v.T), rows(held, held @ v.T), seed=0, rate=1e-2)
    assert bool((found.similarity > 0.99).all())
    cosine = torch.nn.functional.cosine_similarity(found.weight, v)
    assert bool((cosine > 0.99).all())
    torch.testing.assert_close(found.similarity, cubed_cosine(held @ found.weight.T, held @ v.T))
    again = fit_projection(rows(x, x @ v.T), rows(held, held @ v.T), seed=0, rate=1e-2)
    assert torch.equal(found.weight, again.weight)


def test_it_stops_when_validation_does_not_gain() -> None:
    generator = torch.Generator().manual_seed(2)
    x, noise = torch.randn(30, 20, generator=generator), torch.randn(30, 2, generator=generator)
    held, other = torch.randn(30, 20, generator=generator), torch.randn(30, 2, generator=generator)
    looks = []

    def held_rows(at: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        return held[at], other[at]

    def train_rows(at: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        looks.append(at)
        return x[at], noise[at]

    found = fit_projection((train_rows, 30), (held_rows, 30), seed=0, rate=1e-2, check_every=10, batch=8)
    assert found.steps < 1000
    assert len(looks) == found.steps + 11  # the first batch, and one after every step up to the check that failed
    assert all(len(at) == 8 for at in looks)


@pytest.mark.parametrize("constant", [0.0, 3.0])
def test_a_constant_target_gives_numbers(constant: float) -> None:
    q = torch.randn(5, 1, requires_grad=True)
    similarity = cubed_cosine(q, torch.full((5, 1), constant))
    similarity.sum().backward()
    assert bool(torch.isfinite(similarity).all())
    assert bool(torch.isfinite(q.grad).all())
