import torch

from conceptlens.nn.quantization.clusters import kmeans, squared_distances


def test_finds_separated_clusters() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = torch.cat([center + 0.1 * torch.randn(50, 2, generator=generator) for center in truth])
    found = kmeans(points, 3)
    nearest = squared_distances(truth, found).min(-1).values
    assert float(nearest.max()) < 0.01


def test_same_seed_same_centers_and_more_centers_than_points() -> None:
    points = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
    assert torch.equal(kmeans(points, 5, seed=3), kmeans(points, 5, seed=3))
    assert kmeans(points[:2], 4).shape == (4, 4)
    assert bool(torch.isfinite(kmeans(torch.zeros(10, 3), 4)).all())


def test_distances_equal_naive() -> None:
    points, centers = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    naive = (points.unsqueeze(-2) - centers).square().sum(-1)
    torch.testing.assert_close(squared_distances(points, centers), naive)
