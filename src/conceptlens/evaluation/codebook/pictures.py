"""The pictures of an audit: nearest patches, codes among tokens (Figure 9), index maps (Figures 8 and 10)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageDraw

from conceptlens.core.figures import new_figure
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import Fit, resize_square
from conceptlens.evaluation.codebook.document import Code, Codebook, Projection
from conceptlens.explanations.codes import UNNAMED
from conceptlens.explanations.document import CodeName, Reference
from conceptlens.explanations.maps.patch_maps import index_map
from conceptlens.explanations.pictures.colors import rgb
from conceptlens.explanations.pictures.overlay import index_overlay
from conceptlens.explanations.pictures.sheet import Key, Tile, sheet
from conceptlens.explanations.reference import Background

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 3  # patches in a row and in a column of a code's tile
PIECE = 60
GAP = 6
AROUND = 3  # cells that a piece shows in each direction
SEEN = 336  # side in pixels at which images are cut
MAP_SIDE = 192


def name_of(code: Code) -> str:
    """The name of a code: its sure match by co-assignment, else by labels."""
    return code.concepts.get("co-assignment") or code.concepts.get("labels") or UNNAMED


def patch_sheet(codebook: Codebook, source: DataSource, fit: Fit, grid: tuple[int, int]) -> Image.Image:
    """A tile for each code with the patches nearest to it, each of another image, framed in its surroundings."""
    place = {name: index for index, name in enumerate(source.examples.ids)}
    tiles = []
    for code in codebook.codes:
        side = ACROSS * PIECE + (ACROSS - 1) * GAP
        tile = Image.new("RGB", (side, side), (238, 238, 238))
        for number, near in enumerate(code.near[: ACROSS**2]):
            piece = cut(source, place[near.image], fit, grid, near.row, near.column)
            tile.paste(piece, (number % ACROSS * (PIECE + GAP), number // ACROSS * (PIECE + GAP)))
        words = ", ".join(code.kinds)
        share = f"{code.share.value or 0:.1%} of patches, {code.images} images"
        tiles.append(Tile(tile, [f"{code.code}: {name_of(code)}", share, words]))
    note = (
        "Each tile holds the patches nearest to one code, framed, nearest first, at most one from an image. The "
        "name is the concept it is matched with, where the match is sure."
    )
    return sheet("Codes", [], tiles, [note], columns=6)


def cut(
    source: DataSource, index: int, fit: Fit, grid: tuple[int, int], row: int, column: int, size: int = PIECE
) -> Image.Image:
    """The surroundings of a patch, with the patch framed."""
    pixels = resize_square(source.read_at_least(index, SEEN), SEEN, fit)
    h, w = grid
    across, down = SEEN / w, SEEN / h
    reach = max(AROUND * max(across, down), SEEN / 4) / 2
    x, y = (column + 0.5) * across, (row + 0.5) * down
    left, top = (min(max(center - reach, 0), SEEN - 2 * reach) for center in (x, y))
    picture = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    piece = picture.crop((round(left), round(top), round(left + 2 * reach), round(top + 2 * reach)))
    piece = piece.resize((size, size), Image.Resampling.LANCZOS)
    scale = size / (2 * reach)
    box = [(x - across / 2 - left) * scale, (y - down / 2 - top) * scale]
    box += [box[0] + across * scale - 1, box[1] + down * scale - 1]
    draw = ImageDraw.Draw(piece)
    draw.rectangle(box, outline=(255, 255, 255))
    draw.rectangle([box[0] - 1, box[1] - 1, box[2] + 1, box[3] + 1], outline=(0, 0, 0))
    return piece


def index_sheet(
    codebook: Codebook,
    maps: Mapping[int, npt.NDArray[np.int64]],
    source: DataSource,
    fit: Fit,
    grid: tuple[int, int],
    *,
    opacity: float = 0.6,
) -> Image.Image:
    """Images and, beside each, its patches in the colors of their codes."""
    named = [
        CodeName(
            code=each.code,
            name=name_of(each),
            level=None if name_of(each) == UNNAMED else "concept",
            confidence=None,
            chance=None,
            sampled=each.patches,
        )
        for each in codebook.codes
    ]
    background = Background(Reference(what="average image", images=1, split=None), np.zeros(0), named)
    tiles: list[Tile] = []
    used: dict[int, int] = {}
    for index, codes in maps.items():
        pixels = resize_square(source.read_at_least(index, MAP_SIDE), MAP_SIDE, fit)
        picture = Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        drawn = index_map(torch.from_numpy(codes), grid, background)
        label = source.examples.labels[index]
        truth = source.classes[int(label)] if np.ndim(label) == 0 and label >= 0 else ""
        tiles.append(Tile(picture, [source.examples.ids[index], truth]))
        tiles.append(Tile(index_overlay(picture, drawn, opacity), ["nearest code of each patch"]))
        for entry in drawn.legend:
            used[entry.code] = used.get(entry.code, 0) + entry.patches
    keys = [
        Key(codebook.codes[code].color, f"{code}: {name_of(codebook.codes[code])}")
        for code in sorted(used, key=lambda each: -used[each])
    ]
    kind = (
        "implicit: the model sees the tokens" if codebook.kind == "implicit" else "explicit: the model sees the codes"
    )
    note = f"Quantization is {kind}. Gray codes have no sure match with a concept."
    return sheet("Index maps", [], tiles, [note], columns=6, keys=keys)


def codes_figure(codebook: Codebook) -> "Figure":
    """Codes among a sample of tokens: a row for each method, in two and in three dimensions."""
    by_method: dict[str, list[Projection]] = {}
    for each in codebook.projections:
        by_method.setdefault(each.method, []).append(each)
    figure = new_figure(11, 5 * len(by_method), dpi=100)
    for row, (method, found) in enumerate(by_method.items()):
        for column, dimensions in enumerate((2, 3)):
            best = next((each for each in found if each.dimensions == dimensions), found[-1])
            if best.dimensions < dimensions:
                continue
            axes: Any = figure.add_subplot(
                len(by_method), 2, 2 * row + column + 1, projection="3d" if dimensions == 3 else None
            )
            _scatter(axes, codebook, best, dimensions)
            axes.set_title(f"{method}, {dimensions} dimensions", fontsize=10)
    return figure


def _scatter(axes: Any, codebook: Codebook, found: Projection, dimensions: int) -> None:
    colors = [tuple(part / 255 for part in rgb(each.color)) for each in codebook.codes]
    patches, codes = np.array(found.patches), np.array(found.codes)
    if len(patches):
        shown = [colors[code] for code in found.patch_codes]
        axes.scatter(*patches[:, :dimensions].T, c=shown, s=5, alpha=0.35, linewidths=0)
    axes.scatter(*codes[:, :dimensions].T, c=colors, s=60, marker="X", edgecolors="black", linewidths=0.8)
    if dimensions == 2:
        for each, point in zip(codebook.codes, codes, strict=True):
            axes.annotate(str(each.code), point[:2], fontsize=7, xytext=(4, 3), textcoords="offset points")
    if found.explained is not None:
        names = [f"{share:.0%} of the variance" for share in found.explained[:dimensions]]
        for setter, name in zip(("set_xlabel", "set_ylabel", "set_zlabel"), names, strict=False):
            getattr(axes, setter)(name, fontsize=8)


def groups_figure(groups: Sequence[Any], measure: str) -> "Figure | None":
    """One measure of every group with its interval; None without groups."""
    rows = [(each, each.measure(measure)) for each in groups if each.measure(measure) is not None]
    rows = [(each, found) for each, found in rows if found.value.value is not None]
    if not rows:
        return None
    figure = new_figure(8, 0.8 + 0.28 * len(rows), dpi=100)
    axes = figure.subplots()
    for place, (_, found) in enumerate(rows):
        bad = found.p is not None and found.p < 0.05
        color = "#d55e00" if bad else "#0072b2"
        if found.value.interval is not None:
            axes.plot(found.value.interval, [place, place], color=color, linewidth=2)
        axes.plot([found.value.value], [place], "o", color=color, markersize=5)
    axes.set_yticks(range(len(rows)), [f"{each.column}: {each.group} ({each.images})" for each, _ in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(f"{measure} (orange: differs from the rest beyond chance, corrected)")
    return figure
