"""Files that are whole or not there: written aside, flushed, then renamed. Reading never runs code."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from conceptlens.core.errors import UserError
from conceptlens.core.upgrades import SCHEMA, upgrade

MAX_YAML = 5_000_000  # characters
MAX_DEPTH = 50  # levels of nesting in YAML


def _flush_folder(folder: Path) -> None:
    """Make a rename durable; not every file system allows opening a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """UTF-8, compressed where the name ends in `.gz`: without a time stamp, so that equal texts are equal files."""
    data = text.encode("utf-8")
    write_bytes(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read_text(path: Path) -> str:
    """UTF-8, decompressed where the name ends in `.gz`."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")


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


def read_json(path: Path) -> Any:
    try:
        value = json.loads(read_text(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file.") from None
    except (UnicodeDecodeError, json.JSONDecodeError, gzip.BadGzipFile) as error:
        raise UserError(f"{path}: expected JSON, but {error}.") from None
    return upgrade(value, where=str(path))


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
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
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


class _StrictSafeLoader(yaml.SafeLoader):
    """Safe YAML in which only true and false are booleans (`yes`, `no` stay words) and keys are unique."""

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


_BOOL = "tag:yaml.org,2002:bool"
_StrictSafeLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in (_BOOL, "tag:yaml.org,2002:timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_FLOAT = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")  # 1e-4, which YAML 1.1 takes for a word
_StrictSafeLoader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_StrictSafeLoader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|false|False)$"), list("tTfF"))


def parse_yaml(text: str, *, where: str) -> Any:
    """YAML from a stranger: no code, no aliases, errors that name the line."""
    if len(text) > MAX_YAML:
        raise UserError(
            f"{where}: {len(text):,} characters are too many for a YAML file; at most {MAX_YAML:,} are read."
        )
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                raise UserError(f"{where}: nested more than {MAX_DEPTH} levels deep; nothing here needs that.")
            if isinstance(event, yaml.AliasEvent):  # a few nested aliases stand for billions of values
                raise UserError(f"{where}: aliases (*name) are not read; write the values out.")
        return yaml.load(text, Loader=_StrictSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise UserError(f"{where}:{line} is not valid YAML: {problem}.") from None


def read_yaml(path: Path) -> Any:
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file.") from None
    except IsADirectoryError:
        raise UserError(f"{path}: expected a YAML file, found a folder.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8 text, but {error.reason} at byte {error.start}.") from None
    return parse_yaml(text, where=str(path))


def dump_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=120)


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
    place = stored(path)
    return gzip.decompress(place.read_bytes()) if place.suffix == ".gz" else place.read_bytes()


def file_hash(path: Path) -> str:
    """A short hash of a file's content, unpacked where gzip packed it."""
    if stored(path).suffix == ".gz":
        return hashlib.sha256(read_bytes(path)).hexdigest()[:16]
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
