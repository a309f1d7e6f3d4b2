"""Words as people write them: capitals, spaces, underscores and hyphens do not matter, a blank means unknown."""

import re
from collections.abc import Iterable, Mapping

_GAPS = re.compile(r"[\s_\-]+")
_MISSING = frozenset({"", "na", "n/a", "n.a.", "nan", "null", "?", "unknown", "unbekannt", "k.a.", "inconnu"})
_YES = frozenset({"1", "1.0", "yes", "y", "true", "t", "ja", "oui", "si", "sí", "sì"})
_NO = frozenset({"0", "0.0", "no", "n", "false", "f", "nein", "non"})
LIST_SEPARATOR = ";"
NONE_OF_THEM = "none"  # in a list: it is known that nothing holds, which a blank does not say


def fold(word: str) -> str:
    """The word without what does not matter."""
    return _GAPS.sub(" ", word.strip().casefold()).strip()


def printable(name: str) -> str:
    """A file's name with `?` for bytes that are not UTF-8, as disks of other days have them."""
    return name.encode("utf-8", "replace").decode("utf-8")


def is_missing(word: str) -> bool:
    """Whether a cell says that its value is not known."""
    return fold(word) in _MISSING


def yes_no(word: str) -> bool | None:
    """True, False, or None for a word that is neither."""
    folded = fold(word)
    return True if folded in _YES else False if folded in _NO else None


def match(word: str, options: Iterable[str]) -> list[str]:
    """The options that a word may stand for: the one spelled like it, or else all that differ in trifles."""
    known = list(options)
    return [word] if word in known else [option for option in known if fold(option) == fold(word)]


def match_value(word: str, values: Mapping[str, int]) -> int | None:
    """The number of the value that a cell names, None if it names none or could be either of two.

    Two values called yes and no are also met as 1 and 0 or true and false, a number also as 3.0.
    """
    found = match(word, values)
    if not found and {fold(value) for value in values} == {"yes", "no"}:
        answer = yes_no(word)
        found = [] if answer is None else match("yes" if answer else "no", values)
    if not found and re.fullmatch(r"-?\d+\.0+", word.strip()):
        found = match(word.strip().split(".")[0], values)
    return values[found[0]] if len(found) == 1 else None
