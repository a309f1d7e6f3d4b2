"""Training images that are copies of an evaluation image: encoded again, resized, squashed or cropped to a square.

Every image leaves a perceptual fingerprint: a 16 × 16 grey thumbnail and the fine detail of a 24 × 24 one. Two images
are copies if the detail of their thumbnails (what a 5 × 5 mean does not show), their broad light and dark, and their
fine detail all correlate. A photograph that is not square leaves two fingerprints, squashed and centre-cropped, since
a set of square thumbnails may be made either way.

All pairs are compared by the first measure, as blocks of one matrix product: 10¹⁰ pairs take a few minutes on one core.
Sorting 64-bit gradient hashes into bands is cheaper but misses copies: 8 to 11 % of clean 64-pixel copies of
photographs, and more in Tiny-ImageNet, whose images were reduced without smoothing.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad
from tqdm import tqdm

from conceptlens.core.errors import UserError
from conceptlens.data.checks.survey import fine_detail

# Least correlations. Measured on 86 photographs found by eye both at full size and in Tiny-ImageNet: all but one are
# above, the lowest of the others at 0.75, 0.88 and 0.44. Each measure rules out what deceives the others: a pale frame
# around the picture, one dark shape on a light ground, a horizon.
DETAIL, BROAD, FINE = 0.7, 0.85, 0.4
SIDE = 16
_CLIP = 8.0  # grey levels: one strong edge, such as a frame's, must not outweigh everything else
_SQUARE = 1.03  # up to this ratio of the sides squashing and cropping give the same thumbnail
_BLOCK = 1024  # training images compared with all others at a time: 300 MB for 75,000 of them
_CHUNK = 64  # images per task

Thumbnail = npt.NDArray[np.uint8]
_Print = tuple[Thumbnail, npt.NDArray[np.int8]]


@dataclass(frozen=True)
class Fingerprints:
    """F fingerprints of N images; an image has one or two."""

    thumbnails: Thumbnail  # (F, 16, 16)
    fine: npt.NDArray[np.int8]  # (F, 576), see `conceptlens.data.checks.survey.fine_detail`
    image: npt.NDArray[np.int64]  # (F,) which of the N images


@dataclass(frozen=True)
class Copies:
    """Training images found among the evaluation images, each with the one whose detail is most like its own."""

    train: npt.NDArray[np.int64]  # (P,) sorted, unique
    evaluation: npt.NDArray[np.int64]  # (P,)
    likeness: npt.NDArray[np.float32]  # (P,) correlation of detail


def fingerprint_images(paths: Sequence[Path], *, workers: int = 1, desc: str = "fingerprints") -> Fingerprints:
    """Decode every image once and keep its fingerprints."""
    chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
    prints: list[list[_Print]] = []
    with (
        ThreadPoolExecutor(workers, "fingerprints") as pool,
        tqdm(total=len(paths), desc=desc, unit="image", disable=None) as progress,
    ):
        for chunk in pool.map(lambda chunk: [_fingerprint(path) for path in chunk], chunks):
            prints += chunk
            progress.update(len(chunk))
    thumbnails = [thumbnail for of_one in prints for thumbnail, _ in of_one]
    fine = [fine for of_one in prints for _, fine in of_one]
    image = np.repeat(np.arange(len(paths)), [len(of_one) for of_one in prints])
    return Fingerprints(
        np.array(thumbnails, np.uint8).reshape(-1, SIDE, SIDE), np.array(fine, np.int8).reshape(-1, 576), image
    )


def find_copies(train: Fingerprints, evaluation: Fingerprints) -> Copies:
    """Training images that are copies of an evaluation image, in any of their fingerprints."""
    known = _detail(evaluation.thumbnails)
    pairs = [np.empty((0, 2), np.int64)]
    scores = [np.empty(0, np.float32)]
    for start in tqdm(range(0, len(train.image), _BLOCK), desc="comparing", unit="block", disable=None):
        likeness = _detail(train.thumbnails[start : start + _BLOCK]) @ known.T
        left, right = (likeness >= DETAIL).nonzero(as_tuple=True)
        pairs.append(torch.stack([left + start, right], 1).numpy())
        scores.append(likeness[left, right].numpy())
    pair, score = np.concatenate(pairs), np.concatenate(scores)
    sure = _confirmed(pair, train, evaluation)
    # Of all pairs of an image the closest counts: sorted by image and falling likeness, it comes first.
    image, match, score = train.image[pair[sure, 0]], evaluation.image[pair[sure, 1]], score[sure]
    order = np.lexsort((-score, image))
    images, first = np.unique(image[order], return_index=True)
    return Copies(images, match[order][first], score[order][first])


def _confirmed(pair: npt.NDArray[np.int64], train: Fingerprints, evaluation: Fingerprints) -> npt.NDArray[np.bool_]:
    """Which of the pairs (P, 2) of fingerprints also agree in broad light and dark and in fine detail."""
    left, right = pair[:, 0], pair[:, 1]
    broad = (_broad(train.thumbnails[left]) * _broad(evaluation.thumbnails[right])).sum(1)
    fine = (_unit(_floats(train.fine[left])) * _unit(_floats(evaluation.fine[right]))).sum(1)
    sure: npt.NDArray[np.bool_] = ((broad >= BROAD) & (fine >= FINE)).numpy()
    return sure


def _fingerprint(path: Path) -> list[_Print]:
    try:
        with Image.open(path) as opened:
            grey = opened.convert("L")
    except (OSError, UnidentifiedImageError) as error:
        raise UserError(f"{path}: cannot be read as an image ({error}). Unpack the set again.") from None
    width, height = grey.size
    edge = min(width, height)
    views = [grey]
    if max(width, height) > _SQUARE * edge:
        left, top = (width - edge) // 2, (height - edge) // 2
        views.append(grey.crop((left, top, left + edge, top + edge)))
    return [(np.asarray(view.resize((SIDE, SIDE), Image.Resampling.BOX)), fine_detail(view)[0]) for view in views]


def _detail(thumbnails: Thumbnail) -> Tensor:
    """What a 5 × 5 mean does not show, strong edges cut, as rows of unit length (F, 256); zero for a flat image."""
    grey = _floats(thumbnails)[:, None]
    rows = (grey - avg_pool2d(pad(grey, (2, 2, 2, 2), mode="replicate"), 5, stride=1)).clamp(-_CLIP, _CLIP).flatten(1)
    return _unit(rows)


def _broad(thumbnails: Thumbnail) -> Tensor:
    """Grey levels less their mean, as rows of unit length (F, 256)."""
    rows = _floats(thumbnails).flatten(1)
    return _unit(rows - rows.mean(1, keepdim=True))


def _unit(rows: Tensor) -> Tensor:
    unit: Tensor = rows / rows.norm(dim=1, keepdim=True).clamp_min(1)
    return unit


def _floats(values: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(values).float()
