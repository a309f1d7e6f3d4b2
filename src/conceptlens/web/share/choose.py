"""Which images go into the file: wrong ones, unsure ones, those that concepts point at, and every class; in turn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any


def choose(
    items: Sequence[Mapping[str, Any]], orders: Mapping[str, Sequence[int]], referred: Iterable[int], most: int
) -> list[int]:
    """Rows of a split, most wanted first.

    Args:
        items: All images of the split, as the server lists them.
        orders: Rows that are `wrong`, surest first, and `uncertain` ones, least sure first; empty if not known.
        referred: Rows that concepts and codes show, best first.
        most: How many.
    """
    known = {item["row"] for item in items}
    queues = [orders.get("wrong", ()), orders.get("uncertain", ()), referred, by_class(items)]
    return list(islice((row for row in in_turn(queues) if row in known), most))


def in_turn(queues: Iterable[Iterable[int]]) -> Iterator[int]:
    """The first of each queue, the second of each, and so on; each number once."""
    seen: set[int] = set()
    for row in chain.from_iterable(zip_longest(*queues)):
        if row is not None and row not in seen:
            seen.add(row)
            yield row


def by_class(items: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    """Rows in turn over the true classes."""
    rows: dict[tuple[str, ...], list[int]] = {}
    for item in items:
        rows.setdefault(tuple(item["truth"] or ()), []).append(item["row"])
    return in_turn(rows.values())


def referred(answers: Iterable[Mapping[str, Any]], split: str) -> Iterator[int]:
    """Rows of the images that concepts and codes show: the best one of each, the second of each, and so on."""
    lists = [
        [each["row"] for each in entry.get(kind, ()) if each["split"] == split]
        for answer in answers
        for entry in _entries(answer)
        for kind in ("patches", "images")
    ]
    return in_turn(lists)


def only(answer: dict[str, Any], split: str, rows: frozenset[int]) -> dict[str, Any]:
    """Concepts or codes that point at no other images than these."""
    for entry in _entries(answer):
        for kind in ("patches", "images"):
            if kind in entry:
                entry[kind] = [each for each in entry[kind] if each["split"] == split and each["row"] in rows]
    return answer


def _entries(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = answer.get("concepts") or answer.get("codes") or []
    return found
