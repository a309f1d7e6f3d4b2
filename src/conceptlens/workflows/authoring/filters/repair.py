"""JSON out of what a language model wrote: fenced, talked around, with trailing commas, cut off; parsed as data only.

Repairs are of form, never of content: nothing is made up that the text does not hold.
"""

import json
import re
from typing import Any

LONGEST = 400_000  # characters looked at
_FENCE = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_TRAILING = re.compile(r",(\s*[\]}])")
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"'})
_CONSTANTS = re.compile(r"(?<![\w\"])(True|False|None)(?![\w\"])")
_WORDS = {"True": "true", "False": "false", "None": "null"}


class Unreadable(Exception):
    """No list of objects could be found; the message says why, for the model that is asked again."""


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of the list in an answer; what is not an object is left out.

    A list may stand alone, in a fence, amid talk, under one key of an object, one object a line, or cut off: then the
    objects that are whole count.
    """
    text = text[:LONGEST].lstrip("\ufeff").strip()
    if not text:
        raise Unreadable("the answer was empty")
    for piece in [*_FENCE.findall(text), text]:
        for form in (piece, _mended(piece)):
            found = _listed(_parse(_bracketed(form)))
            if found:
                return found
    found = _whole_objects(_mended(text))
    if found:
        return found
    raise Unreadable("the answer held no JSON list of objects")


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _listed(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list) and each and isinstance(each[0], dict)]
        value = lists[0] if len(lists) == 1 else [value] if not lists else []
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _bracketed(text: str) -> str:
    """From the first bracket to the last one that could close it."""
    starts = [place for place in (text.find("["), text.find("{")) if place >= 0]
    if not starts:
        return ""
    start = min(starts)
    end = text.rfind("]" if text[start] == "[" else "}")
    return text[start : end + 1] if end > start else ""


def _mended(text: str) -> str:
    plain = text.translate(_QUOTES)
    plain = _CONSTANTS.sub(lambda found: _WORDS[found[1]], plain)
    return _TRAILING.sub(r"\1", plain)


def _whole_objects(text: str) -> list[dict[str, Any]]:
    """Objects that are whole, wherever they stand: of a list that was cut off, or one a line."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    place, failed = text.find("{"), 0
    while place >= 0 and failed < 200:  # text made to be slow to read is given up on
        try:
            value, place = decoder.raw_decode(text, place)
            if isinstance(value, dict):
                found += _listed(value)
        except (ValueError, RecursionError):
            place, failed = place + 1, failed + 1
        place = text.find("{", place)
    return found
