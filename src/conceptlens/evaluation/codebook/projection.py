"""Codes and a sample of patches in two and three dimensions (Figure 9 of the IVQ-CBM paper).

The paper draws codes alone, by UMAP, and reads their distance from each other off the picture. UMAP pulls any few
points apart; so here principal components come first, patches are drawn with the codes, and variance is said.
UMAP is added where it is installed.
"""

import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.evaluation.codebook.document import Projection

Floats = npt.NDArray[np.float64]


def principal(codes: Floats, patches: Floats, patch_codes: npt.NDArray[np.int64], dimensions: int = 3) -> Projection:
    """Principal components of the patches (n, D); codes (M, D) are put into the same picture."""
    rows = patches if len(patches) > 1 else codes
    center = rows.mean(0)
    _, sizes, axes = np.linalg.svd(rows - center, full_matrices=False)
    axes = axes[:dimensions]
    # Signs of components are arbitrary: the largest entry is made positive, so that pictures repeat.
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
    total = float((sizes**2).sum())
    return Projection(
        method="PCA",
        dimensions=len(axes),
        explained=[float(size**2 / total) if total > 0 else 0.0 for size in sizes[: len(axes)]],
        codes=_rounded((codes - center) @ axes.T),
        patches=_rounded((patches - center) @ axes.T),
        patch_codes=patch_codes.tolist(),
    )


def umap_is_there() -> bool:
    return importlib.util.find_spec("umap") is not None


def umap(codes: Floats, patches: Floats, patch_codes: npt.NDArray[np.int64], dimensions: int) -> Projection:
    """UMAP of patches and codes together; needs umap-learn."""
    import umap as library  # type: ignore[import-not-found, unused-ignore]

    reducer: Any = library.UMAP(n_components=dimensions, random_state=0, n_jobs=1)
    placed = reducer.fit_transform(np.concatenate([codes, patches]))
    return Projection(
        method="UMAP",
        dimensions=dimensions,
        explained=None,
        codes=_rounded(placed[: len(codes)]),
        patches=_rounded(placed[len(codes) :]),
        patch_codes=patch_codes.tolist(),
    )


def _rounded(rows: Floats) -> list[list[float]]:
    return np.round(np.asarray(rows, dtype=np.float64), 4).tolist()  # type: ignore[no-any-return]
