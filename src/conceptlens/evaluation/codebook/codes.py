"""Numbers of every code of a codebook, and which codes are dormant, duplicates or background.

*Dormant*: nearest to less than a twentieth of an even share of the patches, as the concept of Appendix K.3 of the
IVQ-CBM paper was. *Duplicate*: nearer to another code than a twentieth of the median squared distance between codes.
*Background*: where regions are known, hardly ever on the object; elsewhere, a code that most images have, mostly at
their border, and that says nothing about the class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.evaluation.codebook.document import Kind
from conceptlens.evaluation.codebook.survey import Survey
from conceptlens.stats.block_permutation import BlockPermutation
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.paired_permutation import holm
from conceptlens.stats.weighted import ratio

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
DORMANT = 0.05  # of an even share
DOUBLE = 0.05  # of the median squared distance between two codes
BORDER = 1.5  # times the share that the border has of all places
OFF_OBJECT = 0.25  # of the share of all patches that lie on the object
MOST_IMAGES = 0.5
SAYS_NOTHING = 0.05  # of the variance between images that the class explains
PERMUTATIONS = 199


@dataclass(frozen=True)
class Profile:
    """Numbers of all M codes."""

    share: list[Estimate]
    images: Indices  # (M,)
    by_class: Floats  # (C, M): share of each class's patches; NaN for a class without images
    dependence: Floats  # (M,): of a code's share on the class; NaN where there are no classes
    dependence_p: Floats  # (M,)
    border: Floats  # (M,); NaN where nearly every place is at the border
    on_object: Floats  # (M,); NaN where not known
    object_share: float  # of all patches
    neighbor: Indices  # (M,): the nearest other code; −1 for a single one
    neighbor_distance: Floats  # (M,): squared, over the median of all pairs

    def kinds(self, code: int, codes: int, images: int) -> list[Kind]:
        """What should be said of a code."""
        found: list[Kind] = []
        if (self.share[code].value or 0.0) < DORMANT / codes:
            found.append("dormant")
        if self.neighbor[code] >= 0 and self.neighbor_distance[code] < DOUBLE:
            found.append("duplicate")
        if "dormant" not in found and self._background(code, images):
            found.append("background")
        return found

    def _background(self, code: int, images: int) -> bool:
        if not np.isnan(self.on_object[code]) and self.object_share > 0:
            return bool(self.on_object[code] < OFF_OBJECT * self.object_share)
        silent = np.isnan(self.dependence[code]) or self.dependence[code] < SAYS_NOTHING
        return bool(self.border[code] >= BORDER and self.images[code] >= MOST_IMAGES * images and silent)


def profile(
    survey: Survey,
    grid: tuple[int, int],
    labels: Indices,
    classes: int,
    units: Sequence[str],
    maps: tuple[Indices, Floats] | None = None,
    *,
    resamples: int = 1000,
) -> Profile:
    """Numbers of all codes.

    Args:
        survey: What one pass added up.
        grid: Of the patches, (h, w).
        labels: (N,) classes; negative unknown; anything of another shape is not used.
        classes: C.
        units: (N,)
        maps: Codes (n, L) of images whose regions are known, and the share of each patch that the object covers.
        resamples: Of the intervals.
    """
    counts = survey.counts  # of a sample, where images are very many: labels and units are its own
    images, codes = counts.shape
    length = max(int(counts[0].sum()) if images else 0, 1)
    shares = counts / length
    estimates = Bootstrap(units, resamples).means({str(code): shares[:, code] for code in range(codes)})
    single = labels.ndim == 1
    by_class = np.full((classes, codes), np.nan)
    if single:
        for each in range(classes):
            if (labels == each).any():
                by_class[each] = shares[labels == each].mean(0)
    dependence, p = class_dependence(shares, labels, units) if single else (np.full(codes, np.nan),) * 2
    on_object, object_share = _on_object(maps, codes)
    neighbor, distance = neighbors(survey.codebook.double().cpu().numpy())
    return Profile(
        [estimates[str(code)] for code in range(codes)],
        survey.images.numpy(),
        by_class,
        dependence,
        p,
        border_lift(survey, grid),
        on_object,
        object_share,
        neighbor,
        distance,
    )


def explained_by_class(shares: Floats, labels: Indices) -> Floats:
    """Share (M,) of the variance of columns (n, M) that lies between classes (n,): η²."""
    total = ((shares - shares.mean(0)) ** 2).sum(0)
    between = np.zeros(shares.shape[1])
    for each in np.unique(labels):
        rows = shares[labels == each]
        between += len(rows) * (rows.mean(0) - shares.mean(0)) ** 2
    ratio: Floats = np.divide(between, total, out=np.zeros(len(total)), where=total > 1e-15)
    return ratio


def class_dependence(
    shares: Floats, labels: Indices, units: Sequence[str], *, permutations: int = PERMUTATIONS, seed: int = 0
) -> tuple[Floats, Floats]:
    """η² of each code (M,) over the labeled images, and p-values corrected for all codes."""
    known = np.flatnonzero(labels >= 0)
    if len(np.unique(labels[known])) < 2:
        return np.full(shares.shape[1], np.nan), np.full(shares.shape[1], np.nan)
    rows, truth = shares[known], labels[known]
    observed = explained_by_class(rows, truth)
    exchange, generator = BlockPermutation([units[row] for row in known.tolist()]), np.random.default_rng([seed, 8])
    reached = np.zeros(len(observed))
    for _ in range(permutations):
        reached += explained_by_class(rows, truth[exchange.draw(generator)]) >= observed - 1e-12
    return observed, holm((reached + 1) / (permutations + 1))


def border_lift(survey: Survey, grid: tuple[int, int]) -> Floats:
    """(M,): a code's share of the outermost ring of places over the ring's share of all places."""
    codes, (h, w) = len(survey.codebook), grid
    ring = np.zeros((h, w), dtype=bool)
    ring[[0, -1]] = True
    ring[:, [0, -1]] = True
    if survey.places is None or ring.mean() > 0.8:
        return np.full(codes, np.nan)
    places = survey.places.double().numpy()
    return np.asarray(ratio(places[:, ring.ravel()].sum(1), places.sum(1)) / ring.mean())


def neighbors(codebook: Floats) -> tuple[Indices, Floats]:
    """The nearest other code of each (M,), and its squared distance over the median of all pairs."""
    count = len(codebook)
    if count < 2:
        return np.full(count, -1, dtype=np.int64), np.full(count, np.nan)
    difference = codebook[:, None] - codebook[None]
    squared = (difference**2).sum(-1)
    median = float(np.median(squared[np.triu_indices(count, 1)]))
    np.fill_diagonal(squared, np.inf)
    return squared.argmin(1), squared.min(1) / max(median, 1e-12)


def _on_object(maps: tuple[Indices, Floats] | None, codes: int) -> tuple[Floats, float]:
    """Share of each code's patches (M,) that lie on the object, and of all patches."""
    if maps is None or not len(maps[0]):
        return np.full(codes, np.nan), 0.0
    numbers, cover = maps
    total = np.bincount(numbers.ravel(), minlength=codes)
    inside = np.bincount(numbers.ravel(), cover.ravel().astype(np.float64), minlength=codes)
    return ratio(inside, total), float(cover.mean())
