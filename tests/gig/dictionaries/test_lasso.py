"""The lasso against scikit-learn's, against a hand-worked case, and its promises."""

import pytest
import torch
from sklearn.decomposition import sparse_encode
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.gpu_kernels import failures
from conceptlens.gig.dictionaries.lasso import Dictionary, decompose, lambda_for
from tests.interpreter import interpreted


def objective(x: Tensor, u: Tensor, v: Tensor, lam: float) -> Tensor:
    return 0.5 * (x - u @ v).square().sum(1) + lam * u.abs().sum(1)


def problem(n: int, k: int, channels: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Correlated concepts of unequal length, and vectors that are sums of four."""
    g = torch.Generator().manual_seed(seed)
    v = torch.randn(k // 4, channels, generator=g).repeat_interleave(4, 0) + 0.3 * torch.randn(k, channels, generator=g)
    v = v * (0.5 + torch.rand(k, 1, generator=g))
    u = torch.zeros(n, k).scatter_(1, torch.randint(0, k, (n, 4), generator=g), torch.randn(n, 4, generator=g))
    return u @ v + 0.1 * torch.randn(n, channels, generator=g), v


@pytest.mark.parametrize("share", [0.03, 0.2, 0.7])
def test_objective_is_scikit_learns(share: float) -> None:
    x, v = problem(60, 320, 32)
    lam = lambda_for(x, v, share)
    found = decompose(x, v, lam)
    theirs = torch.from_numpy(sparse_encode(x.double().numpy(), v.double().numpy(), algorithm="lasso_cd", alpha=lam))
    ours = objective(x.double(), found.dense().double(), v.double(), lam)
    best = objective(x.double(), theirs, v.double(), lam)
    assert ((ours - best) / best).abs().max() < 1e-3
    assert (ours <= best * (1 + found.gap.double() + 1e-6)).all()  # the gap is a promise
    assert found.gap.max() <= 1e-4
    torch.testing.assert_close(found.reconstruct(v), found.dense() @ v, rtol=1e-4, atol=1e-5)
    assert torch.equal(found.number, (found.dense() != 0).sum(1))  # no concept twice


def test_orthogonal_concepts_shrink_by_lambda() -> None:
    """With v_j = l_j e_j, u_j = sign(x_j) max(|x_j| − λ / l_j, 0) / l_j."""
    x = torch.tensor([[3.0, -1.0, 0.2]])
    v = torch.diag(torch.tensor([1.0, 2.0, 1.0]))
    torch.testing.assert_close(decompose(x, v, 0.5).dense(), torch.tensor([[2.5, -0.375, 0.0]]), rtol=1e-3, atol=1e-4)


KERNEL = """
import torch
from conceptlens.gig.dictionaries import lasso, lasso_triton
g = torch.Generator().manual_seed(0)
for size in (1, 5, 33):
    v = torch.nn.functional.normalize(torch.randn(3, size, 40, generator=g), dim=2)
    matrices = v @ v.mT
    slack, u = torch.randn(size, 3, generator=g), torch.randn(size, 3, generator=g)
    limit = 0.3 * torch.rand(size, 3, generator=g)
    limit[0, 1] = torch.inf  # nothing happens there
    wanted = lasso.sweep(matrices.permute(1, 2, 0).contiguous(), slack, u, limit)
    found = lasso_triton.sweep(matrices, slack.T, u.T, limit.T, lasso.SWEEPS)[1].T
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert size == 1 or not torch.equal(found, u)
print("agrees")
"""


@pytest.mark.slow
def test_the_kernel_line_by_line() -> None:
    assert interpreted(KERNEL) == "agrees"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("share", [0.03, 0.2, 0.7])
def test_the_kernel_on_a_gpu(share: float) -> None:
    x, v = problem(300, 1024, 64)
    lam = lambda_for(x, v, share)
    there = decompose(x.cuda(), v.cuda(), lam)
    assert not failures
    here, found = decompose(x, v, lam), there.dense().cpu()
    one, two = (objective(x, u, v, lam) for u in (here.dense(), found))
    assert ((one - two) / one).abs().max() < 2e-4
    assert there.gap.max() <= 1e-4


@pytest.mark.slow
def test_blocks_and_shared_products_change_nothing() -> None:
    x, v = problem(50, 128, 16, seed=1)
    whole = decompose(x, v, 0.5, tolerance=1e-5)
    pieces = decompose(x, Dictionary(v), 0.5, tolerance=1e-5, block=7)
    few = Dictionary(v)
    one, two = (objective(x, codes.dense(), v, 0.5) for codes in (whole, pieces))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    index = torch.tensor([[3, 5], [7, 0]])
    torch.testing.assert_close(few.products(index, 1), few.products(index, 10**6))


def test_edges() -> None:
    x, v = problem(5, 32, 8)
    large = decompose(x, v, 1e6)
    assert large.number.tolist() == [0] * 5
    assert decompose(torch.zeros(2, 8), v, 0.1).dense().abs().sum() == 0
    dead = torch.cat([v, torch.zeros(3, 8)])  # an empty concept is never used
    assert decompose(x, dead, 0.1).dense()[:, 32:].abs().sum() == 0
    with pytest.raises(UserError, match="same layer"):
        decompose(x[:, :5], v, 0.1)
    with pytest.raises(UserError, match="above 0"):
        decompose(x, v, 0.0)
    with pytest.raises(UserError, match="not finite"):
        decompose(x / 0, v, 0.1)
