"""A pass over a sample of the run's images: where concepts attend, and which patches belong to which code."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import resize_square
from conceptlens.data.splits.spread import spread
from conceptlens.explanations.answer import similarities
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.loaded import LoadedRun

BATCH = 8
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Atlas:
    """What n sampled images showed."""

    split: Split
    rows: Indices  # (n,) in the split
    labels: npt.NDArray[Any]  # (n,), or (n, C)
    grid: tuple[int, int]
    peak: Indices | None  # (n, S): the patch at which each slot looks most; (n, K) that with most evidence, if any
    height: Floats | None  # the same shape: its weight or evidence
    codes: Indices | None  # (n, L)
    similarity: Floats | None  # (n, L)


@torch.inference_mode()
def _look(loaded: LoadedRun) -> Atlas:
    source = loaded.source
    split, indices = loaded.opened.reported_images()
    rows = spread(np.arange(len(indices)))
    kept: dict[str, list[npt.NDArray[Any]]] = {}
    read: list[int] = []
    grid = (0, 0)
    codebook = getattr(loaded.pipeline.regularizer, "codebook", None)
    for start in range(0, len(rows), BATCH):
        pixels = []
        for row in rows[start : start + BATCH].tolist():
            try:
                image = source.read_at_least(int(indices[row]), loaded.card.image_size)
            except UserError:
                continue  # one damaged image does not empty the atlas
            pixels.append(resize_square(image, loaded.card.image_size, loaded.card.fit))
            read.append(row)
        if not pixels:
            continue
        tokens = loaded.pipeline.encoder(torch.from_numpy(np.stack(pixels)).to(loaded.device))
        output, grid = loaded.pipeline.read(tokens), tokens.grid
        looked = output.attention if output.evidence is None else output.evidence
        if looked is not None:
            height, peak = looked.float().max(-1)
            _keep(kept, peak=peak, height=height)
        if output.codes is not None:
            _keep(kept, codes=output.codes)
            close = similarities(output, codebook)
            if close is not None:
                _keep(kept, similarity=close)
    found = {name: np.concatenate(pieces) for name, pieces in kept.items()}
    rows = np.array(read, dtype=np.int64)
    return Atlas(
        split="val" if split == "val" else "test",
        rows=rows,
        labels=source.examples.labels[indices[rows]],
        grid=grid,
        **{name: found.get(name) for name in ("peak", "height", "codes", "similarity")},
    )


def _keep(kept: dict[str, list[npt.NDArray[Any]]], **tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        kept.setdefault(name, []).append(tensor.detach().cpu().numpy())


def atlas_of(loaded: LoadedRun) -> Atlas:
    """The run's atlas; the first who asks makes it, which takes seconds; others wait."""
    with loaded.mapping:
        if loaded.atlas is None:
            loaded.atlas = _look(loaded)
        return loaded.atlas
