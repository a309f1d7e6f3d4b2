"""Images unlike the training images: the distance against a plain one, false alarms, files."""

from pathlib import Path

import numpy as np
import pytest

from conceptlens.runs.image_distribution import FILE, ImageDistribution

Generator = np.random.Generator


def vectors(generator: Generator, n: int, width: int = 12) -> np.ndarray:
    mixed = generator.normal(size=(n, width)) @ np.random.default_rng(9).normal(size=(width, width))
    return (mixed + 5).astype(np.float32)


@pytest.fixture
def found() -> ImageDistribution:
    generator = np.random.default_rng(0)
    fitted = ImageDistribution.fit(vectors(generator, 400), vectors(generator, 300), "w")
    assert fitted is not None
    return fitted


def test_the_distance_with_all_directions_but_one_is_that_of_mahalanobis(found: ImageDistribution) -> None:
    # 11 of 12 directions are kept and the rest has the last one's variance: nothing is approximated.
    training = vectors(np.random.default_rng(0), 400).astype(np.float64)
    inverse = np.linalg.inv(np.cov(training.T))
    for row in vectors(np.random.default_rng(3), 5).astype(np.float64):
        off = row - training.mean(0)
        assert found.scores(row[None])[0] == pytest.approx(np.sqrt(off @ inverse @ off), rel=1e-4)


def test_one_in_a_hundred_of_the_same_kind_and_all_others(found: ImageDistribution) -> None:
    new = vectors(np.random.default_rng(1), 4000)
    assert 0.001 < found.unlike(new).mean() < 0.025
    assert found.unlike(new + 40).all()
    assert found.unlike(np.full((1, 12), np.nan, dtype=np.float32)).all()


def test_the_file_brings_it_back_and_is_of_one_model(found: ImageDistribution, tmp_path: Path) -> None:
    found.write(tmp_path)
    back = ImageDistribution.read(tmp_path, "w")
    assert back is not None
    some = vectors(np.random.default_rng(2), 50)
    assert back.scores(some) == pytest.approx(found.scores(some), rel=1e-4)
    assert ImageDistribution.read(tmp_path, "other weights") is None
    (tmp_path / FILE).write_bytes(b"damaged")
    assert ImageDistribution.read(tmp_path, "w") is None
    assert ImageDistribution.read(tmp_path / "nowhere", "w") is None


def test_with_too_few_images_nothing_is_said(tmp_path: Path) -> None:
    some = vectors(np.random.default_rng(0), 30)
    assert ImageDistribution.fit(some, some[:19], "w") is None
    ImageDistribution.keep(some[:19], some, tmp_path, "w")
    assert not (tmp_path / FILE).exists()
    few = ImageDistribution.fit(some, some[:20], "w")  # the bound is the largest of them
    assert few is not None
    assert few.bound == pytest.approx(few.scores(some[:20]).max())
