"""Files that are whole or not there: written aside, flushed, then renamed. Reading never runs code."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from conceptlens.core import manifest
from conceptlens.core.errors import UNREADABLE, UserError, unreadable
from conceptlens.core.regular import check_regular
from conceptlens.core.upgrades import SCHEMA, upgrade

MAX_YAML = 5_000_000  # characters
LARGEST = 2**30  # bytes of a JSON file, unpacked
MOST_FOLDERS = 20_000  # in a run folder
LONG_YAML = 100_000
MAX_DEPTH = 50  # levels of nesting in YAML
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a character beyond the first 65,536, as JSON may write it
_HALF_BYTES = re.compile(_HALF.pattern.encode())


def _flush_folder(folder: Path) -> None:
    """Make a rename durable; not every file system allows opening a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: Path, *data: bytes | memoryview) -> None:
    """Write a file whole or not at all: one piece after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with aside.open("wb") as file:
            for piece in data:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        manifest.record(path, aside)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """UTF-8, compressed where the name ends in `.gz`: without a time stamp, so that equal texts are equal files."""
    data = text.encode("utf-8")
    write_bytes(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def check_links(folder: Path) -> None:
    """Refuse a folder with a link that leads out of it: what it points to would be read, shared or written to.

    Of a snapshot in a hub's cache, the files are links to what the cache keeps beside it.
    """
    root = folder.parents[1] if folder.parent.name == "snapshots" else folder
    inside = os.path.realpath(root)
    for seen, (place, folders, files) in enumerate(os.walk(folder)):
        if seen > MOST_FOLDERS:
            raise UserError(f"{folder}: more than {MOST_FOLDERS:,} folders; not a run.")
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(inside):
                raise UserError(
                    f"{path}: a link that leads out of the run folder; it is not followed. If the folder is yours, put "
                    "what it points to in its place."
                )


def read_checked(path: Path, limit: int | None = None) -> bytes:
    """The bytes of a file, unpacked where its name ends in `.gz`; one that its manifest knows otherwise is refused.

    Args:
        path: The file.
        limit: The most bytes that are read.

    Raises:
        UserError: It is no file, too large, or not as it was written.
    """
    manifest.check(path)
    most = LARGEST if limit is None else limit
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data: bytes = file.read(most + 1)
    if len(data) > most:
        raise UserError(f"{path}: more than {most:,} bytes are too many for such a file.")
    return data


def read_text(path: Path) -> str:
    """UTF-8, decompressed where the name ends in `.gz`."""
    return read_checked(path).decode("utf-8")


def stored(path: Path) -> Path:
    """The file itself, or its compressed copy `NAME.gz` where only that is there."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.exists() and not path.exists() else path


def write_json(path: Path, value: Any) -> None:
    """JSON with a schema number. NaN is refused: it is not JSON, and a missing number is `null`."""
    if isinstance(value, dict):
        value = {"schema": SCHEMA, **value}
    layout: dict[str, Any] = {"separators": (",", ":")} if path.suffix == ".gz" else {"indent": 1}
    write_text(path, json.dumps(value, ensure_ascii=False, allow_nan=False, **layout) + "\n")


def parse_json(text: str | bytes, **options: Any) -> Any:
    """JSON from a stranger: as `json.loads`, but halves of characters (`"\\ud800"`) are refused.

    They are no text: whatever says them, on the page or in a file, would fail.
    """
    value = json.loads(text, **options)
    if _HALF.search(text) if isinstance(text, str) else _HALF_BYTES.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # two halves of one character are a character
    return value


def read_json(path: Path, *, as_written: bool = False) -> Any:
    """What a JSON file holds, in this version's words, or in those of the version that wrote it."""
    try:
        value = parse_json(read_text(path))
        return value if as_written else upgrade(value, where=str(path), writer=lambda: writer_of(path))
    except UNREADABLE as error:
        raise unreadable(error, path, "a JSON file") from None
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:  # text or numbers that are none
        raise UserError(f"{path}: expected JSON, but {error}.") from None
    except RecursionError:
        raise UserError(f"{path}: expected JSON, but it is nested too deep; nothing here needs that.") from None


def writer_of(path: Path) -> str | None:
    """The version of conceptlens that made the run in which a file lies; None if the run does not say."""
    for folder in path.parents[:2]:
        with contextlib.suppress(UserError, OSError, ValueError, KeyError, TypeError, RecursionError):
            about = parse_json(read_checked(folder / "environment.json"))
            return str(about["packages"]["conceptlens"])
    return None


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder that appears complete under its name, or not at all; an older one of that name is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    aside.mkdir()
    try:
        yield aside
        for file in aside.rglob("*"):
            if file.is_file():
                with file.open("rb+") as handle:  # Windows flushes only what may be written
                    os.fsync(handle.fileno())
                manifest.record(path / file.relative_to(aside), file)
        if path.exists():
            old = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.old")
            os.replace(path, old)
            os.replace(aside, path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(aside, path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    _flush_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed process left half-written."""
    for entry in folder.glob(".*"):
        if entry.suffix in {".tmp", ".old"}:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink(missing_ok=True)


class _Strict(yaml.constructor.SafeConstructor):
    """Plain decimal numbers, true, false and null have their types, everything else is a word; keys are unique."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (list, dict)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Loader(_Strict, yaml.SafeLoader):
    """Its messages say most."""


class _FastLoader(_Strict, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """For long files: ten times as fast, where PyYAML was built with its C library."""


class _Dumper(yaml.SafeDumper):
    """Quotes words that YAML 1.1 or the loaders above would take for something else; writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_DIGITS = "-+.0123456789"
_TYPES = {  # of a plain word; YAML 1.1 would also take yes for true, 12:30 for 750 and 010 for 8, and 1e-4 for a word
    "merge": ("<<", "<"),
    "null": ("~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": ("true|True|false|False", "tTfF"),
    "int": ("[-+]?(?:0|[1-9][0-9]*)", _DIGITS),
    "float": (
        r"[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))"
        r"|\.(?:nan|NaN|NAN)",
        _DIGITS,
    ),
}
_Loader.yaml_implicit_resolvers, _FastLoader.yaml_implicit_resolvers = {}, {}
for _each in (_Loader, _FastLoader, _Dumper):
    for _name, (_pattern, _first) in _TYPES.items():
        _each.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


def parse_yaml(text: str, *, where: str) -> Any:
    """YAML from a stranger: no code, no tags, no aliases, errors that name the line."""
    if len(text) > MAX_YAML:
        raise UserError(
            f"{where}: {len(text):,} characters are too many for a YAML file; at most {MAX_YAML:,} are read."
        )
    loader = _FastLoader if len(text) > LONG_YAML else _Loader
    try:
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise UserError(f"{where}: nested more than {MAX_DEPTH} levels deep; nothing here needs that.")
            if isinstance(event, yaml.ScalarEvent):
                event.value.encode("utf-8")
            if isinstance(event, yaml.AliasEvent):  # a few nested aliases stand for billions of values
                raise UserError(f"{where}: aliases (*name) are not read; write the values out.")
            if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag not in (None, "!"):
                # Dates, sets and bytes, and words of which what they name cannot be made.
                problem = f"tags ({event.tag}) are not read; write the value without one"
                raise yaml.constructor.ConstructorError(None, None, problem, event.start_mark)  # type: ignore[arg-type]
        return yaml.load(text, Loader=loader)
    except UnicodeEncodeError as error:  # half of a character, as "\\ud800"
        raise UserError(f"{where}: expected text, but {error}.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(f"{where}:{line} is not valid YAML: {problem}.") from None
    except ValueError as error:  # a number of thousands of digits
        raise UserError(f"{where}: expected YAML, but {error}.") from None


def read_yaml(path: Path) -> Any:
    try:
        text = read_checked(path, 4 * MAX_YAML).decode("utf-8")
    except UNREADABLE as error:
        raise unreadable(error, path, "a YAML file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8 text, but {error.reason} at byte {error.start}.") from None
    return parse_yaml(text, where=str(path))


def dump_yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def fingerprint(*parts: bytes | str) -> str:
    """A short content hash, stable across machines."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked where gzip packed it (`NAME.gz` in the place of `NAME`)."""
    return read_checked(stored(path))


def file_hash(path: Path) -> str:
    """A short hash of a file's content, unpacked where gzip packed it."""
    if stored(path).suffix == ".gz":
        return hashlib.sha256(read_bytes(path)).hexdigest()[:16]
    check_regular(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
