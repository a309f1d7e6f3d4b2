import math
from itertools import pairwise

import pytest

from conceptlens.recipes import TrainingConfig
from conceptlens.training.optimization.schedule import rate


def test_published_schedule_by_hand() -> None:
    """Warm-up e^{10(e/5 − 1)} for five epochs, the peak at the fifth, then (1 − e/150)^0.9."""
    config = TrainingConfig(schedule="polynomial", schedule_by="epoch", warmup=5, warmup_shape="exponential")
    steps = 10
    assert rate(config, 0, steps, 150) == pytest.approx(math.exp(-10))
    assert rate(config, 3 * steps + 9, steps, 150) == pytest.approx(math.exp(10 * (3 / 5 - 1)))
    assert rate(config, 5 * steps, steps, 150) == 1.0
    assert rate(config, 6 * steps, steps, 150) == pytest.approx((1 - 6 / 150) ** 0.9)
    assert rate(config, 149 * steps, steps, 150) == pytest.approx((1 - 149 / 150) ** 0.9)


def test_exponential_is_geometric_after_a_linear_warmup() -> None:
    config = TrainingConfig(schedule="exponential", warmup=2, final_rate=0.01)
    values = [rate(config, step, 10, 12) for step in range(120)]
    assert values[9] == pytest.approx(0.5)  # half of the warm-up
    assert values[19] == pytest.approx(1.0)
    ratios = [after / before for before, after in pairwise(values[20:])]
    assert ratios == pytest.approx([0.01 ** (1 / 100)] * len(ratios))
    assert values[-1] == pytest.approx(0.01)


def test_cosine_ends() -> None:
    config = TrainingConfig(schedule="cosine", warmup=0, final_rate=0.1)
    assert rate(config, 49, 10, 10) == pytest.approx(0.55)
    assert rate(config, 99, 10, 10) == pytest.approx(0.1)


@pytest.mark.parametrize("schedule", ["exponential", "polynomial", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0, 3, 50])
def test_rates_stay_in_range(schedule: str, warmup: int) -> None:
    config = TrainingConfig(schedule=schedule, warmup=warmup)  # type: ignore[arg-type]
    for step in range(60):
        assert 0 < rate(config, step, 4, 15) <= 1.0 + 1e-9
