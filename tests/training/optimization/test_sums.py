"""Sums of losses: exact in float64, the same after a resume, and a mean to look at on the way."""

import pytest
import torch

from conceptlens.core.processes import Processes
from conceptlens.training.optimization.sums import Sums


def check(device: torch.device) -> None:
    sums = Sums({}, device)
    for step in range(1, 11):
        sums.add({"ivq": torch.tensor(0.1 * step, device=device), "class": torch.tensor(1e8, device=device)})
    totals = sums.totals(Processes(device))
    assert list(totals) == ["class", "ivq"]
    assert totals["class"] == 1e9
    assert totals["ivq"] == pytest.approx(sum(float(torch.tensor(0.1 * step)) for step in range(1, 11)), abs=1e-12)


def test_float32_terms_are_added_in_float64() -> None:
    check(torch.device("cpu"))


def test_a_resumed_epoch_goes_on_from_its_sums() -> None:
    sums = Sums({"class": 3.0, "ivq": 0.5}, torch.device("cpu"))
    assert sums.totals(Processes()) == {"class": 3.0, "ivq": 0.5}  # also if no step is left
    sums.add({"ivq": torch.tensor(1.0), "class": torch.tensor(2.0)})
    assert sums.totals(Processes()) == {"class": 5.0, "ivq": 1.5}
    assert sums.glance(2) == pytest.approx(3.25)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_glance_at_a_gpu_does_not_wait() -> None:
    device = torch.device("cuda")
    check(device)
    sums = Sums({}, device)
    sums.add({"class": torch.tensor(4.0, device=device)})
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert sums.glance(2) is None  # only asked for
        while sums.glance(4) is None:
            pass
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert sums.glance(4) in (2.0, 1.0)
