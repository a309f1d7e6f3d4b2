"""The interval of a share."""

import pytest

from conceptlens.stats.wilson import wilson


def test_wilson_by_hand() -> None:
    # 45 of 50 (the paper's first row): z = 1.96, center (0.9 + 0.038416) / 1.076832.
    low, high = wilson(0.9, 50)
    assert (low, high) == pytest.approx((0.7864, 0.9565), abs=1e-4)
    assert wilson(1.0, 10)[1] == pytest.approx(1)
    assert wilson(0.0, 10)[0] == pytest.approx(0, abs=1e-12)
