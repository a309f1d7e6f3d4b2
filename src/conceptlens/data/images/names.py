"""Which file a word in a table or in another file's name stands for."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

_WORD = re.compile(r"[a-z]+|\d+")
_NUMBER = re.compile(r"\d{1,255}")  # no file has a longer name
_FRACTION = re.compile(r"\d+\.\d*[1-9]\d*")


def words_of(path: str) -> list[str]:
    """The words of a path in lower case: `a. Training Set/IDRiD_01` has a, training, set, idrid and 01."""
    return _WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", path).lower())


def _number(stem: str) -> str:
    """A key that no path has: a spreadsheet takes the zeros from `007`."""
    return f"/{int(stem)}"


class FileNames:
    """Files that can be found by path, by name, or by name without suffix; numbers also without their leading zeros.

    Of several files with the same name, the one is meant whose folders share most words with the place that names it:
    `Training Labels.csv` speaks of `Training Set/001.jpg`, not of `Testing Set/001.jpg`.
    """

    def __init__(self, files: Iterable[str]) -> None:
        self._known: dict[str, list[str]] = defaultdict(list)
        self._folder_words: dict[str, frozenset[str]] = {}
        self._deepest = 1  # parts of a path; a cell of a table may have any number
        for file in files:
            path = PurePosixPath(file)
            self._deepest = max(self._deepest, len(path.parts))
            for word in {file, str(path.with_suffix("")), path.name, path.stem}:
                self._known[word.casefold()].append(file)
            if _NUMBER.fullmatch(path.stem):
                self._known[_number(path.stem)].append(file)

    def find(self, word: str, near: str = "") -> str | None:
        """The file, None if there is none or if two fit equally well.

        Args:
            word: A path or a name, with or without suffix; folders that are not here are ignored.
            near: The path of what holds the word.
        """
        path = PurePosixPath(word.strip().replace("\\", "/"))
        if not path.name:
            return None
        measured = _FRACTION.fullmatch(path.name) is not None  # 7.5 is a number, not the file 7 with a suffix
        names: list[str] = []
        for tail in (path.parts[-length:] for length in range(min(self._deepest, len(path.parts)), 0, -1)):
            shorter = PurePosixPath(*tail)
            names += [str(shorter)] if measured else [str(shorter), str(shorter.with_suffix(""))]
        if _NUMBER.fullmatch(path.stem) and not measured:
            names.append(_number(path.stem))
        for name in names:
            if files := self._known.get(name.casefold()):
                return files[0] if len(files) == 1 else self._nearest(files, f"{near}/{path.parent}")
        return None

    def _nearest(self, files: list[str], near: str) -> str | None:
        wanted = frozenset(words_of(near))
        shared = [len(wanted & self._words(file)) for file in files]
        best = [file for file, count in zip(files, shared, strict=True) if count == max(shared)]
        return best[0] if len(best) == 1 else None

    def _words(self, file: str) -> frozenset[str]:
        folder = str(PurePosixPath(file).parent)
        if folder not in self._folder_words:
            self._folder_words[folder] = frozenset(words_of(folder))
        return self._folder_words[folder]
