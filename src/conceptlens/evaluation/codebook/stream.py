"""A run's images, or the tokens it kept of them, through its model: a batch at a time."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.transfer import to_device
from conceptlens.encoders.contract import Tokens
from conceptlens.encoders.store.encode import blocks_behind, pixels_key
from conceptlens.encoders.store.reader import StoredReader
from conceptlens.encoders.store.store import Key, TokenStore
from conceptlens.methods.contract import ConceptOutput, Pipeline

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Indices = npt.NDArray[np.int64]
BATCH = 64


@dataclass(frozen=True)
class TokenStream:
    """Reads images of one source."""

    pipeline: Pipeline
    reader: PixelReader | StoredReader
    pixels: PixelReader
    where: str  # the tokens came from, in words

    @property
    def device(self) -> torch.device:
        return next(self.pipeline.parameters()).device

    @torch.inference_mode()
    def tokens(self, indices: Indices) -> Iterator[tuple[Indices, Tokens]]:
        """Positions and what the encoder says."""
        pieces = (indices[start : start + BATCH] for start in range(0, len(indices), BATCH))
        for batch, values in to_device(self.reader.prefetch(pieces), self.device):
            yield batch, self.pipeline.encoder.encode(values)

    def outputs(self, indices: Indices) -> Iterator[tuple[Indices, Tensor, tuple[int, int], ConceptOutput]]:
        """Positions, patches (B, L, D), their grid and what the model says."""
        for batch, tokens in self.tokens(indices):
            with torch.inference_mode():
                yield batch, tokens.patches, tokens.grid, self.pipeline.read(tokens)


def open_stream(run: "OpenedRun", stack: ExitStack) -> TokenStream:
    """The run's token store if it has a complete one, else its images; the stack closes it."""
    pipeline, card = run.pipeline, run.card
    reader = PixelReader(run.source, card.image_size, card.fit, cache_mb=0, workers=run.recipe.data.workers)
    stack.enter_context(reader)
    store = _store(run, reader)
    if store is None:
        return TokenStream(pipeline, reader, reader, "images")
    pipeline.encoder.cut = store.cut
    stack.callback(setattr, pipeline.encoder, "cut", None)  # afterwards the run takes images again
    return TokenStream(pipeline, StoredReader(store), reader, f"tokens stored in {store.path}")


def _store(run: "OpenedRun", reader: PixelReader) -> TokenStore | None:
    """What training read, where it was kept; the encoder's learned blocks lie behind it."""
    recipe, pipeline = run.recipe, run.pipeline
    place = recipe.encoder.store
    if place in (None, "run") or not Path(str(place)).is_dir() or pipeline.encoder.layers:
        return None
    try:
        blocks = blocks_behind(recipe.encoder)
        key = Key(
            pipeline.encoder.name,
            str(run.info["encoder"]["hash"]),  # as training began
            blocks,
            reader.size,
            reader.view,
            reader.source.examples.fingerprint,
            pixels_key(reader),
            len(reader.source),
            recipe.training.precision,
            "float16",
        )
        probe = torch.zeros(1, 3, reader.size, reader.size, device=run.device)
        with torch.inference_mode():
            shape = pipeline.encoder.before(pipeline.encoder.normalize(probe), blocks).shape
        grid = pipeline.encoder.grid(reader.size, reader.size)
        store = TokenStore(Path(str(place)), key, shape[1], shape[2], grid)
    except (UserError, KeyError):
        return None
    return store if all(store.has(shard) for shard in range(store.shards)) else None
