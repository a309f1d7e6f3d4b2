"""Study packs among the served folders, as raters may know them.

Nothing here opens a pack's key: what is not read cannot leak. Only closing a study does, and a closed study takes no
more answers.
"""

import threading
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.web.server.folders import RunEntry, RunFolders
from conceptlens.web.server.problems import Problem, not_found
from conceptlens.workflows.study.make import PAGE
from conceptlens.workflows.study.rendering import render_served
from conceptlens.workflows.study.shown import read_shown

Stamp = tuple[str, int, int]


@dataclass(frozen=True)
class Questions:
    """What can be asked and answered in a study, without pictures."""

    study: str
    images: int
    answers: dict[str, list[str]]  # what may be answered to each trial


@dataclass(frozen=True)
class Pack:
    """A pack that is served."""

    entry: RunEntry
    stamp: Stamp

    @property
    def page(self) -> Path:
        return self.entry.path / PAGE

    def render(self) -> bytes:
        """The raters' page for this server, by the code of this version."""
        content = read_shown(self.page).model_dump(mode="json", exclude_none=True)
        return render_served(content, root="../static", files="../static/study").encode()


class Packs:
    """All packs. Safe to use from several threads."""

    def __init__(self, folders: RunFolders) -> None:
        self._folders = folders
        self._known: dict[Stamp, Questions] = {}
        self._lock = threading.Lock()

    def all(self) -> list[Pack]:
        """Every folder that holds the page of a study."""
        found: list[Pack] = []
        for entry in self._folders.all():
            if entry.reason is None and (entry.path / PAGE).is_file():
                status = (entry.path / PAGE).stat()
                found.append(Pack(entry, (str(entry.path), status.st_mtime_ns, status.st_size)))
        return found

    def get(self, key: str) -> Pack:
        """The pack of that key, or a 404."""
        packs = {pack.entry.key: pack for pack in self.all()}
        if key not in packs:
            raise not_found(f"No study is called {key!r}. {did_you_mean(key, packs)}")
        packs[key].entry.file(PAGE)  # refuses a link that leads out
        return packs[key]

    def questions(self, pack: Pack) -> Questions:
        """What a pack asks; read once."""
        with self._lock:
            known = self._known.get(pack.stamp)
        if known:
            return known
        try:
            shown = read_shown(pack.page)
        except UserError as error:
            raise Problem(409, "broken", str(error)) from None
        read = Questions(shown.study, len(shown.images), {trial.id: trial.answers for trial in shown.trials})
        with self._lock:
            self._known = {stamp: each for stamp, each in self._known.items() if stamp[0] != pack.stamp[0]}
            self._known[pack.stamp] = read
        return read
