"""Bisecting k-means against the same done naively: one cluster after the other, always the largest."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sklearn.cluster import BisectingKMeans

from conceptlens.core.errors import UserError
from conceptlens.gig.dictionaries import bisecting
from conceptlens.gig.dictionaries.bisecting import bisect
from conceptlens.gig.dictionaries.clusters import cluster, cluster_number, segment_sums

Rows = npt.NDArray[np.float64]


def mixture(n: int, channels: int, seed: int = 0) -> torch.Tensor:
    """Vectors made of a few of many directions, as a layer's are."""
    g = torch.Generator().manual_seed(seed)
    atoms = torch.randn(2 * channels, channels, generator=g, dtype=torch.float64).relu()
    chosen = torch.randint(0, len(atoms), (n, 3), generator=g)
    return (atoms[chosen] * torch.rand(n, 3, 1, generator=g, dtype=torch.float64) ** 2).sum(1) + 0.01


def two_means(x: Rows, first: int, second: int, left: float, eighth: int) -> tuple[npt.NDArray[np.bool_], float]:
    side = np.zeros(len(x), dtype=bool)
    toward = x[first] - x[second]
    if len(x) >= 8 * eighth:
        some = x[: len(x) // 8]
        before, value = two_means(some, first, second, left, eighth)
        if value > 0:
            toward = away(some[before].sum(0), some[~before].sum(0))
    for _ in range(bisecting.MOST_ITERATIONS):
        now = x @ toward >= 0
        moved = (now != side).sum()
        side = now
        a, b = x[side].sum(0), x[~side].sum(0)
        if moved <= left * len(x):
            break
        toward = away(a, b)
    return side, float(np.linalg.norm(a) + np.linalg.norm(b)) if 0 < side.sum() < len(x) else -1.0


def away(a: Rows, b: Rows) -> Rows:
    found: Rows = a / max(np.linalg.norm(a), 1e-300) - b / max(np.linalg.norm(b), 1e-300)
    return found


def naive(x: Rows, k: int, small: int, seed: int) -> npt.NDArray[np.int64]:
    """Largest first, ties by the first member in the shuffled order; small clusters from four starts."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).numpy()
    parts = [order]
    rank = np.argsort(order)
    while len(parts) < k:
        place = min(range(len(parts)), key=lambda i: (-len(parts[i]), rank[parts[i][0]]))
        part = parts.pop(place)
        n = len(part)
        starts = [(0, 1)] if n > small else [((2 * s) % n, (2 * s + 1) % n) for s in range(bisecting.STARTS)]
        left, eighth = (bisecting.LEFT, bisecting.EIGHTH) if n > small else (0.0, n)
        tries = [two_means(x[part], *pair, left, eighth) for pair in starts]
        side = max(tries, key=lambda found: found[1])[0]
        parts += [part[side], part[~side]]
    labels = np.empty(len(x), dtype=np.int64)
    for number, part in enumerate(parts):
        labels[part] = number
    return labels


def same_partition(one: npt.NDArray[np.int64], two: npt.NDArray[np.int64]) -> bool:
    pairs = set(zip(one.tolist(), two.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(two.tolist()))


@pytest.mark.parametrize(("k", "small"), [(2, 64), (7, 64), (40, 64), (150, 64), (150, 500), (60, 1)])
def test_many_splits_at_once_are_the_splits_one_by_one(k: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bisecting, "EIGHTH", 20)
    unit = torch.nn.functional.normalize(mixture(400, 12), dim=1)
    labels = bisect(unit, k, seed=3, small=small).numpy()
    assert len(np.unique(labels)) == k
    assert same_partition(labels, naive(unit.numpy(), k, small, 3))


def test_two_bundles_are_told_apart_and_the_mean_is_the_concept() -> None:
    shift = torch.tensor([1.0, -2.0])
    bundle = torch.tensor([[2.0, 0.1], [4.0, -0.1], [-0.1, 3.0], [0.1, 1.0]])
    found = cluster(bundle + shift, 2, shift)
    assert found.labels[0] == found.labels[1] != found.labels[2] == found.labels[3]
    assert sorted(map(tuple, found.concepts.round(decimals=5).tolist())) == [(0.0, 2.0), (3.0, 0.0)]
    unit = torch.nn.functional.normalize(bundle, dim=1)
    expected = sum(float(torch.linalg.vector_norm(unit[i] + unit[i + 1])) for i in (0, 2)) / 4
    assert found.mean_cosine == pytest.approx(expected)
    rows, cosines = found.nearest(bundle + shift, 1)
    best = found.concepts / found.concepts.norm(dim=1, keepdim=True) @ unit.T
    assert rows.flatten().tolist() == best.argmax(1).tolist()
    torch.testing.assert_close(cosines.flatten(), best.amax(1))


def test_mean_cosine_is_no_worse_than_scikit_learns() -> None:
    vectors = mixture(1500, 24, seed=1).float()
    unit = torch.nn.functional.normalize(vectors, dim=1)
    theirs = BisectingKMeans(200, random_state=0, bisecting_strategy="largest_cluster").fit(unit.numpy())
    sums = segment_sums(unit, torch.from_numpy(theirs.labels_).long(), 200)
    assert cluster(vectors, 200).mean_cosine >= float(sums.norm(dim=1).sum() / len(unit))


def test_number_of_clusters() -> None:
    assert cluster_number(1024, 50_000) == 8192
    assert cluster_number(64, 50_000) == 512
    assert cluster_number(256, 600) == 100


def test_bad_input_is_told() -> None:
    with pytest.raises(UserError, match="9 clusters of 5 vectors"):
        cluster(torch.randn(5, 3), 9)
    with pytest.raises(UserError, match="only 1 different directions"):
        cluster(torch.ones(20, 3), 3)
    two = torch.eye(3)[[0] * 400 + [1] * 5]
    with pytest.raises(UserError, match="only 2 different directions"):
        cluster(two, 3)
    assert cluster(two, 2).sizes.sort().values.tolist() == [5, 400]
    with pytest.raises(UserError, match="not finite"):
        cluster(torch.tensor([[1.0, torch.nan]]), 1)
    assert cluster(torch.randn(4, 3), 4).sizes.tolist() == [1, 1, 1, 1]
    assert cluster(torch.randn(4, 3), 1).labels.tolist() == [0, 0, 0, 0]
