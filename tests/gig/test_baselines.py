"""Sparse autoencoder (Eq. 11) and dictionary learning."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.gig.dictionaries.autoencoder import fit_autoencoder, loss
from conceptlens.gig.dictionaries.dictionary_learning import fit_dictionary, update


def test_loss_is_eq_11_by_hand() -> None:
    x = torch.tensor([[1.0, 2.0], [0.0, -1.0]])
    encoder = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    threshold = torch.tensor([0.0, -1.0, 0.0])
    decoder = torch.tensor([[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]])
    offset = torch.tensor([1.0, 0.0])
    # First: f = (1, 1, 3), x̂ = (4, 5), error 9 + 9, penalty 1·5 + 1·1. Second: f = 0, x̂ = (1, 0), error 1 + 1.
    assert float(loss(x, encoder, threshold, decoder, offset, 2.0)) == pytest.approx((18 + 2 * 6 + 2) / 2)


def directions(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    truth = torch.nn.functional.normalize(torch.randn(12, 24, generator=g), dim=1)
    codes = torch.rand(n, 12, generator=g) * (torch.rand(n, 12, generator=g) < 0.15)
    return codes @ truth + 0.01 * torch.randn(n, 24, generator=g), truth


def recovered(found: torch.Tensor, truth: torch.Tensor) -> float:
    """Mean over true directions of the largest cosine with a learned one."""
    return float((truth @ torch.nn.functional.normalize(found, dim=1).T).abs().amax(1).mean())


def test_the_autoencoder_finds_the_directions_and_stays_in_the_datas_units() -> None:
    x, truth = directions(2000)
    found = fit_autoencoder(5 * x, 48, sparsity=1.0, epochs=20, batch=100, rate=5e-3)
    assert found.losses[-1] < 0.5 * found.losses[0]
    assert recovered(found.concepts, truth) > 0.9
    codes = found.encode(5 * x)
    error = (5 * x - found.decode(codes)).norm() / (5 * x).norm()
    assert error < 0.5
    assert (codes > 0).float().mean() < 0.5


def test_dictionary_learning_finds_the_directions() -> None:
    x, truth = directions(1500)
    found = fit_dictionary(x, 24, 0.05, epochs=6, batch=150)
    assert found.objectives[-1] < found.objectives[0]
    assert recovered(found.concepts, truth) > 0.9
    assert found.concepts.norm(dim=1).max() <= 1 + 1e-5


def test_an_update_lowers_the_objective_and_is_least_squares_where_unit_length_allows() -> None:
    g = torch.Generator().manual_seed(0)
    u, x = torch.rand(50, 3, generator=g), 0.1 * torch.randn(50, 4, generator=g)
    concepts = torch.zeros(3, 4)
    for _ in range(400):
        concepts = update(concepts, u.T @ u, u.T @ x)
    torch.testing.assert_close(concepts, torch.linalg.lstsq(u, x).solution, rtol=1e-3, atol=1e-4)


def test_an_update_in_blocks_moves_one_vector_after_the_other() -> None:
    g = torch.Generator().manual_seed(1)
    u = torch.rand(40, 11, generator=g, dtype=torch.float64) * (torch.rand(40, 11, generator=g) < 0.5)
    u[:, 4] = 0  # a concept that nobody uses stays
    x = 3 * torch.randn(40, 5, generator=g, dtype=torch.float64)
    start = torch.randn(11, 5, generator=g, dtype=torch.float64)
    used, drawn, plain = u.T @ u, u.T @ x, start.clone()
    for j in range(11):
        if j != 4:
            moved = plain[j] + (drawn[j] - used[j] @ plain) / used[j, j]
            plain[j] = moved / max(1.0, float(moved.norm()))
    for block in (1, 3, 64):
        torch.testing.assert_close(update(start, used, drawn, block=block), plain)


def test_bad_input_is_told() -> None:
    with pytest.raises(UserError, match="all zero"):
        fit_autoencoder(torch.zeros(4, 3), 2)
    with pytest.raises(UserError, match="sample more"):
        fit_dictionary(torch.randn(4, 3), 9)
