"""Fill a token store: one pass of the encoder over the images, shared by all processes, resumable shard by shard."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.transfer import to_device
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.freezing import weights_hash
from conceptlens.encoders.replay import check_cut
from conceptlens.encoders.store.reader import Indices
from conceptlens.encoders.store.store import Dtype, Key, TokenStore
from conceptlens.recipes.schema import EncoderConfig

BATCH = 32
GPU_BATCH = 64
GPU_WRITERS = 4  # shards that are hashed and written at once: a GPU fills them faster than one thread does that
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
    gpu = processes.device.type == "cuda"
    missing = [shard for shard in range(processes.index, store.shards, processes.count) if not store.has(shard)]
    pieces = [(shard, piece) for shard in missing for piece in _pieces(store.rows_of(shard), gpu)]
    kept = getattr(torch, store.key.dtype)
    tokens, filled = torch.empty(0), 0
    # One stream of batches over all shards: while one is written, the next is encoded and the one after it decoded.
    decoded = reader.prefetch(piece if rows is None else rows[piece] for _, piece in pieces)
    writers = GPU_WRITERS if gpu else 1
    with torch.inference_mode(), ThreadPoolExecutor(writers, "conceptlens-store") as disk:
        writing: deque[Future[None]] = deque()
        arriving = to_device(decoded, processes.device)
        try:
            for (shard, piece), (_, pixels) in zip(pieces, arriving, strict=True):
                if not filled:  # a shard is filled in place: batches that are joined would hold every token twice
                    shape = (len(store.rows_of(shard)), store.tokens, store.width)
                    tokens = torch.empty(shape, dtype=kept, pin_memory=gpu)
                with processes.autocast():
                    found = encoder.before(encoder.normalize(pixels), store.cut.blocks)
                # A GPU brings them in its turn, while it is asked for the next.
                tokens[filled : filled + len(piece)].copy_(found.to(kept), non_blocking=True)
                filled += len(piece)
                on_images(len(piece))
                if filled == len(tokens):
                    if len(writing) == writers:
                        writing.popleft().result()
                    writing.append(disk.submit(_write, store, shard, tokens, _arrived(gpu)))
                    filled = 0
            while writing:
                writing.popleft().result()
        finally:
            arriving.close()
    return sum(len(store.rows_of(shard)) for shard in missing)


def _pieces(places: range, gpu: bool) -> list[Indices]:
    """A shard's images in batches; on a GPU of even size, as a small last one would keep it waiting."""
    batch = -(-len(places) // -(-len(places) // GPU_BATCH)) if gpu else BATCH
    return [np.asarray(places[start : start + batch]) for start in range(0, len(places), batch)]


def _arrived(gpu: bool) -> torch.cuda.Event | None:
    """When everything that the GPU was asked for until now is done."""
    if not gpu:
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event


def _write(store: TokenStore, shard: int, tokens: Tensor, arrived: torch.cuda.Event | None) -> None:
    if arrived is not None:
        arrived.synchronize()
    store.write(shard, tokens)
