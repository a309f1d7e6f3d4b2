"""Calibration error against hand-worked bins and a loop."""

import numpy as np
import pytest

from conceptlens.evaluation.calibration.ece import expected_calibration_error, top_label_error


def by_loop(confidence: np.ndarray, correct: np.ndarray, bins: int) -> float:
    total = 0.0
    for low in range(bins):
        inside = [i for i, c in enumerate(confidence) if low / bins < c <= (low + 1) / bins or (c == 0 and low == 0)]
        if inside:
            total += len(inside) / len(confidence) * abs(np.mean(confidence[inside]) - np.mean(correct[inside]))
    return total


def test_two_bins_by_hand() -> None:
    # (.2, .4) none right: gap .3; (.8, 1.) one of two right: gap .4
    assert expected_calibration_error([0.2, 0.4, 0.8, 1.0], [0, 0, 1, 0], bins=2) == pytest.approx(0.35)


def test_equal_width_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    confidence = np.r_[0.0, 1.0, 0.5, rng.random(300)]
    correct = (rng.random(303) < confidence**2).astype(float)
    expected = by_loop(confidence, correct, 15)
    assert expected_calibration_error(confidence, correct) == pytest.approx(expected, abs=1e-12)


def test_equal_mass_puts_as_many_into_each_bin() -> None:
    confidence, correct = np.array([0.91, 0.99, 0.92, 0.98]), np.array([0, 1, 0, 1])
    # bins {.91, .92} and {.98, .99}: gaps .915 and .015; equal width would see one bin
    assert expected_calibration_error(confidence, correct, bins=2, spacing="mass") == pytest.approx((0.915 + 0.015) / 2)
    assert expected_calibration_error(confidence, correct, bins=2) == pytest.approx(0.45)


def test_top_label_and_nothing() -> None:
    probabilities = np.array([[0.7, 0.3], [0.2, 0.8]])
    assert top_label_error(probabilities, np.array([0, 0]), bins=1) == pytest.approx(abs(0.75 - 0.5))
    assert top_label_error(np.zeros((0, 2)), np.zeros(0, dtype=int)) is None
    assert expected_calibration_error([], []) is None
