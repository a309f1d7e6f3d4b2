"""Sessions: who logged in, for how long; and `serve --revoke`, which ends all of them.

A login makes a new secret, which goes into a cookie. The server keeps only its hash, in memory: a session ends after
`HOURS`, with the server, at the next login of the same browser, or when someone revokes it from a terminal. For that
all servers of a user look at one small file, which holds the time of the last revocation.
"""

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text

HOURS = 12
MOST = 10_000  # sessions; the oldest ends first


@dataclass(frozen=True)
class Visitor:
    """Who asks: the owner of the server, or a rater of one study."""

    study: str | None = None  # the key of the study; None: the owner


@dataclass(frozen=True)
class _Session:
    visitor: Visitor
    begun: float


class Sessions:
    """The sessions of one server. Safe to use from several threads."""

    def __init__(self, revoked: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        """`revoked`: the file with the time of the last revocation; `clock`: seconds."""
        self._revocation, self._clock = _Revocation(revoked), clock
        self._known: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def begin(self, visitor: Visitor, instead_of: str | None = None) -> str:
        """A new secret; that of an earlier session of the same browser ends."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            if instead_of:
                self._known.pop(_hash(instead_of), None)
            self._known = {name: each for name, each in self._known.items() if self._lasts(each)}
            while len(self._known) >= MOST:
                self._known.pop(next(iter(self._known)))
            self._known[_hash(secret)] = _Session(visitor, self._clock())
        return secret

    def visitor(self, secret: str) -> Visitor | None:
        """Whose session it is; None: nobody's, or it has ended."""
        with self._lock:
            session = self._known.get(_hash(secret))
        return session.visitor if session and self._lasts(session) else None

    def _lasts(self, session: _Session) -> bool:
        return session.begun > self._revocation.time() and self._clock() < session.begun + HOURS * 3600


class _Revocation:
    """The time of the last revocation; the file is read when it changed."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._stamp, self._time = path, (0, 0), 0.0

    def time(self) -> float:
        if self._path is None:
            return 0.0
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp != self._stamp:
                self._time, self._stamp = float(self._path.read_text("ascii")[:40]), stamp
        except FileNotFoundError:
            return self._time
        except (OSError, ValueError):
            return float("inf")  # it is there and says nothing: rather log in again than let someone stay
        return self._time


def user_state() -> Path:
    """What servers of this user remember; no run folder, which may be a stranger's, can write there."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "conceptlens"


def revocation_file() -> Path:
    """Where `serve --revoke` writes for all servers of this user."""
    return user_state() / "sessions-revoked"


def revoke_sessions(path: Path | None = None) -> Path:
    """End all sessions of all servers of this user on this machine."""
    path = path or revocation_file()
    try:
        write_text(path, f"{time.time()}\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}). To end all sessions stop the server.") from None
    return path


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
