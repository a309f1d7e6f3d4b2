"""Tokens of all images of a data set on the device, and everything that is known of places in them.

A recipe's own training reads tokens from a store on disk, image by image, and asks the data for its points anew. Here
hundreds of trainings share them: one pass of the encoder, one reading of the annotations.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.data.dataset import DataSource, Examples
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.regions.object_boxes import read_boxes
from conceptlens.data.regions.part_points import read_points
from conceptlens.data.regions.regions import Regions, read_regions
from conceptlens.data.regions.tables import OBJECT
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits, make_splits
from conceptlens.encoders import make_encoder
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.grounding.places import MarkedPlaces, TrainingImages
from conceptlens.recipes import DataConfig, EncoderConfig, Recipe

RESNET = "resnet50"  # of the lab, with the weights that the built-in encoder learned from: not in the package
BATCH, LOOK = 128, 256
CORES = max(1, min(16, os.cpu_count() or 1))
Grid = tuple[int, int]


@dataclass(frozen=True)
class Known:
    """What people marked in all N images, on a grid of L cells."""

    parts: tuple[str, ...]  # (R,), none where nothing is marked
    points: npt.NDArray[np.float32]  # (N, R, 2): row and column in cells
    seen: npt.NDArray[np.bool_]  # (N, R)
    boxes: npt.NDArray[np.float32]  # (N, L)
    boxed: npt.NDArray[np.bool_]  # (N,)
    judged: Regions | None  # of validation and test images, in this order


@dataclass(frozen=True)
class Labels:
    """A concept set and what it says of the images."""

    concepts: ConceptSet
    examples: Examples


@dataclass(frozen=True)
class Bank:
    """A data set as one encoder sees it."""

    name: str
    source: DataSource
    splits: Splits
    grid: Grid
    known: Known
    tokens: Tensor  # (N, L, D) on the device
    judged: Regions | None = None  # `known.judged` with its arrays on the device

    @property
    def device(self) -> torch.device:
        return self.tokens.device

    def batches(self, rows: npt.NDArray[np.int64], size: int = LOOK) -> Iterator[Tokens]:
        index = torch.from_numpy(rows).to(self.device)
        return (Tokens(self.tokens[index[at : at + size]], self.grid) for at in range(0, len(index), size))

    def training_images(self, seed: int) -> TrainingImages:
        """What a method may see before it trains."""
        train, known = self.splits.train, self.known

        def marked(parts: tuple[str, ...], rows: Tensor) -> MarkedPlaces:
            at, columns = train[rows.numpy()], [known.parts.index(part) for part in parts]
            points, seen = known.points[at][:, columns], known.seen[at][:, columns]
            return MarkedPlaces(parts, torch.from_numpy(points), torch.from_numpy(seen))

        def boxes() -> tuple[Tensor, Tensor]:
            return torch.from_numpy(known.boxes[train]), torch.from_numpy(known.boxed[train])

        return TrainingImages(
            len(train), self.grid, known.parts, marked, boxes, lambda: self.batches(train), seed, lambda text: None
        )


_source: DataSource | None = None  # inherited by forked readers


def _places(task: tuple[str, npt.NDArray[np.int64], tuple[str, ...], dict[str, Any]]) -> Any:
    kind, rows, parts, where = task
    assert _source is not None
    if kind == "regions":
        return read_regions(_source, rows, **where)
    return (*read_points(_source, rows, parts, **where), *read_boxes(_source, rows, **where))


def read_known(source: DataSource, splits: Splits, size: int, grid: Grid, fit: str = "squash") -> Known:
    """All annotations, by as many processes as there are cores: call it before the GPU is touched."""
    global _source  # a forked process inherits it, a pickled one would be opened again
    number, cells = len(source), grid[0] * grid[1]
    parts = tuple(name for name in source.region_names if name != OBJECT)
    where = {"size": size, "fit": fit, "grid": grid}
    if not source.region_names:
        nothing = np.zeros((number, 0), bool)
        return Known(
            (),
            np.zeros((number, 0, 2), np.float32),
            nothing,
            np.zeros((number, cells), np.float32),
            np.zeros(number, bool),
            None,
        )
    _source = source
    judged = np.concatenate((splits.val, splits.test))
    tasks = [("points", rows, parts, where) for rows in np.array_split(np.arange(number), max(1, number // 128))]
    tasks += [("regions", rows, parts, where) for rows in np.array_split(judged, max(1, len(judged) // 64))]
    if CORES > 2 and number > 500:
        with multiprocessing.get_context("fork").Pool(CORES) as pool:
            found = pool.map(_places, tasks, chunksize=1)
    else:
        found = [_places(task) for task in tasks]
    marked = [each for task, each in zip(tasks, found, strict=True) if task[0] == "points"]
    points, seen, boxes, boxed = (np.concatenate(column) for column in zip(*marked, strict=True))
    pieces: list[Regions] = [each for task, each in zip(tasks, found, strict=True) if task[0] == "regions"]
    joined = {
        field.name: np.concatenate([getattr(piece, field.name) for piece in pieces])
        for field in fields(Regions)
        if field.name not in ("parts", "grid")
    }
    return Known(parts, points, seen, boxes, boxed, Regions(pieces[0].parts, grid, **joined))


def each_array(regions: Regions, change: Callable[[Any], Any]) -> Regions:
    held = {field.name: getattr(regions, field.name) for field in fields(Regions)}
    return Regions(**{name: value if name in ("parts", "grid") else change(value) for name, value in held.items()})


def rows_of(regions: Regions, rows: slice) -> Regions:
    """Some images' regions."""
    return each_array(regions, lambda values: values[rows])


def make_bank(
    name: str,
    source: DataSource,
    splits: Splits,
    recipe: Recipe,
    known: Known,
    device: str,
    teachers: Path | None = None,
    store: Path | None = None,
) -> Bank:
    """Encode the images of a source, or read what an earlier process encoded."""
    grid, there = side_of(recipe.encoder), torch.device(device)
    if store is not None and store.exists():
        held = torch.from_numpy(np.load(store, allow_pickle=False)).to(there)
        tokens = held.view(torch.bfloat16) if held.dtype == torch.int16 else held
    else:
        tokens = encode(source, splits, recipe, grid, there, teachers)
        if store is not None:
            held = tokens.view(torch.int16) if tokens.dtype == torch.bfloat16 else tokens  # numpy knows no bfloat16
            part = store.with_suffix(f".{os.getpid()}.part.npy")
            np.save(part, held.cpu().numpy(), allow_pickle=False)
            part.replace(store)  # whole or not at all
    assert tokens.shape[1] == grid[0] * grid[1], (name, tokens.shape, grid)
    regions = (
        None if known.judged is None else each_array(known.judged, lambda value: torch.from_numpy(value).to(there))
    )
    return Bank(name, source, splits, grid, known, tokens, regions)


@torch.no_grad()
def encode(
    source: DataSource, splits: Splits, recipe: Recipe, grid: Grid, device: torch.device, teachers: Path | None
) -> Tensor:
    """Patches of all images, (N, L, D): in bfloat16 on a GPU, in float32 elsewhere; zeros of those in no split."""
    size, name = recipe.encoder.image_size or 0, recipe.encoder.name
    kept = torch.bfloat16 if device.type == "cuda" else torch.float32
    if name == RESNET:
        from pretraining.teachers import load_teacher

        assert teachers is not None, "ResNet50 needs --teachers"
        teacher = load_teacher(RESNET, teachers, size=16 * grid[0], grid_stage=3).to(device)

        def patches(pixels: Tensor) -> Tensor:
            seen: Tensor = teacher(pixels.float() / 255).grid
            return seen.flatten(2).mT

    else:
        encoder = make_encoder(recipe.encoder).to(device).eval()

        def patches(pixels: Tensor) -> Tensor:
            return encoder.tokens(encoder.normalize(pixels)).patches

    found: Tensor | None = None
    rows = np.sort(np.concatenate((splits.train, splits.val, splits.test)))
    with PixelReader(source, size, recipe.data.fit, cache_mb=0, workers=CORES) as reader:
        for batch, pixels in reader.prefetch(rows[start : start + BATCH] for start in range(0, len(rows), BATCH)):
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                made = patches(pixels.to(device)).to(kept)
            if found is None:
                found = torch.zeros(len(source), *made.shape[1:], dtype=kept, device=device)
            found[torch.from_numpy(batch).to(device)] = made
    assert found is not None
    return found


def open_labels(recipe: Recipe, groups: list[str] | None = None) -> tuple[DataSource, Labels]:
    """The source of a recipe with the labels of its concept set, or of some of its groups."""
    concepts = ConceptSet.load(recipe.concepts) if recipe.concepts else None
    source, concepts = open_source(recipe.data, concepts)
    if groups is None:
        return source, Labels(concepts, source.examples)
    keep = [at for at, concept in enumerate(concepts.concepts) if concept.group in groups]
    return source, Labels(concepts.subset(keep), source.examples.with_concepts(keep))


def side_of(config: EncoderConfig) -> Grid:
    """The grid of patches: a cell for every 8 pixels, of the built-in encoder and of ResNet50 at twice the size."""
    side = (config.image_size or 0) // 8
    return side, side


def open_places(recipe: Recipe) -> tuple[DataSource, Splits, Known]:
    """Everything of a bank that needs no device."""
    source, _ = open_labels(recipe)
    data: DataConfig = recipe.data
    splits = make_splits(source.examples, data.split, source.task, classes=source.classes, limit=data.limit)
    return source, splits, read_known(source, splits, recipe.encoder.image_size or 0, side_of(recipe.encoder), data.fit)
