"""Mergeable statistics: pieces in any order give what all values at once give."""

import json

import numpy as np
import pytest

from conceptlens.stats.mergeable import Moments, Reservoir, Summary, UnitHistogram


def test_moments_by_hand() -> None:
    merged = Moments.of(np.array([1.0, 3.0])).merge(Moments.of(np.array([5.0])))
    assert (merged.n, merged.mean, merged.squares) == (3, 3.0, 8.0)
    assert merged.std == 2.0
    assert Moments().merge(Moments()).n == 0
    assert Moments.of(np.array([2.0])).std is None


def test_pieces_give_the_whole() -> None:
    values = np.random.default_rng(0).random(1000)
    pieces = np.split(values, [3, 3, 700])
    merged = [Moments(), UnitHistogram()]
    for piece in reversed(pieces):
        merged = [merged[0].merge(Moments.of(piece)), merged[1].merge(UnitHistogram.of(piece))]  # type: ignore[arg-type]
    moments, bins = merged
    assert isinstance(moments, Moments)
    assert isinstance(bins, UnitHistogram)
    assert moments.mean == pytest.approx(values.mean(), abs=1e-12)
    assert moments.std == pytest.approx(values.std(ddof=1), abs=1e-12)
    for share in (0.0, 0.05, 0.5, 0.999, 1.0):
        exact = np.quantile(values, share, method="inverted_cdf")
        assert bins.quantile(share) == pytest.approx(exact, abs=0.001)
    assert UnitHistogram().quantile(0.5) is None


def test_a_reservoir_is_the_same_for_any_division() -> None:
    names = [f"image {number}" for number in range(200)]
    whole = Reservoir.of(names)
    assert len(whole.names) == 8
    assert Reservoir.of(names[150:]).merge(Reservoir.of(names[:150])) == whole
    counts = np.zeros(10)
    for start in range(300):  # every tenth of the names is drawn about equally often
        for name in Reservoir.of([f"{start} {number}" for number in range(100)]).names:
            counts[int(name.split()[1]) // 10] += 1
    assert counts.min() > 180
    assert counts.max() < 300


def test_a_summary_survives_its_file() -> None:
    one = Summary.of(["a", "b"], ["x", "y"], {"p(x)": np.array([0.9, 0.2])}, [True, False])
    two = Summary.of(["c"], ["x"], {"p(x)": np.array([0.4])}, [False], errors=2)
    merged = one.merge(Summary.from_dict(json.loads(json.dumps(two.to_dict()))))
    assert (merged.images, merged.errors, merged.unlike, merged.classes) == (3, 2, 1, {"x": 2, "y": 1})
    assert sorted(merged.examples["x"].names) == ["a", "c"]
    assert merged.scores["p(x)"][0].mean == pytest.approx(0.5)
    assert Summary().merge(one).to_dict() == one.to_dict()
