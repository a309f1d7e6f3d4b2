"""Preloads what the page shows first, cards, a model, a graph, the table: the first visitor does not wait for them."""

import logging
import threading

from conceptlens.core.errors import UserError
from conceptlens.web.schemas.runs import RunCard
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.state import ServerState
from conceptlens.web.views.gallery import THUMBNAIL, list_images, read_image, square_jpeg
from conceptlens.web.views.graphs import FILES
from conceptlens.web.views.predict import predict_own
from conceptlens.web.views.what_if import head_of

LARGE = 20_000_000  # bytes; a larger graph is read when it is asked for
log = logging.getLogger("conceptlens.web")


def first_shown(cards: list[RunCard]) -> RunCard | None:
    """The model that the page opens by default: the latest one that is not part of a comparison."""
    kinds = {card.key: card.kind for card in cards}
    models = [card for card in cards if card.kind == "bottleneck" and "model" in card.has]
    single = [card for card in models if kinds.get(card.within or "") != "comparison"]
    return next(iter(single or models), None)


def preload(state: ServerState) -> None:
    """Load what the views ask for first. Errors in a folder are left to the request that asks for it."""
    cards = state.index.cards()
    for work in (_model, _graph, _table):
        try:
            work(state, cards)
        except (UserError, Problem, OSError) as problem:
            log.debug("%s: not preloaded: %s", work.__name__, problem)


def _model(state: ServerState, cards: list[RunCard]) -> None:
    card = first_shown(cards)
    if card is None:
        return
    loaded = state.loaded(card.key)
    loaded.background  # noqa: B018 - made here, as for a prediction
    head_of(loaded)
    listed = list_images(loaded, "test", show="all", true=None, predicted=None, page=0, size=1)
    for item in listed.items:
        square_jpeg(loaded, read_image(loaded, item.split, item.row, THUMBNAIL), THUMBNAIL)
        predict_own(loaded, item.split, item.row, "auto")


def _graph(state: ServerState, cards: list[RunCard]) -> None:
    card = next((card for card in cards if card.kind == "decomposition" and "graph" in card.has), None)
    if card is None:
        return
    entry = state.index.folders.get(card.key)
    path = entry.file(FILES["classes"])
    if path is not None and path.stat().st_size <= LARGE:
        state.graphs.open(entry, "classes").body  # noqa: B018 - kept with the graph


def _table(state: ServerState, cards: list[RunCard]) -> None:
    if cards:
        state.table.rows(state.index)


def preload_in_background(state: ServerState) -> threading.Thread:
    """Preload in a thread."""
    thread = threading.Thread(target=preload, args=(state,), name="preload", daemon=True)
    thread.start()
    return thread
