"""Features of all images of a set, computed once and kept as half precision .npy files.

An image is decoded once for all networks of a pass. A file is used again as long as its key, made of the network's
weights and the list of images, is the same.
"""

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from tqdm import tqdm

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.data.images.read import open_image
from pretraining.probe.models import Model
from pretraining.probe.sets import ImageSet

Halves = npt.NDArray[np.float16]
PARTS = ("features", "aligned")


def list_key(images: ImageSet) -> str:
    """A hash of the images' names and sizes in bytes, in their order."""
    lines = (f"{name} {(images.root / name).stat().st_size}" for name in images.files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def write_array(path: Path, values: npt.NDArray[np.generic]) -> None:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    write_bytes(path, buffer.getvalue())


def read_batches(root: Path, files: Sequence[str], models: Sequence[Model], batch: int) -> Iterator[list[Tensor]]:
    """For each batch of images a tensor of bytes (B, 3, S, S) for each network; decoding runs ahead of the reader."""

    def decode(name: str) -> list[Tensor]:
        image = open_image(root / name, name=name)
        return [model.pixels(image) for model in models]

    parts = [files[start : start + batch] for start in range(0, len(files), batch)]
    with ThreadPoolExecutor(2) as pool:
        ahead = [pool.map(decode, part) for part in parts[:2]]
        for index in range(len(parts)):
            rows = list(ahead.pop(0))
            if index + 2 < len(parts):
                ahead.append(pool.map(decode, parts[index + 2]))
            yield [torch.stack(column) for column in zip(*rows, strict=True)]


class FeatureStore:
    """Features by set and network, under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, images: ImageSet, model: Model, part: str) -> Path:
        return self.folder / images.name / f"{model.name.replace('/', '-')}.{part}.npy"

    def has(self, images: ImageSet, model: Model) -> bool:
        """Whether the kept features are those of these weights and this list of images."""
        note = self._path(images, model, "key").with_suffix(".json")
        return note.is_file() and read_json(note)["key"] == f"{model.key} {list_key(images)}"

    def load(self, images: ImageSet, model: Model, part: str = "features") -> Tensor:
        """(N, F) in single precision."""
        path = self._path(images, model, part)
        if not path.is_file():
            raise UserError(f"{path}: no such features. {model.name} does not make {part}, or they were not extracted.")
        return torch.from_numpy(np.load(path, allow_pickle=False)).float()

    def extract(self, images: ImageSet, models: Sequence[Model], *, batch: int = 32, quiet: bool = False) -> list[str]:
        """Compute what is missing; the names of the networks that had to work."""
        missing = [model for model in models if not self.has(images, model)]
        if not missing:
            return []
        kept: dict[str, dict[str, Halves]] = {model.name: {} for model in missing}
        done = 0
        label = f"{images.name}: {', '.join(kept)}"
        with tqdm(total=len(images.files), unit="image", desc=label, disable=quiet, mininterval=5) as bar:
            for tensors in read_batches(images.root, images.files, missing, batch):
                for model, pixels in zip(missing, tensors, strict=True):
                    seen = model.see(pixels)
                    for part in PARTS:
                        value: Tensor | None = getattr(seen, part)
                        if value is None:
                            continue
                        if done == 0:  # one array for all: many small ones would leave the memory in pieces
                            kept[model.name][part] = np.empty((len(images.files), value.shape[1]), np.float16)
                        kept[model.name][part][done : done + len(value)] = _halves(value, model.name)
                done += len(tensors[0])
                bar.update(len(tensors[0]))
        for model in missing:
            self._keep(images, model, kept[model.name])
        return [model.name for model in missing]

    def _keep(self, images: ImageSet, model: Model, parts: Mapping[str, Halves]) -> None:
        # The old key goes first and the new one comes last: whatever is interrupted is made again.
        note = self._path(images, model, "key").with_suffix(".json")
        note.unlink(missing_ok=True)
        for part, values in parts.items():
            write_array(self._path(images, model, part), values)
        write_json(note, {"key": f"{model.key} {list_key(images)}", "images": len(images.files)})


def _halves(value: Tensor, name: str) -> Halves:
    halves: Halves = value.half().cpu().numpy()
    if not np.isfinite(halves).all():
        raise UserError(f"{name}: features beyond the range of half precision. Scale them, or check the weights.")
    return halves
