"""`annotations.jsonl` of a result folder: names, groups, tags and notes that people gave on the page.

A line is what one person said at one time: of which things (nodes of a graph, codes, tokens, images, the run itself),
and their name, group or note. A field that is null stays as it was; an empty one removes it. Lines are only ever added,
and of two about the same thing the later one counts.
"""

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, get_args

from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_json, read_checked, read_text, write_text
from conceptlens.core.locks import lock_file

FILE = "annotations.jsonl"
Kind = Literal["node", "code", "token", "image", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FIELDS = ("name", "group", "note")
MOST = 20_000_000  # characters of a file
LARGEST = 4 * MOST  # bytes
_AUTHOR = re.compile(r"[^\W_][\w .'@-]{0,79}")  # letters of any alphabet
_writing = threading.Lock()


@dataclass(frozen=True)
class Annotation:
    """What is said of one thing by now, by whom and when."""

    name: str = ""
    group: str = ""  # of an image or a run: its tag
    note: str = ""
    author: str = ""
    time: str = ""

    @property
    def called(self) -> str:
        """The name, with the group before it."""
        return ": ".join(filter(None, (self.group, self.name)))


Annotations = dict[Kind, dict[str, Annotation]]


def read_annotations(folder: Path) -> Annotations:
    """What people said of a folder's things, by kind and by the thing's own name; empty where there is no file.

    Raises:
        UserError: The file is damaged.
    """
    known: Annotations = {kind: {} for kind in KINDS}
    path = folder / FILE
    if not path.exists():
        return known
    # Names may hold what other systems take for a line break.
    lines = read_checked(path, LARGEST).decode("utf-8", "replace").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            row = parse_json(line)
            kind, things, author, time = row["kind"], row["of"], str(row["author"]), str(row["time"])
            fields = {name: str(row[name]) for name in FIELDS if row.get(name) is not None}
            for thing in map(str, things):
                before = asdict(known[kind].get(thing, Annotation()))
                known[kind][thing] = Annotation(**{**before, **fields, "author": author, "time": time})
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UserError(f"{path}: line {number} is damaged ({type(error).__name__}: {error}).") from None
    return {kind: {of: said for of, said in things.items() if any(map(said.__getattribute__, FIELDS))}
            for kind, things in known.items()}  # fmt: skip


def annotate(
    folder: Path,
    kind: Kind,
    of: Sequence[str],
    *,
    author: str,
    name: str | None = None,
    group: str | None = None,
    note: str | None = None,
) -> Annotations:
    """Say something of some things; returns all that is said by now.

    Raises:
        UserError: The author has no name, nothing is said, or the file is full.
    """
    author = author.strip()
    if not _AUTHOR.fullmatch(author):
        raise UserError("author: expected a name of letters, digits, spaces, . _ - ' @ that begins with a letter.")
    if name is None and group is None and note is None:
        raise UserError("Expected a name, a group or a note; found none.")
    row = {
        "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "author": author,
        "kind": kind,
        "of": list(of),
        "name": _clean(name),
        "group": _clean(group),
        "note": _clean(note),
    }
    path = folder / FILE
    with _writing, _locked(path):
        before = read_text(path) if path.exists() else ""
        text = before + json.dumps(row, ensure_ascii=False) + "\n"
        if len(text) > MOST:
            raise UserError(f"{path}: full, {MOST:,} characters. Move it elsewhere.")
        write_text(path, text)
    return read_annotations(folder)


def _clean(text: str | None) -> str | None:
    """One line without control characters."""
    return None if text is None else " ".join("".join(c if c.isprintable() else " " for c in text).split())


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        with lock_file(path.with_name(f".{path.name}.lock"), wait=True):
            yield
    except OSError as error:
        raise UserError(f"{path.parent}: cannot be written to ({error.strerror}).") from None
