"""Fill a token store: one pass of the encoder over the images, shared by all processes, resumable shard by shard."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.freezing import weights_hash
from conceptlens.encoders.replay import check_cut
from conceptlens.encoders.store.reader import Indices
from conceptlens.encoders.store.store import Dtype, Key, TokenStore
from conceptlens.recipes.schema import EncoderConfig

BATCH = 32
LOOKED_AT = 64  # images whose pixels are part of a store's key


def blocks_behind(config: EncoderConfig) -> int:
    """How many blocks learn, and so lie behind the cut."""
    if config.train == "all":
        raise UserError(
            "encoder.store: with `encoder.train: all` every layer changes while it trains, so nothing can be stored. "
            "Set encoder.train to none or to a number of blocks, or leave encoder.store empty."
        )
    return 0 if config.train == "none" else int(config.train)


def check_storable(encoder: Encoder, config: EncoderConfig, image_size: int) -> None:
    """Refuse what cannot be stored before any work begins."""
    check_cut(encoder, blocks_behind(config), image_size)


def open_store(
    path: Path,
    encoder: Encoder,
    config: EncoderConfig,
    reader: PixelReader,
    dtype: Dtype = "float16",
    precision: str = "fp32",
    rows: Indices | None = None,
) -> TokenStore:
    """The store that belongs to an encoder with its starting weights and to the images of a reader.

    Where the encoder hands on layers, it lies in a folder below the path. `rows`: the only images that it holds, as
    ascending numbers; all by default.
    """
    blocks = blocks_behind(config)
    examples = reader.source.examples
    if encoder.layers:  # in a folder of their own, so that methods with and without layers can share a place
        path = path / f"layers-{'-'.join(map(str, encoder.layers))}"
    key = Key(
        encoder.name,
        weights_hash(encoder),
        blocks,
        reader.size,
        reader.view,
        examples.fingerprint if rows is None else fingerprint(examples.fingerprint, rows.tobytes()),
        pixels_key(reader),
        len(examples) if rows is None else len(rows),
        precision,
        dtype,
    )
    encoder.eval()
    device = next(encoder.parameters()).device
    with torch.inference_mode():
        probe = torch.zeros(1, 3, reader.size, reader.size, device=device)
        shape = encoder.before(encoder.normalize(probe), blocks).shape
    return TokenStore(path, key, shape[1], shape[2], encoder.grid(reader.size, reader.size))


def pixels_key(reader: PixelReader) -> str:
    """A fingerprint of a few images spread over the data: other files under the same names are most likely noticed."""
    number = len(reader.source)
    chosen = np.unique(np.linspace(0, number - 1, min(number, LOOKED_AT)).astype(np.int64))
    return fingerprint(reader.batch(chosen).numpy().tobytes())


def fill(
    store: TokenStore,
    encoder: Encoder,
    reader: PixelReader,
    processes: Processes,
    on_images: Callable[[int], object] = lambda number: None,
    rows: Indices | None = None,
) -> int:
    """Encode what is missing; returns how many images were encoded by this process. `rows`: as in `open_store`."""
    if processes.main:
        store.begin()
    encoder.to(processes.device).eval()  # not in inference mode, whose tensors could not learn afterwards
    missing = [shard for shard in range(processes.index, store.shards, processes.count) if not store.has(shard)]
    kept = getattr(torch, store.key.dtype)
    # A shard is written while the next is encoded.
    with torch.inference_mode(), ThreadPoolExecutor(1, "conceptlens-store") as disk:
        writing: Future[None] | None = None
        for shard in missing:
            places = np.asarray(store.rows_of(shard))
            images_of = places if rows is None else rows[places]
            # Filled in place: a list of batches that is joined would hold every token twice.
            tokens = torch.empty(len(places), store.tokens, store.width, dtype=kept)
            done = 0
            batches = (images_of[start : start + BATCH] for start in range(0, len(places), BATCH))
            for batch, pixels in reader.prefetch(batches):
                images = encoder.normalize(pixels.to(processes.device, non_blocking=True))
                with processes.autocast():
                    tokens[done : done + len(batch)] = encoder.before(images, store.cut.blocks)
                done += len(batch)
                on_images(len(batch))
            if writing is not None:
                writing.result()
            writing = disk.submit(store.write, shard, tokens)
        if writing is not None:
            writing.result()
    return sum(len(store.rows_of(shard)) for shard in missing)
