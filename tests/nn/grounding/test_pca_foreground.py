"""A foreground map from principal components: against a decomposition, and on an object in the middle."""

import torch

from conceptlens.nn.grounding.pca_foreground import orthonormal, pca_foreground, principal_components, windows


def blob(grid: tuple[int, int], at: tuple[float, float], radius: float) -> torch.Tensor:
    rows, columns = torch.meshgrid(*(torch.arange(side) + 0.5 for side in grid), indexing="ij")
    return (((rows - at[0]) ** 2 + (columns - at[1]) ** 2) <= radius**2).float().flatten()


def test_components_are_those_of_a_decomposition() -> None:
    torch.manual_seed(0)
    rows = torch.randn(3, 40, 12) * torch.tensor([9.0, 6.0, 4.0, *[1.0] * 9])
    centered = rows - rows.mean(1, keepdim=True)
    _, _, right = torch.linalg.svd(centered, full_matrices=False)
    found = principal_components(centered, 3)
    torch.testing.assert_close((found * right[:, :3].mT).sum(1).abs(), torch.ones(3, 3), rtol=0, atol=1e-3)


def test_orthonormal_columns_of_the_same_span() -> None:
    """As a QR decomposition, also where columns differ by eight orders of magnitude or nearly agree."""
    torch.manual_seed(2)
    columns = torch.randn(3, 20, 4) * torch.tensor([1e4, 1.0, 1e-2, 1e-4])
    columns[1, :, 1] = columns[1, :, 0] + 10 * columns[1, :, 1]
    basis = orthonormal(columns)
    torch.testing.assert_close(basis.mT @ basis, torch.eye(4).expand(3, -1, -1), rtol=0, atol=1e-3)
    other = torch.linalg.qr(columns.double()).Q.float()
    torch.testing.assert_close(basis @ basis.mT, other @ other.mT, rtol=0, atol=1e-3)


def test_one_strong_component_does_not_swallow_the_others() -> None:
    torch.manual_seed(3)
    rows = torch.randn(2, 50, 1) @ torch.randn(2, 1, 20) + 1e-4 * torch.randn(2, 50, 20)
    found = principal_components(rows - rows.mean(1, keepdim=True), 3)
    torch.testing.assert_close(found.mT @ found, torch.eye(3).expand(2, -1, -1), rtol=0, atol=1e-4)


def test_the_object_is_found_whatever_its_sign_and_tight_is_tighter() -> None:
    torch.manual_seed(1)
    grid, mask = (12, 12), blob((12, 12), (6, 6), 3)
    direction, noise = torch.randn(2, 16), 0.3 * torch.randn(2, 144, 16)
    patches = noise + torch.tensor([5.0, -5.0])[:, None, None] * mask[:, None] * direction[:, None]
    maps, tight = pca_foreground(patches, grid), pca_foreground(patches, grid, tight=True)
    for found in (maps, tight):
        assert float(found.min()) == 0
        assert float(found.max()) == 1
        assert torch.equal(found >= 0.5, (mask > 0).expand(2, -1))
    outside = mask == 0
    assert float(tight[:, outside].mean()) < 0.3 * float(maps[:, outside].mean())


def test_windows() -> None:
    middle, border = windows((8, 8), torch.device("cpu"))
    assert int(middle.sum()) == 16
    assert int(border.sum()) == 28
    assert all(int(part.sum()) > 0 for grid in ((1, 1), (2, 3)) for part in windows(grid, torch.device("cpu")))


def test_one_color_gives_a_map_without_nan() -> None:
    assert pca_foreground(torch.ones(1, 16, 4), (4, 4), tight=True).isfinite().all()
