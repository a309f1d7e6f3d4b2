"""Ranks against a float64 SVD of every image, and against matrices whose rank is known by hand."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.stats import rank
from conceptlens.stats.rank import DEFINITIONS, patch_ranks, rank_columns, rank_means

COUNTS = ("published", "energy", "numerical")


def naive(image: Tensor, centered: bool = False, threshold: float = 0.99) -> dict[str, float]:
    """One image, one float64 SVD, every definition in plain Python."""
    matrix = image.double()
    if centered:
        matrix = matrix - matrix.mean(0)
    sigma = torch.linalg.svd(matrix, full_matrices=False)[1].tolist()
    half = image.dtype in (torch.float16, torch.bfloat16)
    tolerance = sigma[0] * max(image.shape) * torch.finfo(torch.float32 if half else image.dtype).eps

    def within(parts: list[float]) -> int:
        return sum(sum(parts[: i + 1]) / sum(parts) <= threshold for i in range(len(parts)))

    shares = [s / sum(sigma) for s in sigma]
    return {
        "published": within(sigma),
        "energy": within([s * s for s in sigma]),
        "numerical": sum(s > tolerance for s in sigma),
        "effective": math.exp(-sum(p * math.log(p) for p in shares if p > 0)),
        "stable": sum(s * s for s in sigma) / sigma[0] ** 2,
    }


def with_spectrum(sigma: Tensor, rows: int, columns: int, seed: int) -> Tensor:
    """A float64 matrix (L, D) with the singular values given."""
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(rows, len(sigma), generator=generator, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(columns, len(sigma), generator=generator, dtype=torch.float64))[0]
    matrix: Tensor = left * sigma @ right.T
    return matrix


def batch(kind: str, rows: int, columns: int, images: int = 6) -> Tensor:
    n = min(rows, columns)
    index = torch.arange(1, n + 1, dtype=torch.float64)
    made = []
    for seed in range(images):
        sigma = {
            "flat": torch.ones(n, dtype=torch.float64) + index / n,
            "power": index ** -(0.4 + 0.2 * seed),
            "steep": torch.exp(-index * (0.05 + 0.05 * seed)),
            "low": torch.where(index <= 3 + seed, 1 / index, 0.0),
            "dominated": torch.where(index == 1, 300.0, index**-0.8),
        }[kind].sort(descending=True)[0]
        made.append(with_spectrum(sigma, rows, columns, seed))
    return torch.stack(made)


@pytest.mark.parametrize("kind", ["flat", "power", "steep", "low", "dominated"])
@pytest.mark.parametrize(("rows", "columns"), [(36, 64), (49, 24), (30, 30)])
@pytest.mark.parametrize("centered", [False, True])
def test_every_rank_is_that_of_a_float64_svd(kind: str, rows: int, columns: int, centered: bool) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        patches = batch(kind, rows, columns).to(dtype)
        found = patch_ranks(patches, centered=centered)
        for position, image in enumerate(patches):
            expected = naive(image, centered)
            for name in COUNTS:
                assert found[name][position].item() == expected[name], (name, dtype)
            assert found["effective"][position].item() == pytest.approx(expected["effective"], rel=1e-5)
            assert found["stable"][position].item() == pytest.approx(expected["stable"], rel=1e-9)


def test_hand_worked_spectrum() -> None:
    # σ = 90, 9, 0.9, 0.1: shares .9, .99, .999, 1; the second is exactly 0.99 and counts.
    image = torch.diag(torch.tensor([90.0, 9.0, 0.9, 0.1], dtype=torch.float64))
    found = patch_ranks(image[None])
    assert found["published"].item() == 2
    assert found["energy"].item() == 1  # 8100 of 8181.82 is 0.9899998, with the next 0.9999
    assert found["numerical"].item() == 4
    assert found["stable"].item() == pytest.approx(1 + (81 + 0.81 + 0.01) / 8100)
    assert patch_ranks(image[None], ("published",), threshold=0.95)["published"].item() == 1


def test_equal_singular_values_have_their_number_as_effective_and_stable_rank() -> None:
    found = patch_ranks(7 * torch.eye(100)[None])
    assert found["effective"].item() == pytest.approx(100)
    assert found["stable"].item() == pytest.approx(100)
    assert found["published"].item() == 99  # 99 of 100 equal shares are exactly 0.99
    assert found["numerical"].item() == 100


def test_images_next_to_the_threshold_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    images = []
    for seed, nudge in enumerate((-1e-13, 1e-13)):
        sigma = torch.tensor([0.5, 0.3, 0.19 + nudge] + 10 * [(0.01 - nudge) / 10], dtype=torch.float64)
        images.append(with_spectrum(sigma, 20, 30, seed))
    recomputed: list[int] = []
    exact = rank._from_svd

    def spy(patches: Tensor, centered: bool) -> rank._Spectra:
        recomputed.append(len(patches))
        return exact(patches, centered)

    monkeypatch.setattr(rank, "_from_svd", spy)
    assert patch_ranks(torch.stack(images), ("published",))["published"].tolist() == [3, 2]
    assert recomputed == [2]
    recomputed.clear()
    patch_ranks(batch("power", 36, 64).float())
    assert not recomputed, "ordinary images need no SVD"


def test_numerical_rank_equals_torch_matrix_rank() -> None:
    patches = torch.cat([batch("low", 36, 64), batch("steep", 36, 64)]).float()
    assert patch_ranks(patches, ("numerical",))["numerical"].tolist() == torch.linalg.matrix_rank(patches).tolist()


def test_small_singular_values_of_float64_are_seen_beyond_the_gram_matrix() -> None:
    sigma = torch.tensor([1.0, 1e-4, 1e-10, 1e-12, 1e-15], dtype=torch.float64)
    found = patch_ranks(with_spectrum(sigma, 12, 9, 0)[None], ("numerical",))
    assert found["numerical"].item() == 4  # 1e-10 and 1e-12 square to below float64's grain, and still count


def test_edges() -> None:
    zero = patch_ranks(torch.zeros(2, 5, 4))
    assert all(value.tolist() == [0, 0] for value in zero.values())
    constant = patch_ranks(torch.full((1, 7, 4), 0.1) * torch.tensor([1.0, 3.0, 0.7, 1e3]), centered=True)
    assert all(value.tolist() == [0] for value in constant.values())
    assert all(value.shape == (0,) for value in patch_ranks(torch.zeros(0, 5, 4)).values())
    assert all(value.tolist() == [0] for value in patch_ranks(torch.zeros(1, 0, 4)).values())
    single = patch_ranks(torch.tensor([[[3.0, 4.0]]]))
    assert single["published"].item() == 0  # the only share is 1, beyond 0.99
    assert single["numerical"].item() == single["effective"].item() == single["stable"].item() == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("centered", [False, True])
def test_broken_tokens_give_nan_for_their_image_only(bad: float, centered: bool) -> None:
    patches = batch("power", 12, 9, images=3).float()
    whole = patch_ranks(patches, centered=centered)
    patches[1, 4, 2] = bad
    for name, value in patch_ranks(patches, centered=centered).items():
        assert value.isnan().tolist() == [False, True, False]
        assert value[[0, 2]].tolist() == whole[name][[0, 2]].tolist()


@pytest.mark.parametrize("scale", [1e-180, 1e180])
def test_scale_does_not_matter(scale: float) -> None:
    patches = batch("steep", 12, 9)
    plain, scaled = patch_ranks(patches), patch_ranks(patches * scale)
    for name in DEFINITIONS:
        assert scaled[name].tolist() == pytest.approx(plain[name].tolist())


def test_many_images_keep_their_order_on_any_number_of_threads() -> None:
    patches = torch.cat([batch("low", 10, 8), batch("flat", 10, 8), batch("power", 10, 8)] * 3).float()
    expected = [naive(image)["numerical"] for image in patches]
    before = torch.get_num_threads()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            assert patch_ranks(patches, ("numerical",))["numerical"].tolist() == expected
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_no_gradient_and_no_change_of_the_patches() -> None:
    patches = batch("power", 10, 8).requires_grad_()
    before = patches.detach().clone()
    found = patch_ranks(patches, centered=True)
    assert not any(value.requires_grad for value in found.values())
    assert torch.equal(patches.detach(), before)


def mean_ranks(patches: Tensor) -> dict[str, float | None]:
    return rank_means({name: column.numpy() for name, column in rank_columns(patches).items()})


def test_summary_means_and_nothing_to_measure() -> None:
    patches = torch.stack([torch.eye(6), 2 * torch.eye(6), torch.full((6, 6), torch.nan)])
    summary = mean_ranks(patches)
    assert summary["effective"] == pytest.approx(6)
    assert summary["effective_centered"] == pytest.approx(5)  # the centered identity has five equal σ
    assert summary["published"] == 5
    assert set(summary) == {*DEFINITIONS, "published_centered", "effective_centered"}
    assert all(value is None for value in mean_ranks(torch.zeros(0, 6, 6)).values())
    assert all(value is None for value in mean_ranks(torch.full((1, 6, 6), torch.nan)).values())


def test_wrong_questions_are_answered_with_words() -> None:
    with pytest.raises(UserError, match="Did you mean 'effective'"):
        patch_ranks(torch.zeros(1, 2, 2), ("efective",))
    with pytest.raises(UserError, match=r"\(B, L, D\).*patches\[None\]"):
        patch_ranks(torch.zeros(2, 2))
    with pytest.raises(UserError, match="floating"):
        patch_ranks(torch.zeros(1, 2, 2, dtype=torch.int64))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_gpu_agrees() -> None:
    patches = torch.cat([batch(kind, 36, 64).float() for kind in ("flat", "power", "steep", "low", "dominated")])
    patches[3, 0, 0] = torch.nan
    here, there = patch_ranks(patches), patch_ranks(patches.cuda())
    for name in DEFINITIONS:
        np.testing.assert_allclose(there[name], here[name], rtol=0 if name in COUNTS else 1e-5)
