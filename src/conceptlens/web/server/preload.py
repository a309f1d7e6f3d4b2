"""What the first visitor would wait for, done before: cards, the model and the graph that are shown first."""

import logging
import threading

from conceptlens.core.errors import UserError
from conceptlens.web.schemas.runs import RunCard
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.state import Site
from conceptlens.web.views.gallery import THUMBNAIL, list_images, read_image, square_jpeg
from conceptlens.web.views.graphs import FILES
from conceptlens.web.views.predict import predict_own
from conceptlens.web.views.what_if import head_of

LARGE = 20_000_000  # bytes of a graph that nobody has asked for
log = logging.getLogger("conceptlens.web")


def first_shown(cards: list[RunCard]) -> RunCard | None:
    """The model that the page chooses where no address names one: the last that is no training of a comparison."""
    kinds = {card.key: card.kind for card in cards}
    models = [card for card in cards if card.kind == "bottleneck" and "model" in card.has]
    single = [card for card in models if kinds.get(card.within or "") != "comparison"]
    return next(iter(single or models), None)


def warm(site: Site) -> None:
    """Go through what the views ask for first. What is wrong with a folder is told to whoever asks for it."""
    cards = site.index.cards()
    for work in (_model, _graph):
        try:
            work(site, cards)
        except (UserError, Problem, OSError) as problem:
            log.debug("%s: not made ready: %s", work.__name__, problem)


def _model(site: Site, cards: list[RunCard]) -> None:
    card = first_shown(cards)
    if card is None:
        return
    loaded = site.loaded(card.key)
    loaded.background  # noqa: B018 - made here, as for a prediction
    head_of(loaded)
    listed = list_images(loaded, "test", show="all", true=None, predicted=None, page=0, size=1)
    for item in listed.items:
        square_jpeg(loaded, read_image(loaded, item.split, item.row, THUMBNAIL), THUMBNAIL)
        predict_own(loaded, item.split, item.row, "auto")


def _graph(site: Site, cards: list[RunCard]) -> None:
    card = next((card for card in cards if card.kind == "decomposition" and "graph" in card.has), None)
    if card is None:
        return
    entry = site.index.folders.get(card.key)
    path = entry.file(FILES["classes"])
    if path is not None and path.stat().st_size <= LARGE:
        site.graphs.open(entry, "classes").body  # noqa: B018 - kept with the graph


def warm_later(site: Site) -> threading.Thread:
    """The same beside everything else."""
    thread = threading.Thread(target=warm, args=(site,), name="warm", daemon=True)
    thread.start()
    return thread
