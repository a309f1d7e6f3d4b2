"""Sets reach their coverage on exchangeable data; abstention costs what it should; odd images are flagged."""

import math

import numpy as np
import pytest
import torch
from scipy.special import softmax

from conceptlens.evaluation.calibration.conformal import expected_range, prediction_sets
from conceptlens.evaluation.calibration.selective import area_statistic, choose_confidence, risk_coverage
from conceptlens.evaluation.ood.codebook_distance import SCORES, detect_ood, fit_distribution, p_values
from conceptlens.stats.conformal import rank, threshold, thresholds


def world(n: int, seed: int, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a mediocre, overconfident model and the truth."""
    draw = np.random.default_rng([seed, 1])
    truth = draw.choice(classes, n, p=[0.5, 0.3, 0.15, 0.05])
    logits = draw.normal(0, 1, (n, classes)) + 1.5 * np.eye(classes)[truth] * (truth < 3)[:, None]
    return softmax(3 * logits, axis=1), truth


def units(n: int) -> list[str]:
    return [str(i) for i in range(n)]


def test_ranks_by_hand() -> None:
    assert rank(9, 0.1) == 9
    assert rank(19, 0.1) == 18
    assert rank(8, 0.1) == 9  # more than there are
    assert threshold(np.arange(9) / 10, 0.1) == 0.8
    assert threshold(np.arange(8) / 10, 0.1) == math.inf
    assert threshold(np.array([]), 0.1) == math.inf


def test_coverage_holds_on_exchangeable_data() -> None:
    covered = []
    for seed in range(60):
        probabilities, truth = world(400, seed)
        found = prediction_sets(
            "class",
            "abcd",
            (probabilities[:100], truth[:100]),
            (probabilities[100:], truth[100:]),
            units(300),
            resamples=2,
        )
        assert found is not None
        covered.append(found.coverage.value)
    # The mean coverage over calibrations is (rank) / (n + 1) = 91 / 101; each has a standard deviation of about 0.034.
    assert np.mean(covered) == pytest.approx(91 / 101, abs=0.02)
    inside = 0
    low, high = expected_range(100, 300, 0.1) or (0, 0)
    inside = np.mean([(low <= value) & (value <= high) for value in covered])
    assert inside >= 0.85


def test_sets_by_hand() -> None:
    calibration = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]])
    truth = np.array([0, 0, 1, 0])  # scores 0.1, 0.4, 0.3, 0.8; of five with a half to miss, the third: 0.4
    test = np.array([[0.7, 0.3], [0.6, 0.4], [0.5, 0.5], [0.65, 0.35]])
    found = prediction_sets("q", ("a", "b"), (calibration, truth), (test, np.array([0, 1, 0, -1])), units(4), alpha=0.5)
    assert found is not None
    assert found.threshold == pytest.approx(0.6)
    assert found.calibrated_on == 4
    assert found.coverage.value == pytest.approx(1 / 3)
    assert found.empty == pytest.approx(1 / 3)
    assert found.size.value == pytest.approx(2 / 3)
    assert [each.images for each in found.answers] == [2, 1]
    assert found.answers[1].coverage == 0


def test_each_answer_by_itself_covers_the_rare_one() -> None:
    probabilities, truth = world(6000, 3)
    half = 3000
    sides = (probabilities[:half], truth[:half]), (probabilities[half:], truth[half:])
    together = prediction_sets("c", "abcd", *sides, units(half), resamples=2)
    apart = prediction_sets("c", "abcd", *sides, units(half), resamples=2, each=True)
    assert together is not None
    assert apart is not None
    assert together.answers[3].coverage < 0.7  # the promise about all images together is kept by the others
    for each in apart.answers:
        assert each.coverage == pytest.approx(0.9, abs=0.08)


def test_too_few_images_promise_nothing() -> None:
    found = prediction_sets(
        "q", "ab", (np.full((3, 2), 0.5), np.array([0, 1, 0])), (np.full((2, 2), 0.5), np.array([0, 1])), units(2)
    )
    assert found is not None
    assert found.threshold is None
    assert found.size.value == 2
    assert found.holds is None
    nothing = (np.full((2, 2), 0.5), np.array([-1, -1]))
    assert prediction_sets("q", "ab", nothing, nothing, units(2)) is None
    np.testing.assert_array_equal(
        thresholds(np.full((3, 2), 0.5), np.array([0, 1, 0]), 2, 0.1, each=True), [math.inf] * 2
    )


def test_area_against_a_loop() -> None:
    draw = np.random.default_rng(0)
    confidence, wrong = draw.integers(5, size=40) / 5, (draw.random(40) < 0.3).astype(float)
    risks = []
    for each in confidence:
        answered = confidence >= each
        risks.append(wrong[answered].mean())
    assert area_statistic(confidence, wrong)(np.ones((1, 40)))[0] == pytest.approx(np.mean(risks))
    weights = draw.integers(3, size=(1, 40)).astype(float)
    again = np.repeat(np.arange(40), weights[0].astype(int))
    repeated = area_statistic(confidence[again], wrong[again])(np.ones((1, len(again))))[0]
    assert area_statistic(confidence, wrong)(weights)[0] == pytest.approx(repeated)


def test_silence_by_hand() -> None:
    confidence = np.array([0.9, 0.8, 0.7, 0.6])
    hit = np.array([1.0, 1.0, 0.0, 1.0])
    assert choose_confidence(confidence, hit, 0.0) == 0.8
    assert choose_confidence(confidence, hit, 0.25) == 0.6
    assert choose_confidence(confidence, 1 - hit, 0.0) is None
    found = risk_coverage(confidence, hit, units(4), (confidence, hit), resamples=20)
    assert found is not None
    assert found.error.value == 0.25
    assert found.points == [(0.25, 0.0), (0.5, 0.0), (0.75, pytest.approx(1 / 3)), (1.0, 0.25)]
    assert found.area.value == pytest.approx((0 + 0 + 1 / 3 + 0.25) / 4)
    assert found.oracle == pytest.approx(0.25 / 4)
    assert found.operating_points[0].answered.value == 0.5
    assert found.operating_points[0].error.value == 0
    assert risk_coverage(confidence, np.full(4, np.nan), units(4), (confidence, hit)) is None


def patches(n: int, seed: int, shift: float = 0.0, scale: float = 1.0, odd: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(5, 12, generator=torch.Generator().manual_seed(99)) * 4
    chosen = torch.randint(5, (n, 30), generator=generator)
    made = centers[chosen] + scale * torch.randn(n, 30, 12, generator=generator) + shift
    if odd:
        made[:, :odd] += 30
    return made


@pytest.mark.parametrize("codebook", [True, False])
def test_images_out_of_distribution_are_flagged_at_the_stated_rate(codebook: bool) -> None:
    codes = torch.randn(5, 12, generator=torch.Generator().manual_seed(99)) * 4 if codebook else None
    train = patches(200, 0)
    made = fit_distribution(lambda: train.split(32), codes, concepts=5)
    assert made.codebook is codebook
    validation = made.scores(patches(399, 1)).double().numpy()
    usual = made.scores(patches(1500, 2)).double().numpy()
    found = detect_ood(made, validation, usual, units(1500), units(1500), resamples=20)
    assert found.expected <= 0.05
    assert found.flagged.value == pytest.approx(0.05, abs=0.03)
    kinds = {"moved": patches(50, 3, shift=3), "noisy": patches(50, 4, scale=2.5), "one corner": patches(50, 5, odd=3)}
    kinds["empty"] = torch.zeros(50, 30, 12)
    for name, images in kinds.items():
        scores = made.scores(images).double().numpy()
        share = detect_ood(made, validation, scores, units(50), units(50), resamples=2).flagged.value
        assert share == 1, name


def test_p_values_of_ood_scores_by_hand() -> None:
    validation = np.array([[1.0, 1, 1], [2, 2, 2], [3, 3, 3]])
    found = p_values(validation, np.array([[2.0, 0, 4]]))
    np.testing.assert_allclose(found, [[3 / 4, 1, 1 / 4]])


def test_too_few_validation_images_flag_nothing_and_say_so() -> None:
    train = patches(30, 0)
    made = fit_distribution(lambda: [train], None, concepts=5)
    scores = made.scores(patches(10, 1)).double().numpy()
    found = detect_ood(made, scores, 100 * scores, units(10), units(10), resamples=2)
    assert found.flagged.value == 0
    assert set(found.bounds.values()) == {None}
    assert "59 validation images" in found.sentence("test")
    assert len(SCORES) == 3
