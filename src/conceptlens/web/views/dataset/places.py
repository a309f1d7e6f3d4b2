"""Where each image lies on a map, and which others lie near it: by its concepts, or by its tokens."""

import hashlib
import threading
from collections import OrderedDict
from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError
from conceptlens.web.server.problems import missing
from conceptlens.web.views.dataset.table import ImageTable

MOST = 16  # maps kept: of 50,000 images 0.4 MB each
By = Literal["concepts", "tokens"]
How = Literal["pca", "umap"]
Floats = npt.NDArray[np.float32]


def vectors_by(table: ImageTable, by: By) -> Floats:
    """The vectors (N, D) that a map or a search reads; an image that could not be read lies in the middle."""
    chosen = table.concept_probs if by == "concepts" else table.vectors
    if chosen is None or not chosen.shape[1]:
        what = "predictions of these images" if by == "concepts" else "tokens of these images"
        raise missing(f"There are no {what} yet. Let the model read them first.")
    rows = np.asarray(chosen, np.float32)
    return np.where(np.isfinite(rows), rows, np.nanmean(rows, axis=0, keepdims=True)).astype(np.float32)


def map_places(vectors: Floats, how: How) -> Floats:
    """Vectors (N, D) → places (N, 2): the first two principal components, or UMAP where it is installed."""
    if how == "umap":
        try:
            from umap import UMAP
        except ImportError:
            raise missing("UMAP is not installed.", "pip install umap-learn") from None
        if len(vectors) < 4:
            raise UserError(f"UMAP needs 4 images or more, found {len(vectors)}. Choose PCA.")
        umap = UMAP(n_neighbors=min(15, len(vectors) - 1), random_state=0, n_jobs=1)  # a seed takes one thread
        return np.asarray(umap.fit_transform(vectors), np.float32)
    centered = vectors.astype(np.float64) - vectors.mean(0)
    # The covariance is small where images are many: its main directions are those of the singular value decomposition.
    _, directions = np.linalg.eigh(centered.T @ centered)
    places = np.zeros((len(vectors), 2))
    places[:, : directions.shape[1]] = centered @ directions[:, ::-1][:, :2]
    farthest = places[np.abs(places).argmax(0), [0, 1]]
    return (places * np.where(farthest < 0, -1, 1)).astype(np.float32)  # the same side every time


class MapPlaces:
    """Maps by UMAP, which take from seconds to minutes, are kept. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Floats] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, vectors: Floats, how: How) -> Floats:
        """As `map_places`; one UMAP at a time, and whoever asks for the same one waits for it."""
        if how == "pca":
            return map_places(vectors, how)
        key = hashlib.blake2b(vectors.tobytes()).digest()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = map_places(vectors, how)
                while len(self._kept) > MOST:
                    self._kept.popitem(last=False)
            return self._kept[key]


def neighbors(vectors: Floats, row: int, most: int) -> tuple[list[int], list[float]]:
    """The nearest other images of a row, and the cosine of the angle between their centered vectors."""
    centered = vectors - vectors.mean(0)
    lengths = np.linalg.norm(centered, axis=1)
    cosines = centered @ centered[row] / np.maximum(lengths * lengths[row], 1e-12)
    order = np.argsort(-cosines, kind="stable")
    nearest = order[order != row][:most]
    return nearest.tolist(), cosines[nearest].astype(float).tolist()
