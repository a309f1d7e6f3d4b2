"""The rank while it trains: the means of `patch_ranks`, reported in order."""

import pytest
import torch

from conceptlens.stats.rank import patch_ranks
from conceptlens.training.records.ranks import Means, RankTracker, mean_ranks


def patches(seed: int = 0) -> torch.Tensor:
    return torch.randn(3, 12, 8, generator=torch.Generator().manual_seed(seed))


def test_means_over_images() -> None:
    expected = patch_ranks(patches())
    found = mean_ranks(patches())
    assert found == {name: pytest.approx(float(expected[name].mean()), rel=1e-6) for name in ("published", "effective")}


def check(device: torch.device) -> None:
    tracker, reports = RankTracker(), []

    def note(number: int, means: Means) -> None:
        reports.append((number, means))

    for number in range(3):
        tracker.measure(patches(number).to(device), lambda means, number=number: note(number, means))  # type: ignore[misc]
        assert len(reports) >= number  # what came before is told before the next is begun
    tracker.settle()
    tracker.settle()
    assert [number for number, _ in reports] == [0, 1, 2]
    for number, means in reports:
        assert means == {name: pytest.approx(value, rel=1e-5) for name, value in mean_ranks(patches(number)).items()}
    tracker.close()


def test_reports_come_in_order() -> None:
    check(torch.device("cpu"))


def test_what_was_not_told_is_dropped_with_the_tracker() -> None:
    tracker = RankTracker()
    tracker.close()
    tracker.settle()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_goes_on_working() -> None:
    check(torch.device("cuda"))
    tracker, reports = RankTracker(), []
    live = patches().cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        tracker.measure(live, reports.append)
        live.zero_()  # as the next step would: what was asked about is what was there
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not reports
    tracker.settle()
    assert reports[0]["effective"] == pytest.approx(mean_ranks(patches())["effective"], rel=1e-5)
    tracker.close()
