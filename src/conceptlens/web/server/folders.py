"""Result folders among the folders that were named: found by their `run.json`, with keys that are safe in addresses.

Nothing outside the named folders is ever reached: links that lead out are not followed.
"""

import os
import re
import shlex
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import check_links, fingerprint
from conceptlens.data.labels.words import printable
from conceptlens.runs.results import EARLIER_NAMES
from conceptlens.web.server.problems import Problem, not_found

DEPTH = 4  # folders below a named one in which runs are looked for
MOST = 20_000  # folders that are looked into, at most
FRESH = 1.0  # seconds for which a look at the folders holds
MARK = "run.json"
INSIDE = ("runs", "study")  # what of a result may hold others: the trainings of a comparison, the pack of a study


@dataclass(frozen=True)
class RunEntry:
    """A folder that is, or should be, a run or another result."""

    key: str
    path: Path  # resolved
    shown: str  # as the user would write it
    reason: str | None = None  # why it is none
    within: str | None = None  # the key of the result folder that it lies in

    @property
    def name(self) -> str:
        """The folder's name."""
        return printable(self.path.name)

    def file(self, name: str) -> Path | None:
        """A file of the run by its relative name, or by an earlier version's name for it; None if it is not there."""
        names = (name, *(old for old, new in EARLIER_NAMES.items() if new == name))
        return next((path for path in map(self._file, names) if path is not None), None)

    def _file(self, name: str) -> Path | None:
        """A file by exactly this name.

        Raises:
            UserError: It is a link that leads out of the run folder.
        """
        path, linked = str(self.path), False
        for part in name.split("/"):
            path = f"{path}{os.sep}{part}"
            try:
                mode = os.lstat(path).st_mode
            except (OSError, ValueError):
                return None
            linked = linked or stat.S_ISLNK(mode)
        # The folder itself is resolved: only a link inside it can lead out, and looking for one is quick.
        if linked:
            if not os.path.exists(path):
                return None
            if not Path(os.path.realpath(path)).is_relative_to(self.path):
                raise UserError(f"{self.shown}/{name}: a link that leads out of the run folder; it is not followed.")
            mode = os.stat(path).st_mode
        return Path(path) if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else None  # a pipe would be waited for

    def check_links(self) -> None:
        """Refuse a run with any link that leads out of it."""
        check_links(self.path)

    def command(self, words: str) -> str:
        """A command about this run, ready to be pasted."""
        return f"conceptlens {words} {shlex.quote(self.shown)}"


class RunFolders:
    """The runs in some folders, looked up again when a second has passed."""

    def __init__(self, roots: Sequence[Path]) -> None:
        if not roots:
            raise UserError("No run folder was named: conceptlens serve runs/")
        for root in roots:
            if not root.is_dir():
                raise UserError(f"{root}: no such folder. Name run folders, or folders that hold some.")
        self._roots = [(root.resolve(), str(root)) for root in roots]
        self._lock = threading.Lock()
        self._seen: dict[str, RunEntry] = {}
        self._at = -1.0

    def all(self) -> list[RunEntry]:
        """Every run, in the order found."""
        with self._lock:
            if self._at < 0 or time.monotonic() - self._at > FRESH:
                self._seen = {entry.key: entry for entry in self._look()}
                self._at = time.monotonic()
            return list(self._seen.values())

    def get(self, key: str) -> RunEntry:
        """The run of that key, or a 404; a broken one is a 409."""
        known = self._seen.get(key)
        if known is None or not known.path.exists():
            known = next((entry for entry in self.all() if entry.key == key), None)
        if known is None:
            raise not_found(f"No run is called {key!r}. {did_you_mean(key, self._seen)}")
        if known.reason:
            raise Problem(409, "broken", known.reason)
        return known

    def _look(self) -> Iterator[RunEntry]:
        taken: set[str] = set()
        for root, shown in self._roots:
            found = 0
            keys: dict[Path, str] = {}
            for path, inner, reason in _runs_in(root):
                found += 1
                key = _key(inner or root.name)
                if key in taken:
                    key = f"{key}-{fingerprint(os.fsencode(path))[:6]}"
                taken.add(key)
                holder = next((keys[above] for above in path.parents if above in keys), None)
                keys[path] = key
                name = printable(str(Path(shown, inner)))
                if printable(str(path)) != str(path):
                    reason = f"{name}: the name of this folder is not UTF-8. Rename it."
                yield RunEntry(key, path, name, reason, holder)
            if not found:
                reason = (
                    f"{shown}: no run in this folder. `conceptlens train` makes one."
                    if root.is_dir()
                    else f"{shown}: this folder is gone."
                )
                yield RunEntry(_key(f"{root.name}-{fingerprint(os.fsencode(root))[:6]}"), root, shown, reason)


def _key(name: str) -> str:
    """A name for addresses; what is not plain is replaced, and a hash keeps such names apart."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name.replace(os.sep, "--")).strip("-.")
    faithful = plain == name.replace(os.sep, "--")
    if faithful and len(plain) <= 150:
        return plain
    return f"{plain[:140]}-{fingerprint(os.fsencode(name))[:6]}".lstrip("-")


def _runs_in(root: Path) -> Iterator[tuple[Path, str, str | None]]:
    """(folder, its name below the root, why it is broken) of each result; one that lies in another comes after it."""
    looked = 0
    waiting = [_Place(root, "", 0)]
    if (root / MARK).is_file():
        yield root, "", None
        waiting = [_Place(root, "", DEPTH - 2, INSIDE)]
    while waiting:
        place = waiting.pop()
        looked += 1
        if looked > MOST:
            return
        try:
            entries = sorted((entry for entry in os.scandir(place.path) if place.shows(entry.name)), key=_name)
        except OSError as error:
            yield place.path, place.inner, f"{place.path}: {error.strerror}."
            continue
        for entry in entries:
            below = f"{place.inner}{os.sep}{entry.name}" if place.inner else entry.name
            path = Path(entry.path)
            if entry.is_symlink():
                if (path / MARK).is_file() and not Path(os.path.realpath(path)).is_relative_to(root):
                    yield path, below, f"{path}: a link that leads out of {root}. Name the run itself to serve it."
            elif entry.is_dir(follow_symlinks=False):
                if (path / MARK).is_file():
                    yield path, below, None
                    waiting.append(_Place(path, below, DEPTH - 2, INSIDE))
                elif place.depth + 1 < DEPTH:
                    waiting.append(_Place(path, below, place.depth + 1))


@dataclass(frozen=True)
class _Place:
    """A folder to look into."""

    path: Path
    inner: str  # its name below the root
    depth: int
    only: tuple[str, ...] = ()  # names that count in it; all, if none are given

    def shows(self, name: str) -> bool:
        return not name.startswith(".") and (not self.only or name in self.only)


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name
