"""The answers that go into a file: those of its views, and those of each of its images."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.web.schemas.image import Show
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.kinds import WORDS
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import Problem
from conceptlens.web.share.choose import choose, only, referred
from conceptlens.web.share.clean import clean
from conceptlens.web.share.in_process import Inside, Told
from conceptlens.web.share.pack import packed
from conceptlens.web.share.plan import SHARED
from conceptlens.web.views.gallery import list_images

Say = Callable[[str], object]
EVERY = 25  # images after which something is said


@dataclass
class Gathered:
    """What a file is made of, but for its pictures."""

    views: list[str]
    answers: dict[str, Told]  # by address
    files: list[str] = field(default_factory=list)  # addresses of pictures and tables, most wanted first
    split: Split = "test"
    rows: list[int] = field(default_factory=list)  # images of the data, most wanted first
    of: int = 0  # images of the split
    predictions: dict[int, str] = field(default_factory=dict)  # packed, by row
    listed: dict[str, Any] = field(default_factory=dict)  # all images of the split, and their orders
    notes: list[str] = field(default_factory=list)

    def packed(self, rows: Sequence[int], inside: Inside) -> dict[str, str]:
        """All answers of a file with these images."""
        kept = frozenset(rows)
        found: dict[str, str] = {}
        for address, told in self.answers.items():
            body = clean(told.body)
            if address == inside.run and rows:
                body["splits"] = {self.split: len(rows)}
            if address.endswith(("/concepts", "/codebook")) and told.ok:
                body = only(body, self.split, kept)
            found[address] = packed(body, told.status)
        if rows:
            found[f"{inside.run}/images"] = packed(_subset(self.listed, kept))
        for row in rows:
            found[f"{inside.run}/images/{self.split}/{row}/prediction"] = self.predictions[row]
        return found


def gather(inside: Inside, wanted: Sequence[str] | None, most: int, say: Say) -> Gathered:
    """Ask everything that the wanted views ask; without `wanted`, all views that have something to show."""
    found = Gathered([], {address: inside.get(address) for address in ("about", "glossary", "runs", inside.run)})
    detail = found.answers[inside.run]
    if not detail.ok:
        raise UserError(detail.reason)
    if detail.body["environment"]:
        detail.body["environment"].pop("machine", None)  # of no use to anyone who cannot reach it
    _views(inside, found, wanted, detail.body["card"]["kind"])
    bodies = {address: told.body for address, told in found.answers.items() if told.ok}
    for name in found.views:
        for address in SHARED[name].more(inside.run, bodies):
            found.answers[address] = told = inside.get(address)
            if told.ok:
                bodies[address] = told.body
    for name in found.views:
        found.files += dict.fromkeys(SHARED[name].files(inside.run, bodies))
    if any(SHARED[name].images for name in found.views):
        _images(inside, found, most, say)
    return found


def _views(inside: Inside, found: Gathered, wanted: Sequence[str] | None, kind: str) -> None:
    """Choose the views that can be shown, and ask what they ask."""
    for name in wanted or ():
        if name in ("runs", "study"):
            raise UserError(f"--views: {name!r} needs a server and cannot be shared. Choose of {', '.join(SHARED)}.")
        if name not in SHARED:
            raise unknown_name("view", name, SHARED)
        if SHARED[name].kinds and kind not in SHARED[name].kinds:
            words = {**WORDS}
            shows = " or ".join(words[each] for each in SHARED[name].kinds)
            raise UserError(f"--views {name}: this view shows {shows}, and {inside.entry.shown} is none.")
    for name in dict.fromkeys(wanted or (each for each, view in SHARED.items() if kind in view.kinds)):
        why = _lacks(inside, name, found)
        if why is None:
            found.views.append(name)
        elif wanted:
            raise UserError(f"--views {name}: {why}")
        else:
            found.notes.append(f"The view {name} is left out: {why}")
    found.views.sort(key=list(SHARED).index)  # as the tabs are
    if not found.views:
        raise UserError(f"{inside.entry.shown}: no view of it can be shared. " + " ".join(found.notes))


def _lacks(inside: Inside, name: str, found: Gathered) -> str | None:
    """Why a view has nothing to show; None if it has."""
    view = SHARED[name]
    if view.images:
        try:
            inside.loaded().source  # noqa: B018 - opened to see whether it is there
        except Problem as problem:
            return problem.message
    asked: dict[str, Told] = {}
    for rest in view.asks:
        address = rest.replace("{}", inside.run)
        if address not in found.answers:
            found.answers[address] = _history(inside) if rest.endswith("/history") else inside.get(address)
        asked[rest] = found.answers[address]
    if view.needs == "any" and not any(told.ok for told in asked.values()):
        return "no command has written what it shows."
    if view.needs in asked and not asked[view.needs].ok:
        return asked[view.needs].reason
    return _empty(name, asked)


def _empty(name: str, asked: Mapping[str, Told]) -> str | None:
    """Answers with nothing in them."""
    if name == "what-if" and not asked["{}/head"].body["linear"]:
        return "its class is no weighted sum of concepts, so that a server has to work it out."
    if name == "training" and not asked["{}/history"].body["lines"]:
        return "this run has no history."
    if name == "concepts" and not asked["{}/concepts"].body["concepts"]:
        return "this method reads no concepts."
    return None


def _history(inside: Inside) -> Told:
    """All of it: the server gives some thousand lines at a time."""
    whole = inside.get(f"{inside.run}/history")
    while whole.ok:
        more = inside.get(f"{inside.run}/history?after={whole.body['cursor']}")
        if not more.ok or not more.body["lines"]:
            break
        whole.body["lines"] += more.body["lines"]
        whole.body["cursor"] = more.body["cursor"]
    return whole


def _images(inside: Inside, found: Gathered, most: int, say: Say) -> None:
    """Choose images and ask what the model says of them."""
    loaded = inside.loaded()
    found.split = "val" if loaded.opened.reported_images()[0] == "val" else "test"
    found.listed = _list(loaded, found.split)
    found.of = len(found.listed["items"])
    shown = [found.answers.get(f"{inside.run}/{name}") for name in ("concepts", "codebook")]
    pointed = referred([told.body for told in shown if told and told.ok], found.split)
    chosen = choose(found.listed["items"], found.listed["orders"], pointed, most)
    loaded.name_codes()
    damaged = 0
    for count, row in enumerate(chosen, 1):
        told = inside.get(f"{inside.run}/images/{found.split}/{row}/prediction?gradcam=auto")
        if told.ok:
            told.body["took_ms"] = 0.0
            found.predictions[row] = packed(clean(told.body))
            found.rows.append(row)
        else:
            damaged += 1
        if count % EVERY == 0 or count == len(chosen):
            say(f"{count} of {len(chosen)} images")
    if damaged:
        found.notes.append(f"{damaged} images could not be read and are left out.")
    if not found.rows:
        raise UserError(f"{inside.entry.shown}: none of its images can be read.")


def _list(loaded: LoadedRun, split: Split) -> dict[str, Any]:
    """All images of a split as the server lists them, and the rows of each of its orders."""
    orders: dict[str, list[int]] = {}

    def ask(show: Show) -> dict[str, Any]:
        whole = list_images(loaded, split, show=show, true=None, predicted=None, page=0, size=10**9)
        answer: dict[str, Any] = whole.model_dump(mode="json", by_alias=True)
        return answer

    listed = ask("all")
    if listed["stored"]:
        orders = {show: [item["row"] for item in ask(show)["items"]] for show in get_args(Show) if show != "all"}
    return {**clean(listed), "orders": orders}


def _subset(listed: dict[str, Any], rows: frozenset[int]) -> dict[str, Any]:
    """The list of the images of a file."""
    items = [item for item in listed["items"] if item["row"] in rows]
    orders = {show: [row for row in order if row in rows] for show, order in listed["orders"].items()}
    why = listed["why"] or (f"in this file, of {len(listed['items'])}" if len(items) < len(listed["items"]) else None)
    return {**listed, "total": len(items), "why": why, "items": items, "orders": orders}
