"""A pass of the model over all images of a split: scores where the run keeps none, and a vector of each image's tokens.

It runs in a thread of its own, batch by batch, so that predictions are answered in between. The run folder keeps the
result (`page/SPLIT.safetensors`), which is that of one model: other weights make it again.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_bytes
from conceptlens.data.images.read import resize_square
from conceptlens.runs.image_distribution import image_vectors
from conceptlens.web.server.loaded import LoadedRun

FOLDER = "page"
BATCH = 16
ARRAYS = ("logits", "concept_logits", "vectors")


@dataclass(frozen=True)
class SplitScores:
    """What the model says of the N images of a split; a row of NaN for an image that cannot be read."""

    logits: npt.NDArray[np.float32]  # (N, C)
    concept_logits: npt.NDArray[np.float32]  # (N, K)
    vectors: npt.NDArray[np.float32]  # (N, D): see `image_vectors`


@dataclass(frozen=True)
class PassState:
    """How far a pass is."""

    state: str  # none, running, done, failed
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    reason: str | None = None


def read_scores(loaded: LoadedRun, split: str) -> SplitScores | None:
    """What an earlier pass kept; None where there was none, or with other weights."""
    path = loaded.entry.file(f"{FOLDER}/{split}.safetensors")
    if path is None:
        return None
    try:
        manifest.check(path)
        with safe_open(path, "np") as file:
            if (file.metadata() or {}).get("weights") != json.dumps(loaded.card.weights_hash):
                return None
            return SplitScores(**{name: file.get_tensor(name) for name in ARRAYS})
    except (OSError, SafetensorError, TypeError):
        return None  # damaged: it is made again


@torch.inference_mode()
def score_split(loaded: LoadedRun, split: str, step: Callable[[int], None]) -> SplitScores:
    """Read all images of a split; `step` is told how many are done."""
    source, indices = loaded.source, loaded.opened.splits[split].tolist()
    blank = np.zeros((3, loaded.card.image_size, loaded.card.image_size), np.uint8)
    kept: dict[str, list[npt.NDArray[np.float32]]] = {name: [] for name in ARRAYS}
    for start in range(0, len(indices), BATCH):
        pixels, damaged = [], []
        for place, index in enumerate(indices[start : start + BATCH]):
            try:
                image = source.read_at_least(index, loaded.card.image_size)
                pixels.append(resize_square(image, loaded.card.image_size, loaded.card.fit))
            except UserError:
                pixels.append(blank)
                damaged.append(place)
        with loaded.passing:
            output = loaded.pipeline(torch.from_numpy(np.stack(pixels)).to(loaded.device))
        patches = output.patches if output.patches is not None else output.concept_logits[:, None]
        batch = (output.logits, output.concept_logits, image_vectors(patches))
        for name, tensor in zip(ARRAYS, batch, strict=True):
            rows = tensor.float().cpu().numpy().copy()
            rows[damaged] = np.nan
            kept[name].append(rows)
        step(start + len(pixels))
    return SplitScores(**{name: np.concatenate(rows) for name, rows in kept.items()})


class ImagePasses:
    """The passes of a server, one at a time. Safe to use from several threads."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], PassState] = {}
        self._lock = threading.Lock()
        self._one = threading.Lock()

    def state(self, loaded: LoadedRun, split: str) -> PassState:
        known = self._states.get((loaded.card.weights_hash, split))
        if known is None and read_scores(loaded, split) is not None:
            total = len(loaded.opened.splits[split])
            return PassState("done", total, total)
        return known or PassState("none")

    def start(self, loaded: LoadedRun, split: str) -> PassState:
        """Begin a pass, unless one runs or was made."""
        key, total = (loaded.card.weights_hash, split), len(loaded.opened.splits[split])
        with self._lock:
            if (known := self.state(loaded, split)).state in ("running", "done"):
                return known
            self._states[key] = PassState("running", 0, total)
        threading.Thread(target=self._work, args=(loaded, split, key), name="images", daemon=True).start()
        return self._states[key]

    def _work(self, loaded: LoadedRun, split: str, key: tuple[str, str]) -> None:
        with self._one:
            begun, total = time.monotonic(), self._states[key].total

            def step(done: int) -> None:
                left = (time.monotonic() - begun) / done * (total - done)
                self._states[key] = PassState("running", done, total, left)

            try:
                scores = score_split(loaded, split, step)
                tensors = {name: np.ascontiguousarray(getattr(scores, name)) for name in ARRAYS}
                path = loaded.entry.path / FOLDER / f"{split}.safetensors"
                write_bytes(path, save(tensors, {"weights": json.dumps(loaded.card.weights_hash)}))
                self._states[key] = PassState("done", total, total)
            except Exception as error:  # whatever it was, the page says so
                self._states[key] = replace(self._states[key], state="failed", reason=str(error)[:500])
