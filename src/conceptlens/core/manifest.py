"""What each file of a folder held when it was written: an edit or bit rot is noticed by whoever reads it.

`manifest.jsonl` begins with a header and gets a line for each write below its folder: name, size, time and SHA-256.
The line comes first and the file is renamed into place after it, so a file is always as its last line or the one
before it says, whenever a process is killed. A reader compares size and time, and the hash where these differ.
"""

import hashlib
import json
import os
import shlex
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.regular import check_regular

NAME = "manifest.jsonl"
HEADER = {"manifest": "conceptlens", "version": 1}
ABOVE = 4  # folders above a file in which its manifest is looked for
SEPARATE = ("state", "tokens")  # folders that come and go, with manifests of their own
LARGEST = 2**27  # bytes of a manifest
_settings = {"always": False}


@dataclass(frozen=True)
class Entry:
    """A file as it was written."""

    size: int
    mtime: int  # nanoseconds
    sha256: str


@dataclass(frozen=True)
class Changes:
    """How the files of a folder differ from its manifest; names are relative to the folder."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)


def verify_everything(always: bool = True) -> None:
    """Compare hashes from now on, also of files whose size and time are as they were: `--verify`."""
    _settings["always"] = always


def verifies_everything() -> bool:
    return _settings["always"]


def has_manifest(folder: Path) -> bool:
    return (folder / NAME).is_file()


def begin(folder: Path) -> None:
    """Keep a manifest of this folder from now on; one that is there stays."""
    if not has_manifest(folder):
        _write(folder, {})


def record(path: Path, content: Path | None = None) -> None:
    """Note what a file holds, before it gets its name; nothing where no folder above it has a manifest.

    Args:
        path: The file's name.
        content: Where its content lies for now; under that name by default.
    """
    if (folder := _folder_of(path)) is None:
        return
    name = _relative(path, folder)
    if any(part.startswith(".") for part in name.split("/")):
        return  # it gets its name later
    line = _line(name, _entry(content or path))
    handle = os.open(folder / NAME, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
    try:
        # A line break first: what a full disk cut off stays on a line of its own.
        os.write(handle, b"\n" + line)
        os.fsync(handle)
    finally:
        os.close(handle)


def check(path: Path, *, always: bool = False) -> None:
    """Refuse a file that is not as it was written, and a pipe or device; a file that no manifest speaks of is taken.

    Args:
        path: The file.
        always: Compare the hash even if size and time are as they were.

    Raises:
        DamagedError: It was edited or damaged.
        UserError: It is no file.
    """
    check_regular(path)
    folder = _folder_of(path)
    if folder is None or _is_as_written(path, folder, always) or _is_as_written(path, folder, always):  # or just now
        return
    raise DamagedError(
        f"{path}: this file was edited or damaged since it was written (its hash differs). Copy the folder again; if "
        f"the change is yours, accept it: `conceptlens rehash {shlex.quote(str(folder))}`."
    )


def refuse_gone(path: Path) -> None:
    """Refuse to do without a file that was written here: where it was never written, it may be missing.

    Raises:
        DamagedError: It was removed.
    """
    folder = _folder_of(path)
    if folder is not None and not path.is_file() and _relative(path, folder) in _read(folder):
        raise DamagedError(
            f"{path}: this file was written and is gone. Copy the folder again; if you removed it, accept that: "
            f"`conceptlens rehash {shlex.quote(str(folder))}`."
        )


def check_all(folder: Path) -> None:
    """Refuse a folder in which a file is not as it was written; all are hashed."""
    for name in changes(folder, always=True).changed:
        check(folder / name, always=True)


def written_at(path: Path) -> float | None:
    """When a file was last written, in seconds since 1970; a copied folder keeps it. None: no manifest speaks of it."""
    folder = _folder_of(path)
    entries = _read(folder).get(_relative(path, folder)) if folder else None
    return entries[-1].mtime / 1e9 if entries else None


def changes(folder: Path, *, always: bool = False) -> Changes:
    """What differs from the manifest; without one, every file is added."""
    entries, there = _read(folder), dict(_files(folder))
    return Changes(
        tuple(name for name in there if name in entries and not _matches(there[name], entries[name], always)),
        tuple(name for name in there if name not in entries),
        tuple(name for name in entries if name not in there),
    )


def rewrite(folder: Path) -> None:
    """A new manifest of the files as they are now."""
    _write(folder, {name: _entry(path) for name, path in _files(folder)})


def _is_as_written(path: Path, folder: Path, always: bool) -> bool:
    entries = _read(folder).get(_relative(path, folder))
    return entries is None or not path.is_file() or _matches(path, entries, always)


def _matches(path: Path, entries: tuple[Entry, ...], always: bool) -> bool:
    status = path.stat()
    fitting = [entry for entry in entries if entry.size == status.st_size]
    always = always or verifies_everything()
    if any(entry.mtime == status.st_mtime_ns for entry in fitting) and not always:
        return True
    hashed = _hash.__wrapped__ if always else _hash
    return bool(fitting) and hashed(path, status.st_size, status.st_mtime_ns) in {entry.sha256 for entry in fitting}


@lru_cache(maxsize=4096)
def _hash(path: Path, size: int, mtime: int) -> str:
    """Of a file that has not changed since; read once a process."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _entry(path: Path) -> Entry:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        return Entry(status.st_size, status.st_mtime_ns, hashlib.file_digest(file, "sha256").hexdigest())


def _line(name: str, entry: Entry) -> bytes:
    words = {"file": name, "size": entry.size, "mtime": entry.mtime, "sha256": entry.sha256}
    return json.dumps(words, ensure_ascii=True).encode()


def _write(folder: Path, entries: dict[str, Entry]) -> None:
    """The manifest alone: `core.files` writes everything else, and records it here."""
    lines = [json.dumps(HEADER).encode(), *(_line(name, entry) for name, entry in entries.items())]
    aside = folder / f".{NAME}.{uuid.uuid4().hex[:8]}.tmp"
    try:
        with aside.open("wb") as file:
            file.write(b"\n".join(lines))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, folder / NAME)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _folder_of(path: Path) -> Path | None:
    """The nearest folder above a file that has a manifest."""
    above = Path(os.path.abspath(path)).parents[:ABOVE]
    return next((folder for folder in above if os.path.isfile(folder / NAME)), None)


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.abspath(path)).relative_to(folder).as_posix()


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Everything that a manifest speaks of: no hidden files, no links, no folders with a manifest of their own."""
    for place, folders, names in os.walk(folder):
        below = Path(place)
        apart = SEPARATE if below == folder else ()
        folders[:] = sorted(
            name for name in folders if not (name.startswith(".") or name in apart or has_manifest(below / name))
        )
        for name in sorted(names):
            path = below / name
            if not (name.startswith(".") or name == NAME or path.is_symlink()) and path.is_file():
                yield path.relative_to(folder).as_posix(), path


def _read(folder: Path) -> dict[str, tuple[Entry, ...]]:
    if not has_manifest(folder):  # there is none, or a pipe in its place, which would be waited for
        return {}
    status = (folder / NAME).stat()
    return _parse(folder, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=512)
def _parse(folder: Path, size: int, mtime: int) -> dict[str, tuple[Entry, ...]]:
    """The last two lines of each file; what a killed process or a full disk cut off is left out."""
    if size > LARGEST:
        raise UserError(f"{folder / NAME}: more than {LARGEST:,} bytes are too many for a manifest.")
    lines = (folder / NAME).read_bytes().splitlines()
    if not lines or _object(lines[0]).get("manifest") != HEADER["manifest"]:
        raise UserError(f"{folder / NAME}: not a manifest. `conceptlens rehash {shlex.quote(str(folder))}` makes one.")
    entries: dict[str, tuple[Entry, ...]] = {}
    for words in map(_object, lines[1:]):
        name, length, written, sha256 = (words.get(key) for key in ("file", "size", "mtime", "sha256"))
        if isinstance(name, str) and isinstance(length, int) and isinstance(written, int) and isinstance(sha256, str):
            entries[name] = (*entries.get(name, ())[-1:], Entry(length, written, sha256))
    return entries


def _object(line: bytes) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
