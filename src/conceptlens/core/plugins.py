"""Code that does not come with the package: `file.py:Class` or `package.module:Class`, and who may have it run.

Naming code runs it, so only the user may: on the command line, or in a recipe that the user passes. A run folder may
come from a stranger; what it names is refused until the user allows it.
"""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from conceptlens.core.errors import UserError, did_you_mean

_CODE = re.compile(r"(?P<place>.+\.py|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<name>[A-Za-z_]\w*)", re.DOTALL)
NO_CODE = "CONCEPTLENS_NO_CODE"
LARGEST = 2**24  # bytes of a file with code
_allowed: set[str] = set()  # absolute paths of files, and names of modules


@dataclass(frozen=True)
class Code:
    """What a word such as `file.py:Class` names."""

    place: str  # a file by its absolute path, or a module by its name
    name: str  # of the class or function in it

    @property
    def is_file(self) -> bool:
        return self.place.endswith(".py")

    @property
    def allowed(self) -> bool:
        """Whether the user named it, or a package that it is in."""
        if self.is_file:
            return self.place in _allowed
        parts = self.place.split(".")
        return any(".".join(parts[:depth]) in _allowed for depth in range(1, len(parts) + 1))

    def __str__(self) -> str:
        return f"{self.place}:{self.name}"


def is_code(word: str) -> bool:
    """Whether a name in a recipe is `file.py:Class` or `package.module:Class`."""
    return _CODE.fullmatch(word) is not None


def parse_code(word: str, folder: str | Path = ".") -> Code:
    """What a word names; the path of a file starts from `folder`."""
    match = _CODE.fullmatch(word)
    if match is None:
        raise UserError(f"{word!r}: expected path/to/file.py:NAME or package.module:NAME.")
    place = match["place"]
    if place.endswith(".py"):
        place = str((Path(folder) / Path(place).expanduser()).resolve())
    return Code(place, match["name"])


def allow_code(path_or_module: str | Path) -> None:
    """Let run folders that name this code have it run, for as long as this process lasts.

    Args:
        path_or_module: A Python file, or the name of a module or package; a class after a colon is left aside.

    >>> import conceptlens as cl
    >>> from pathlib import Path
    >>> _ = Path("peak.py").write_text("class Peak: ...", "utf-8")
    >>> cl.allow_code("peak.py")
    """
    word = str(path_or_module)
    place = parse_code(word).place if is_code(word) else word
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise UserError(f"--allow-code {path}: no such file.")
        place = str(path)
    elif not all(part.isidentifier() for part in place.split(".")):
        raise UserError(f"--allow-code {word}: expected a Python file or the name of a module, such as package.module.")
    _allowed.add(place)


def allowed_code() -> list[str]:
    """Files and modules that may run, to be handed to another process."""
    return sorted(_allowed)


def add_allowed_code(places: Iterable[str]) -> None:
    """Take over what `allowed_code` returned in the process that started this one."""
    _allowed.update(places)


def trust(word: str) -> None:
    """The user named this code: it may run; unless nobody names any, as in jobs that a page started."""
    if not os.environ.get(NO_CODE):
        _allowed.add(parse_code(word).place)


def check_code(words: Iterable[str], where: str | Path) -> None:
    """Refuse code that the user has not named.

    Args:
        words: As `file.py:Class`.
        where: What names them: a run folder, whose `run.json` says which files it used, or a file.
    """
    for code in map(parse_code, words):
        if not code.allowed:
            raise _refusal(code, where)


def _refusal(code: Code, where: str | Path) -> UserError:
    from conceptlens.core.files import read_json  # `import conceptlens` stays instant

    kept = Path(where) / "run.json"
    records = read_json(kept).get("code", []) if kept.is_file() else []
    record = next((row for row in records if isinstance(row, Mapping) and row.get("name") == str(code)), None)
    detail = ""
    if record is not None:
        path, before = Path(str(record.get("path"))), str(record.get("sha256"))
        now = "is not here" if not path.is_file() else "is unchanged" if _sha256(path) == before else "HAS CHANGED"
        detail = f" The run used {path} (sha256 {before[:16]}…), which {now}{' since' if path.is_file() else ''}."
    return UserError(
        f"{where}: wants to run code that does not come with conceptlens: {code}.{detail} A run folder may not have "
        f"code run by itself. If you trust this code, allow it: `--allow-code {code.place}` on the command line, "
        f"`conceptlens.allow_code({code.place!r})` in Python."
    )


def load_object(word: str) -> Any:
    """The class or function that `file.py:NAME` or `package.module:NAME` names; runs its file.

    Raises:
        UserError: The user has not allowed it, it is not there, or its file cannot be run.
    """
    code = parse_code(word)
    if not code.allowed:
        raise _refusal(code, word)
    module = _load_file(Path(code.place)) if code.is_file else _load_module(code.place)
    if not hasattr(module, code.name):
        known = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise UserError(f"{code.place} has no {code.name!r}. {did_you_mean(code.name, known)}")
    return getattr(module, code.name)


def code_records(words: Iterable[str]) -> list[dict[str, str]]:
    """For `run.json`: the files of loaded code, and what was in them."""
    records = []
    for code in map(parse_code, words):
        path = Path(code.place if code.is_file else sys.modules[code.place].__file__ or "")
        records.append({"name": str(code), "path": str(path), "sha256": _sha256(path) if path.is_file() else ""})
    return records


def _sha256(path: Path) -> str:
    with path.open("rb") as file:  # a run may name any file of this machine, of any size
        return hashlib.sha256(file.read(LARGEST)).hexdigest()


def _load_module(name: str) -> ModuleType:
    try:
        return import_module(name)
    except UserError:
        raise
    except Exception as error:  # anything may happen in a stranger's code; it is theirs to mend
        raise UserError(f"{name} cannot be imported: {type(error).__name__}: {error}.") from error


def _load_file(path: Path) -> ModuleType:
    """The file as a module, run once for each content: a class stays the same class."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Your own code is named as path/to/file.py:NAME.")
    name = f"conceptlens_own_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    digest = _sha256(path)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__sha256__", None) == digest:
        return known
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))  # what it imports from beside itself
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{path} cannot be run: {type(error).__name__}: {error}.") from error
    finally:
        sys.path.remove(str(path.parent))
    module.__dict__["__sha256__"] = digest
    return module
