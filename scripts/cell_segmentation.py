"""White cell and nucleus in an image of a stained blood smear, by classical means and without assuming the center.

1. Optical density of each channel against the plasma between the cells (Ruifrok & Johnston, 2001). Nuclear stain takes
   red light, as red cells hardly do: Otsu's threshold of the red channel's density finds nuclei. Lobes close to each
   other belong together; the group with most stain is the white cell's, those that the image's edge cuts count less.
2. Cytoplasm: for each pixel the ratio of two color densities, of what lies around the nucleus and of what lies far from
   it, times the same ratio over a sample of the whole set, which knows red cells where an image does not. No plasma.
3. Random walker with these odds as priors (Grady, 2005): labels change where colors change. Then morphology: holes
   filled, strands to touching red cells cut, what is not joined to the nucleus dropped. Densities are taken again from
   the cell found, twice.
4. Nucleus: Otsu's threshold of the red channel's density within the cell.

Lengths are for images of 96 pixels and grow with the image.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import splu

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
BINS = 24  # of each axis of the color histograms
LOW, HIGH = np.array([-0.1, -0.3, -0.5]), np.array([1.4, 1.0, 0.5])  # their range: red, green - red, blue - green
STAIN = 0.35  # least red density of a nucleus
SIGMA = 0.07  # color difference at which neighbors fall apart
PRIOR, SURE = 0.15, 5.0  # weight of the color odds and of the nucleus' inner part against neighbors
ROUNDS = 3
CYTOPLASM, NUCLEUS = 1, 2  # in a label map; 0 is everything else


@dataclass(frozen=True)
class Smear:
    """An image made ready: everything that does not depend on what was learned from other images."""

    unit: float  # pixels for one pixel of a 96-pixel image
    red: Floats  # (H, W) optical density of the red channel
    color: Floats  # (H, W, 3)
    bins: npt.NDArray[np.int64]  # (H, W) place in a color histogram
    plasma: Mask
    seed: Mask  # the nucleus at first sight
    distance: Floats  # to the seed, in units


def disk(radius: float) -> Mask:
    reach = int(np.ceil(radius))
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    return np.asarray(x * x + y * y <= radius * radius + 1e-6)


def otsu(values: Floats) -> float:
    """The threshold between two classes that differ most (Otsu, 1979)."""
    counts, edges = np.histogram(values, 128)
    middle = (edges[1:] + edges[:-1]) / 2
    below, mass = np.cumsum(counts), np.cumsum(counts * middle)
    above = below[-1] - below
    between = (mass[-1] * below / below[-1] - mass) ** 2 / np.maximum(below * above, 1)
    return float(middle[int(between.argmax())])


def prepare(pixels: npt.NDArray[np.uint8]) -> Smear | None:
    """An image (H, W, 3); None where nothing in it is stained like a nucleus."""
    unit = max(pixels.shape[:2]) / 96
    smooth = ndimage.gaussian_filter(pixels.astype(float), (0.7 * unit, 0.7 * unit, 0))
    white = np.percentile(smooth.reshape(-1, 3), 95, axis=0)
    density = -np.log((smooth + 4) / (white + 4))
    red, green = density[..., 0], density[..., 1]
    seed = _nucleus_seed(red, unit)
    if seed is None:
        return None
    color = np.stack([red, green - red, density[..., 2] - green], -1)
    at = np.clip((color - LOW) / (HIGH - LOW) * BINS, 0, BINS - 1).astype(np.int64)
    bins = (at[..., 0] * BINS + at[..., 1]) * BINS + at[..., 2]
    distance = ndimage.distance_transform_edt(~seed) / unit
    return Smear(unit, red, color, bins, _plasma(green), seed, distance)


def _nucleus_seed(red: Floats, unit: float) -> Mask | None:
    stained = red[red > 0.12]
    if not len(stained):
        return None
    seed = ndimage.binary_opening(red > max(otsu(stained), STAIN), disk(unit))
    groups, count = ndimage.label(ndimage.binary_dilation(seed, disk(3 * unit)))
    if not seed.any():
        return None
    stain = ndimage.sum(np.where(seed, red, 0), groups, range(1, count + 1))
    owned = np.where(seed, groups, 0)
    cut = np.unique(np.concatenate([owned[0], owned[-1], owned[:, 0], owned[:, -1]]))
    stain[cut[cut > 0] - 1] *= 0.3
    return np.asarray(seed & (groups == 1 + int(np.argmax(stain))))


def _plasma(green: Floats) -> Mask:
    """The brightest mode of the green density and its spread."""
    counts, edges = np.histogram(green, np.arange(-0.1, 0.8, 0.01))
    mode = edges[int(ndimage.gaussian_filter1d(counts.astype(float), 1)[:22].argmax())] + 0.005
    below = green[green < mode]
    spread = float(np.sqrt(np.mean((below - mode) ** 2))) if len(below) > 20 else 0.02
    return np.asarray(green < mode + np.clip(2.5 * spread, 0.045, 0.08))


def _histogram(smear: Smear, where: Mask, blur: float) -> Floats:
    counts = np.bincount(smear.bins[where], minlength=BINS**3).reshape(BINS, BINS, BINS)
    return np.asarray(ndimage.gaussian_filter(counts.astype(float), blur)).ravel()


def color_odds(smears: Iterable[Smear]) -> Floats:
    """Over a sample of a set: how much more often a color is found in white cells than elsewhere, (bins,)."""
    inside = outside = np.full(BINS**3, 1e-9)
    for smear in smears:
        cell = find_cell(smear)
        inside = inside + _histogram(smear, cell & (smear.distance > 1) & ~smear.plasma, 0.7)
        away = ~ndimage.binary_dilation(cell, disk(3 * smear.unit))
        outside = outside + _histogram(smear, away & ~smear.plasma, 0.7)
    return np.asarray((inside / inside.sum() + 1e-6) / (outside / outside.sum() + 1e-6))


def _walker(smear: Smear, weight: Floats) -> Any:
    """The factorized system of the random walker: the image's graph Laplacian plus the priors' weights."""
    h, w = smear.red.shape
    at = np.arange(h * w).reshape(h, w)
    one = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    other = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    flat = smear.color.reshape(-1, 3)
    near = np.exp(-((flat[one] - flat[other]) ** 2).sum(1) / (2 * SIGMA**2)) + 1e-3
    rows, columns = np.concatenate([one, other]), np.concatenate([other, one])
    joined = coo_matrix((np.concatenate([near, near]), (rows, columns)), (h * w, h * w)).tocsr()
    return splu((diags(np.asarray(joined.sum(1)).ravel() + weight.ravel()) - joined).tocsc())


def find_cell(smear: Smear, common: Floats | None = None) -> Mask:
    """The white cell, with the odds of colors over the whole set or without."""
    unit, seed, plasma, distance = smear.unit, smear.seed, smear.plasma, smear.distance
    core = ndimage.binary_erosion(seed, disk(unit)) | (seed & (smear.red > np.median(smear.red[seed])))
    weight = np.where(core, SURE, PRIOR)
    system = _walker(smear, weight)
    reach = 0.1 + 0.8 / (1 + np.exp((distance - 14) / 3))  # cytoplasm lies near its nucleus
    inside, outside = (distance <= 5) & ~plasma, (distance > 14) | plasma
    cell = seed
    for _ in range(ROUNDS):
        within, beyond = (_histogram(smear, where, 1.0) for where in (inside, outside))
        odds = ((within / max(within.sum(), 1) + 1e-7) / (beyond / max(beyond.sum(), 1) + 1e-7))[smear.bins]
        if common is not None:
            odds = np.sqrt(odds) * common[smear.bins]
        belief = np.clip(odds * reach / (odds * reach + 1 - reach), 0.02, 0.98)
        belief[plasma] = np.minimum(belief[plasma], 0.1)
        belief[core] = 1
        reached = system.solve((weight * belief).ravel()).reshape(seed.shape)
        cell = _tidy((reached > 0.5) | seed, seed, unit, strands=3 if common is None else 4.5)
        inside, outside = cell & ~plasma, plasma | ~ndimage.binary_dilation(cell, disk(2 * unit))
    return cell


def _tidy(found: Mask, seed: Mask, unit: float, strands: float) -> Mask:
    """Holes filled, strands thinner than twice `strands` cut, only what is joined to the nucleus, dents closed."""
    filled = ndimage.binary_fill_holes(found)
    round_ = ndimage.binary_opening(filled, disk(strands * unit)) | (ndimage.binary_dilation(seed, disk(unit)) & filled)
    pieces, _ = ndimage.label(round_)
    joined = np.isin(pieces, np.unique(pieces[seed])) & (pieces > 0)
    margin = int(np.ceil(8 * unit))
    closed = ndimage.binary_closing(np.pad(joined, margin), disk(4 * unit))[margin:-margin, margin:-margin]
    return np.asarray(ndimage.binary_fill_holes(closed))


def segment(smear: Smear, common: Floats) -> npt.NDArray[np.uint8]:
    """(H, W): 0 elsewhere, 1 cytoplasm, 2 nucleus."""
    cell = find_cell(smear, common)
    dark = cell & (smear.red > max(otsu(smear.red[cell]), STAIN))
    smooth = ndimage.gaussian_filter(dark.astype(float), 0.8 * smear.unit) > 0.5
    nucleus = ndimage.binary_fill_holes(ndimage.binary_opening(smooth, disk(smear.unit))) & cell
    return np.where(nucleus, NUCLEUS, np.where(cell, CYTOPLASM, 0)).astype(np.uint8)
