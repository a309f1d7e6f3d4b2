"""The same numbers on a GPU; skipped without one."""

import pytest
import torch

from conceptlens.nn.sparse_head import fit_path
from tests.nn.sparse_head.problems import problem

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("chunk_rows", [None, 64])
def test_gpu_and_cpu_agree(dtype: torch.dtype, chunk_rows: int | None) -> None:
    x, y = problem(n=500, d=100, classes=6)
    x = x.to(dtype)
    here = fit_path(x, y, 6, steps=20, ratio=0.01)
    there = fit_path(x, y, 6, steps=20, ratio=0.01, device="cuda", chunk_rows=chunk_rows)
    assert there.weights.is_cuda
    assert (there.gaps <= 1e-4).all()
    torch.testing.assert_close(there.lambdas.cpu(), here.lambdas, rtol=1e-5, atol=0)
    torch.testing.assert_close(there.objectives.cpu(), here.objectives, rtol=2e-4, atol=0)
    assert there.at_nec(5).nec == 5
    if chunk_rows is None:
        resident = fit_path(x.cuda(), y.cuda(), 6, steps=20, ratio=0.01)
        torch.testing.assert_close(resident.objectives, there.objectives, rtol=1e-5, atol=0)
