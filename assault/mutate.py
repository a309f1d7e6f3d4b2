"""Seeded damage to files: what rots, what people and programs edit, what a stranger might send."""

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    -1e26,
    float("nan"),
    float("inf"),
    2**70,
    "",
    "x" * 5000,
    "=1+1",
    "../..",
    [],
    {},
    [[]],
    {"a": {}},
)
WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"-",
    b"\xe2\x80\xae",
    b"{",
    b"]",
    b'"',
    b"\n\n",
    b": ",
    b"&a *a",
    b"!!int x ",
    b"!!set ",
    b"0b_",
)


def flip(data: bytes, draw: random.Random) -> bytes:
    """A few other bits."""
    changed = bytearray(data or b"0")
    for _ in range(draw.choice((1, 1, 3, 20))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data) + 1)]


def insert(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data) + 1)
    return data[:place] + draw.choice(WORDS) * draw.choice((1, 1, 50)) + data[place:]


def repeat(data: bytes, draw: random.Random) -> bytes:
    """A piece again: rows or keys that come twice."""
    first, last = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first:last] * draw.choice((1, 2, 30)) + data[last:]


def zero(data: bytes, draw: random.Random) -> bytes:
    """Zeros where a disk lost a block."""
    first, last = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return data[:first] + bytes(last - first) + data[last:]


def nest(data: bytes, draw: random.Random) -> bytes:
    """Deeper than any reader recurses."""
    depth = draw.choice((60, 2000, 200_000))
    return draw.choice(
        (
            b"[" * depth + b"]" * depth,
            b'{"a":' * depth + b"1" + b"}" * depth,
            b'{"schema": 3, "status": ' + b"[" * depth,
        )
    )


def replace_all(data: bytes, draw: random.Random) -> bytes:
    return draw.choice((b"", b"[]", b"{}", b"null", b"0", b'"x"', draw.randbytes(200), b"\n" * 1000))


def edit_json(data: bytes, draw: random.Random) -> bytes:
    """Another value, a missing key or a new one somewhere in a JSON document; other files are flipped."""
    try:
        tree = json.loads(data)
    except ValueError:
        return flip(data, draw)
    places = list(_places(tree))
    if not places:
        return replace_all(data, draw)
    holder, key = draw.choice(places)
    action = draw.randrange(4)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[str(draw.choice(ODD))[:50]] = draw.choice(ODD)
    elif action == 2 and isinstance(holder, list):
        draw.shuffle(holder)
    else:
        holder[key] = draw.choice(ODD)
    return json.dumps(tree, ensure_ascii=False).encode()


def edit_tensors(data: bytes, draw: random.Random) -> bytes:
    """Another header of a safetensors file: sizes, types and places that do not fit; other files are flipped."""
    try:
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
    except (struct.error, ValueError, OverflowError):
        return flip(data, draw)
    changed = edit_json(json.dumps(header).encode(), draw)
    length = draw.choice((len(changed), len(changed), 2**63, 0, size))
    return struct.pack("<Q", length) + changed + data[8 + size :]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    cut,
    insert,
    repeat,
    zero,
    nest,
    replace_all,
    edit_json,
    edit_json,
    edit_tensors,
)


def mutate_file(path: Path, draw: random.Random) -> str:
    """Damage a file in its place; returns in words what was done."""
    fate = draw.random()
    if fate < 0.1:
        path.unlink()
        if fate < 0.03:
            os.mkfifo(path)
            return f"{path.name}: a pipe in its place"
        if fate < 0.06:
            path.mkdir()
            return f"{path.name}: a folder in its place"
        return f"{path.name}: removed"
    data = path.read_bytes()
    mutation = draw.choice(MUTATIONS)
    changed = mutation(data, draw)
    path.write_bytes(changed)
    return f"{path.name}: {mutation.__name__}" if changed != data else f"{path.name}: written again as it was"


def _places(tree: Any) -> Any:
    """Every entry below a JSON document as (holder, key)."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in list(items):
            yield node, key
            waiting.append(value)
