"""Training from stored tokens: what the frozen part of an encoder says of every image, computed once."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from conceptlens.data.checks.findings import counted
from conceptlens.data.dataset import SPLITS
from conceptlens.encoders.store.encode import fill, open_store
from conceptlens.encoders.store.reader import Indices, StoredReader
from conceptlens.encoders.store.resident import ResidentTokens, tokens_stay_resident
from conceptlens.encoders.store.store import TokenStore
from conceptlens.training.loop import Session


def fill_store(session: Session, path: Path) -> tuple[TokenStore, int]:
    """Encode what a store lacks; returns it and how many images were new."""
    encoder, processes = session.pipeline.encoder, session.processes
    precision = session.recipe.training.precision
    rows = _rows(session)
    store = open_store(path, encoder, session.recipe.encoder, session.reader, precision=precision, rows=rows)
    with session.progress.counting("encoding", store.key.images) as count:
        encoded = fill(store, encoder, session.reader, processes, count, rows)
    processes.wait()
    return store, sum(processes.gather(encoded))


def _rows(session: Session) -> Indices | None:
    """The images that `data.limit` leaves; None for all of them."""
    if session.recipe.data.limit is None:
        return None
    return np.unique(np.concatenate([session.splits[side] for side in SPLITS]))


def _reader(session: Session, store: TokenStore) -> StoredReader:
    """From the device's memory, if the recipe and the device say so; else from disk."""
    device = session.processes.device
    if not tokens_stay_resident(session.recipe.data.resident, store, device):
        return StoredReader(store, _rows(session))
    with session.progress.counting("loading tokens", store.key.images) as count:
        return ResidentTokens(store, device, count, _rows(session))


@contextlib.contextmanager
def stored_tokens(session: Session) -> Iterator[None]:
    """While training, let the session read from its store, if its recipe has one; a run's own store is then removed.

    One that folds share is removed by the run of their final model, after the last of them.
    """
    place, encoder, processes = session.recipe.encoder.store, session.pipeline.encoder, session.processes
    if place is None:
        yield
        return
    own = session.run.path / "tokens"
    shared = session.shared.tokens / session.recipe.encoder.name.replace("/", "-") if session.shared else own
    store, _ = fill_store(session, shared if place == "run" else Path(place))
    learning = f" through the encoder's last {counted(store.cut.blocks, 'block')}" if store.cut.blocks else ""
    session.progress.note(f"training from stored tokens{learning}; images are not augmented")
    session.stored, encoder.cut = _reader(session, store), store.cut
    try:
        yield
    finally:
        session.stored, encoder.cut = None, None
    processes.wait()
    if processes.main and session.shared is None:
        shutil.rmtree(own, ignore_errors=True)
