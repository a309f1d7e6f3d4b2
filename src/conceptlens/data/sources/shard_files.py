"""Many files that hold many images each: their names from a pattern, and parts of them, here or far away by fsspec."""

import glob
import itertools
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.network import is_offline
from conceptlens.core.regular import check_regular

_RANGE = re.compile(r"\{(\d{1,12})\.\.(\d{1,12})\}|\{([^{}]*,[^{}]*)\}")
MOST = 1_000_000  # files of one pattern
# File systems of fsspec whose files are programs: templates, which earlier versions ran without bounds, and tasks.
REFUSED = {"reference", "dask"}
LARGEST = 2**30  # bytes of an image; of the images in a row group of Parquet, unpacked


def is_remote(name: str) -> bool:
    """Whether a name is an address, as `https://…` or `filecache::s3://…`; `file://…` is one too."""
    return "://" in name


def is_pattern(source: str) -> bool:
    """Whether a source may stand for several files."""
    return is_remote(source) or any(mark in source for mark in "{*?[")


def expand(source: str) -> list[str]:
    """The files of a pattern, in order: `{000..120}` and `{a,b}` as in a shell, `*` for what is there.

    Raises:
        UserError: There are none.
    """
    names: list[str] = []
    for name in _braces(source):
        if len(names) > MOST:
            raise UserError(f"{source}: more than {MOST:,} files cannot be meant.")
        if any(mark in name for mark in "*?["):
            names += _matches(name)
        elif is_remote(name) or os.path.isfile(Path(name).expanduser()):  # False of a name that is too long
            names.append(name if is_remote(name) else str(Path(name).expanduser()))
        else:
            raise UserError(f"{name}: no such file, which {source} names.")
    if not names:
        raise UserError(f"{source}: expected files that fit this pattern, found none.")
    return names


def _braces(source: str) -> Iterator[str]:
    match = _RANGE.search(source)
    if match is None:
        yield source
        return
    first, last, words = match.groups()
    options = (
        words.split(",")
        if words is not None
        else (str(number).zfill(len(first)) for number in itertools.islice(range(int(first), int(last) + 1), MOST + 1))
    )
    for option in options:
        yield from _braces(source[: match.start()] + option + source[match.end() :])


def _matches(name: str) -> list[str]:
    if not is_remote(name):
        return sorted(glob.glob(str(Path(name).expanduser())))
    files, path = _remote(name)
    return sorted(str(files.unstrip_protocol(match)) for match in files.glob(path))


def _remote(name: str) -> tuple[Any, str]:
    """The file system of an address and the path in it."""
    if is_offline() and not name.startswith(("file://", "memory://")):
        raise UserError(
            f"{name}: this run's data is not on this machine, and a command on an existing run does not fetch it by "
            "itself. Add --online if you want that, or name other data with --data."
        )
    return _file_system(name)


@lru_cache(maxsize=4096)
def _file_system(name: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UserError(f"{name}: addresses need fsspec. Install it: pip install 'conceptlens[fsspec]'") from None
    if found := REFUSED & {part.partition("://")[0].lower() for part in name.split("::")}:
        raise UserError(f"{name}: addresses of the kind {found.pop()!r} are not read: such files can run code.")
    try:
        files, path = url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise UserError(f"{name}: this address cannot be read: {error}.") from None
    return files, str(path)


def stamp(name: str) -> str:
    """What changes with a file's content: its size and time, or what its server says."""
    if not is_remote(name):
        status = Path(name).stat()
        return f"{status.st_size} {status.st_mtime_ns}"
    files, path = _remote(name)
    try:
        info = files.info(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: cannot be read: {error or type(error).__name__}.") from None
    return " ".join(str(info.get(key)) for key in ("size", "mtime", "LastModified", "ETag", "etag"))


def open_shard(name: str) -> Any:
    """The file, open for reading."""
    if not is_remote(name):
        check_regular(Path(name))
        return Path(name).open("rb")
    files, path = _remote(name)
    return files.open(path, "rb")


def read_part(name: str, start: int, size: int) -> bytes:
    """Some bytes of a file. Local files are opened each time: that takes microseconds, and no file stays open."""
    if size > LARGEST:
        raise UserError(f"{name}: an image of {size:,} bytes is not read; at most {LARGEST:,} are.")
    try:
        if is_remote(name):
            files, path = _remote(name)
            data = bytes(files.cat_file(path, start=start, end=start + size))
        else:
            with Path(name).open("rb") as file:
                file.seek(start)
                data = file.read(size)
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: cannot be read: {error or type(error).__name__}.") from None
    if len(data) != size:
        raise UserError(f"{name}: expected {size:,} bytes from byte {start:,} on, found {len(data):,}.")
    return data
