"""The rank of each image's patch matrix (L, D), by five definitions, from its singular values σ₁ ≥ σ₂ ≥ ….

`published`   how many σ have a cumulative share Σ_{j≤i} σ_j / Σ σ of at most 0.99: what the published code of the
              IVQ-CBM paper (Section 4, Appendix C) counts in its rank dynamics. One less than the number needed to pass
              99 %.
`energy`      the same count with σ².
`numerical`   how many σ exceed σ₁ · max(L, D) · ε, the default of `torch.linalg.matrix_rank`; ε is that of the input's
              type, and of float32 for half precision, where max(L, D) · ε would pass 1 and every rank be 0.
`effective`   exp of the entropy of σ / Σ σ (Roy and Vetterli, 2007).
`stable`      Σ σ² / σ₁².

How it is fast and still exact: σ² are the eigenvalues of the smaller Gram matrix in float64, several times cheaper than
an SVD of the patches. A Gram matrix squares the condition number, so each eigenvalue carries an error bound; an image
whose rank the bound leaves open (a share next to the threshold, a σ next to the tolerance) is computed again by a
float64 SVD. The counts are then those of a float64 SVD; `effective` and `stable`, which are no counts, agree with it to
better than 1e-5.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import entr
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
from torch import Tensor

from conceptlens.core.errors import UserError, unknown_name

Floats = npt.NDArray[np.float64]
Matrices = TypeVar("Matrices", Tensor, Floats)

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)  # keeps the shares of a zero matrix out of 0 / 0
ROUNDING = 1e-12  # of sums and quotients in float64, far above what they lose


@dataclass(frozen=True)
class _Spectra:
    """Singular values of B matrices and what is known of their errors."""

    sigma: Floats  # (B, n), descending
    doubt: Floats  # (B, n): width of the interval that holds each true σ
    doubt_squared: Floats  # (B, 1): bound on the error of each σ²
    tolerance: float  # max(L, D) · ε of the input's type


@dataclass(frozen=True)
class _Ranks:
    value: Floats  # (B,)
    open: npt.NDArray[np.bool_]  # (B,): the errors' bounds allow another value


def _share_rank(parts: Floats, doubt: Floats, threshold: float) -> _Ranks:
    """How many cumulative shares of `parts` (B, n) stay within the threshold; partial sums may err by `doubt` (B,)."""
    total = np.maximum(parts.sum(1), TINY)
    share = parts.cumsum(1) / total[:, None]
    margin = 2 * doubt / total + ROUNDING
    near = np.abs(share - threshold) <= margin[:, None]
    return _Ranks((share <= threshold).sum(1).astype(np.float64), near.any(1))


def _published(spectra: _Spectra, threshold: float) -> _Ranks:
    return _share_rank(spectra.sigma, spectra.doubt.sum(1), threshold)


def _energy(spectra: _Spectra, threshold: float) -> _Ranks:
    return _share_rank(spectra.sigma**2, spectra.doubt_squared[:, 0] * spectra.sigma.shape[1], threshold)


def _numerical(spectra: _Spectra, threshold: float) -> _Ranks:
    edge = spectra.sigma[:, :1] * spectra.tolerance
    near = np.abs(spectra.sigma**2 - edge**2) <= 2 * spectra.doubt_squared
    return _Ranks((spectra.sigma > edge).sum(1).astype(np.float64), np.any(near, axis=1))


def _effective(spectra: _Spectra, threshold: float) -> _Ranks:
    share = spectra.sigma / np.maximum(spectra.sigma.sum(1, keepdims=True), TINY)
    return _settled(np.exp(entr(share).sum(1)))


def _stable(spectra: _Spectra, threshold: float) -> _Ranks:
    squared = spectra.sigma**2
    return _settled(squared.sum(1) / np.maximum(squared[:, 0], TINY))


def _settled(value: Floats) -> _Ranks:
    """A rank that is no count has no edge to be on the wrong side of."""
    return _Ranks(value, np.zeros(len(value), dtype=bool))


DEFINITIONS: Mapping[str, Callable[[_Spectra, float], _Ranks]] = MappingProxyType(
    {"published": _published, "energy": _energy, "numerical": _numerical, "effective": _effective, "stable": _stable}
)


def patch_ranks(
    patches: Tensor, definitions: Sequence[str] = tuple(DEFINITIONS), *, centered: bool = False, threshold: float = 0.99
) -> dict[str, Tensor]:
    """The rank of each image's patch matrix, as a float64 SVD of it gives.

    Args:
        patches: (B, L, D), of any floating type, on any device; no gradient flows.
        definitions: Which ranks; see the head of this file.
        centered: Subtract the image's mean patch first.
        threshold: Share for `published` and `energy`.

    Returns:
        For each definition a float64 tensor (B,) on the CPU. A matrix of zeros has rank 0 by every
        definition; an image with a token that is not a finite number has rank NaN.
    """
    for name in definitions:
        if name not in DEFINITIONS:
            raise unknown_name("rank definition", name, DEFINITIONS)
    if patches.ndim != 3 or not patches.is_floating_point():
        raise UserError(
            f"Ranks need patches (B, L, D) of a floating type; these are {tuple(patches.shape)}, {patches.dtype}. "
            "Add a batch dimension to a single image: `patches[None]`."
        )
    patches = patches.detach()
    if patches.device.type != "cuda":
        patches = patches.cpu()  # not every accelerator knows float64
    if patches.numel() == 0:
        return {name: torch.zeros(len(patches), dtype=torch.float64) for name in definitions}
    eigenvalues = _eigenvalues(patches, centered)
    broken, zero = np.isnan(eigenvalues).any(1), eigenvalues[:, 0] == 0
    spectra = _from_gram(np.nan_to_num(eigenvalues), patches)
    ranks = {name: DEFINITIONS[name](spectra, threshold) for name in definitions}
    values = {name: rank.value for name, rank in ranks.items()}
    left_open = np.any([rank.open for rank in ranks.values()], axis=0) & ~broken & ~zero
    if left_open.any():
        again = torch.from_numpy(np.flatnonzero(left_open)).to(patches.device)
        exact = _from_svd(patches[again].cpu(), centered)
        for name, value in values.items():
            value[left_open] = DEFINITIONS[name](exact, threshold).value
    for value in values.values():
        value[zero] = 0.0
        value[broken] = np.nan
    return {name: torch.from_numpy(value) for name, value in values.items()}


def rank_columns(patches: Tensor) -> dict[str, Tensor]:
    """All ranks of each image, (B,) each: the five definitions, and two of them on centered patches."""
    centered = patch_ranks(patches, ("published", "effective"), centered=True)
    return patch_ranks(patches) | {f"{name}_centered": value for name, value in centered.items()}


def rank_means(columns: Mapping[str, npt.ArrayLike]) -> dict[str, float | None]:
    """Means over images for the run's JSON; images with broken tokens are left out, none left is None."""
    values = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
    return {name: float(np.nanmean(value)) if np.isfinite(value).any() else None for name, value in values.items()}


def _from_gram(eigenvalues: Floats, patches: Tensor) -> _Spectra:
    squared = np.maximum(eigenvalues, 0.0)
    # Dot products of m terms and the reduction to tridiagonal form err by up to about m · ε · trace, usually far less.
    error = max(patches.shape[1:]) * EPS * squared.sum(1, keepdims=True)
    doubt = np.sqrt(squared + error) - np.sqrt(np.maximum(squared - error, 0.0))
    return _Spectra(np.sqrt(squared), doubt, error, _tolerance(patches))


def _from_svd(patches: Tensor, centered: bool) -> _Spectra:
    matrices = _unit_scale(patches.double())
    sigma = torch.linalg.svdvals(_center(matrices) if centered else matrices).numpy()
    return _Spectra(sigma, np.zeros_like(sigma), np.zeros_like(sigma[:, :1]), _tolerance(patches))


def _tolerance(patches: Tensor) -> float:
    precision = patches.dtype if patches.dtype == torch.float64 else torch.float32
    return float(max(patches.shape[1:]) * torch.finfo(precision).eps)


def _unit_scale(matrices: Tensor) -> Tensor:
    """No rank depends on scale, but the square of a large or small float64 leaves its range."""
    largest = matrices.abs().amax((1, 2), keepdim=True)
    return matrices / torch.where(largest > 0, largest, 1.0)


def _center(matrices: Matrices) -> Matrices:
    # From the first patch on, so that patches that are all alike come out as zeros and not as rounding errors.
    shifted = matrices - matrices[:, :1]
    centered: Matrices = shifted - shifted.mean(1)[:, None]
    return centered


def _gram(matrices: Matrices) -> Matrices:
    turned = matrices.swapaxes(1, 2)
    gram: Matrices = matrices @ turned if matrices.shape[1] <= matrices.shape[2] else turned @ matrices
    return gram


def _eigenvalues(patches: Tensor, centered: bool) -> Floats:
    """Float64 eigenvalues (B, n) of the smaller Gram matrix, descending; NaN for an image with broken tokens.

    Each thread has images of its own: LAPACK gains little from two threads in one matrix this small. NumPy rather than
    torch because it forms X Xᵀ with half the work (syrk), and its threads are bounded without touching torch's. A GPU
    forms the Gram matrices and leaves the rest to the CPU, which is faster at it.
    """
    if patches.dtype == torch.float64:
        patches = _unit_scale(patches)
    elif patches.dtype != torch.float32:
        patches = patches.float()
    on_gpu = patches.device.type == "cuda"
    if on_gpu:
        matrices = patches.double()
        patches = _gram(_center(matrices) if centered else matrices).cpu()
    array, threads = patches.numpy(), torch.get_num_threads()

    def solve(images: npt.NDArray[Any]) -> Floats:
        gram = images if on_gpu else _gram_of(images, centered)
        # A token that is not finite leaves its trace on the diagonal.
        broken = ~np.isfinite(np.trace(gram, axis1=1, axis2=2))
        gram[broken] = 0.0
        eigenvalues: Floats = np.linalg.eigvalsh(gram).astype(np.float64)[:, ::-1]
        eigenvalues[broken] = np.nan
        return eigenvalues

    # Pieces of a few images keep memory small, but NumPy lets other threads run only beside more than 500 rows of work.
    least = 500 // min(patches.shape[1:]) + 1
    size = max(least, min(8, -(-len(array) // threads)))
    pieces = np.array_split(array, -(-len(array) // size))
    with _blas().limit(limits=1):
        return np.concatenate(list(_pool(threads, os.getpid()).map(solve, pieces)))


def _gram_of(images: npt.NDArray[Any], centered: bool) -> Floats:
    matrices = images.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return _gram(_center(matrices) if centered else matrices)


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay, since starting them costs as much as an image; a forked process needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="patch-ranks")


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")
