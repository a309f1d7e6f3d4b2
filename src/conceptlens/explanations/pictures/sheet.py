"""Contact sheets: small pictures in rows, words above and below. Pillow alone, for speed."""

import importlib.util
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from conceptlens.explanations.pictures.colors import SIGNED_TABLE, TABLE, rgb, stripes

GAP = 12
INK, FAINT, PAPER = (25, 25, 25), (95, 95, 95), (255, 255, 255)
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


@dataclass(frozen=True)
class Tile:
    """A picture with a few lines under it; the first is darker."""

    picture: Image.Image
    lines: Sequence[str]


@dataclass(frozen=True)
class Key:
    """A color and what it stands for."""

    color: str
    words: str


@cache
def font(size: int) -> Font:
    """DejaVu Sans, which matplotlib brings along and which has many alphabets; Pillow's own font otherwise."""
    found = importlib.util.find_spec("matplotlib")
    if found is not None and found.origin:
        file = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        if file.exists():
            return ImageFont.truetype(str(file), size)
    return ImageFont.load_default(size)


def wrap(words: str, width: float, size: int, most: int = 99) -> list[str]:
    """Lines no wider than `width` pixels, at most so many; what is left out is marked by an ellipsis."""
    face = font(size)
    lines: list[str] = []
    line = ""
    for word in words.split():
        longer = f"{line} {word}".strip()
        if line and face.getlength(longer) > width:
            lines.append(line)
            line = word
        else:
            line = longer
    lines.append(line)
    cut = len(lines) > most
    return [_fit(each, width, face, cut and number == most - 1) for number, each in enumerate(lines[:most])]


def _fit(line: str, width: float, face: Font, more: bool) -> str:
    if not more and face.getlength(line) <= width:
        return line
    while line and face.getlength(f"{line}…") > width:
        line = line[:-1]
    return f"{line}…"


def sheet(
    heading: str,
    words: Sequence[str],
    tiles: Sequence[Tile],
    notes: Sequence[str],
    *,
    columns: int = 4,
    keys: Sequence[Key] = (),
    bar: bool = False,
    signed: bool = False,
) -> Image.Image:
    """Tiles in rows.

    Args:
        heading: One line in larger letters.
        words: Paragraphs below it.
        tiles: Pictures of one size.
        notes: Paragraphs in small letters at the end.
        columns: Tiles in a row.
        keys: A legend.
        bar: Whether to show the color map, from 0 to the largest value.
        signed: Whether to show that of evidence, about 0.
    """
    side = tiles[0].picture.width
    columns = max(2, min(columns, len(tiles)))
    width = columns * (side + GAP) + GAP
    inner = width - 2 * GAP
    told = [(12, line) for paragraph in words for line in wrap(paragraph, inner, 12)]
    head = [(16, line) for line in wrap(heading, inner, 16, 2)]
    under = [
        [line for number, entry in enumerate(tile.lines) for line in wrap(entry, side, 11, 2 if number == 0 else 3)]
        for tile in tiles
    ]
    rows = [range(start, min(start + columns, len(tiles))) for start in range(0, len(tiles), columns)]
    tall = [side + 4 + 14 * max(len(under[place]) for place in row) + GAP for row in rows]
    per_row = max(1, inner // 310)
    small = [(10, line) for note in notes for line in wrap(note, inner, 10)]
    height = (
        GAP + 21 * len(head) + 16 * len(told) + GAP + sum(tall)
        + 16 * -(-len(keys) // per_row) + 22 * (bar + signed) + 13 * len(small) + GAP
    )  # fmt: skip
    page = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(page)
    y = GAP
    for size, line in head:
        draw.text((GAP, y), line, INK, font(size))
        y += 21
    for size, line in told:
        draw.text((GAP, y), line, INK, font(size))
        y += 16
    y += GAP
    for row, space in zip(rows, tall, strict=True):
        for column, place in enumerate(row):
            x = GAP + column * (side + GAP)
            page.paste(tiles[place].picture, (x, y))
            for number, line in enumerate(under[place]):
                draw.text((x, y + side + 4 + 14 * number), line, INK if number == 0 else FAINT, font(11))
        y += space
    for number, key in enumerate(keys):
        x = GAP + number % per_row * (inner // per_row)
        top = y + 16 * (number // per_row)
        draw.rectangle((x, top + 2, x + 11, top + 13), rgb(key.color))
        draw.text((x + 17, top), wrap(key.words, inner // per_row - 24, 11, 1)[0], INK, font(11))
    y += 16 * -(-len(keys) // per_row)
    if signed:
        draw.text((GAP, y + 2), "takes away", FAINT, font(11))
        page.paste(_signed_bar(), (GAP + 70, y + 3))
        draw.text((GAP + 236, y + 2), "adds, in logits, as far as each map's largest amount", FAINT, font(11))
        y += 22
    if bar:
        draw.text((GAP, y + 2), "0", FAINT, font(11))
        page.paste(Image.fromarray(TABLE[None]).resize((160, 12), Image.Resampling.NEAREST), (GAP + 14, y + 3))
        draw.text((GAP + 180, y + 2), "the map's largest value", FAINT, font(11))
        y += 22
    for size, line in small:
        draw.text((GAP, y), line, FAINT, font(size))
        y += 13
    return page


def _signed_bar() -> Image.Image:
    """The colors of evidence, in stripes below 0 as over a picture."""
    colors = np.repeat(SIGNED_TABLE[np.linspace(0, 255, 160).round().astype(np.intp)][None], 12, axis=0)
    colors[:, :80][stripes(12, 80)] = PAPER
    return Image.fromarray(colors)


def png(picture: Image.Image) -> bytes:
    """A PNG, packed lightly: pictures of photographs hardly get smaller by more."""
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()
