"""Drawn creatures with tokens that need no encoder: color and part of each patch, and the class, which every patch of
a transformer has seen."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conceptlens.data.regions.object_boxes import read_boxes
from conceptlens.data.regions.part_points import read_points
from conceptlens.data.regions.regions import read_regions
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.pf_cbm.pf_cbm import PFCBM
from conceptlens.nn.grounding.gaussian_prior import patch_centers
from conceptlens.nn.grounding.places import MarkedPlaces, PlaceTargets, TrainingImages
from conceptlens.nn.setup import Setup
from conceptlens.recipes import LossConfig, ShapesConfig
from conceptlens.training.optimization.losses import SupervisedLoss, Targets

GRID = (12, 12)
N = 192
WIDTH = 24
WHERE: dict[str, Any] = {"size": 96, "fit": "squash", "grid": GRID}


@cache
def source(*, by_class: bool = False) -> Shapes:
    """Creatures; with `by_class`, every image has the labels of its class, as CUB's attributes are used."""
    made = Shapes(ShapesConfig(n=N))
    if by_class:
        labels, concepts = made.examples.labels, made.examples.concepts
        means = np.stack([np.where(concepts < 0, 0, concepts)[labels == c].mean(0) for c in range(len(made.classes))])
        table = np.zeros_like(means, dtype=np.int8)
        for group in made.concepts.groups:
            part = means[:, group.concepts]
            table[:, group.concepts] = part == part.max(1, keepdims=True) if part.shape[1] > 1 else part > means.mean()
        made.examples = replace(made.examples, concepts=table[labels])
    return made


@cache
def patches() -> Tensor:
    """(N, L, WIDTH)."""
    made = source()
    regions = read_regions(made, np.arange(N), **WHERE)
    pixels = np.stack([np.asarray(made.read(index).resize(GRID[::-1], 4)) for index in range(N)]) / 255
    classes = np.eye(len(made.classes))[made.examples.labels]
    features = np.concatenate(
        (
            pixels.reshape(N, -1, 3),
            2 * regions.cover.transpose(0, 2, 1),
            np.repeat(classes[:, None], GRID[0] * GRID[1], 1),
        ),
        -1,
    )
    mixing = np.random.default_rng(0).normal(size=(features.shape[-1], WIDTH))
    return torch.from_numpy((features @ mixing).astype(np.float32))


def setup() -> Setup:
    concepts = source().concepts
    return Setup(concepts, torch.zeros(len(concepts), 0), WIDTH, len(source().classes), source().classes)


def images(**changes: Any) -> TrainingImages:
    made = source()

    def marked(parts: tuple[str, ...], rows: Tensor) -> MarkedPlaces:
        points, seen = read_points(made, rows.numpy(), parts, **WHERE)
        return MarkedPlaces(parts, torch.from_numpy(points), torch.from_numpy(seen))

    def boxes() -> tuple[Tensor, Tensor]:
        cover, known = read_boxes(made, np.arange(N), **WHERE)
        return torch.from_numpy(cover), torch.from_numpy(known)

    told: list[str] = []
    parts = tuple(name for name in made.region_names if name != "object")
    plain = TrainingImages(N, GRID, parts, marked, boxes, lambda: iter([Tokens(patches(), GRID)]), 0, told.append)
    return replace(plain, **changes)


def model(seed: int = 0, **options: Any) -> PFCBM:
    torch.manual_seed(seed)
    return PFCBM(setup(), **{"inner": 32, "hidden": 16, "sigma": 2.0, **options})


def train(made: PFCBM, places: PlaceTargets | None, *, steps: int, by_class: bool, rate: float = 1e-3) -> None:
    """Concepts and places, on all images at once."""
    data = source(by_class=by_class)
    loss = SupervisedLoss(LossConfig(class_weight=0), data.concepts, "single", torch.ones(len(data.classes)))
    targets = Targets.of(data.examples, np.arange(N))
    optimizer = torch.optim.AdamW([value for value in made.parameters() if value.requires_grad], lr=rate)
    for _ in range(steps):
        output = made(Tokens(patches(), GRID))
        if places is not None:
            output = made.teach_places(output, places)
        optimizer.zero_grad()
        sum(loss(output, targets, loss.count(targets)).values()).backward()
        optimizer.step()


def pointing(made: PFCBM) -> float:
    """Share of visible parts whose peak is in the cell of the point or next to it."""
    points, seen = read_points(source(), np.arange(N), made.part_names, **WHERE)
    with torch.no_grad():
        attention = made(Tokens(patches(), GRID)).attention[:, : len(made.part_names)]
    peak = patch_centers(GRID, attention)[attention.argmax(-1)].numpy()
    near = np.abs(np.floor(peak) - np.floor(points)).max(-1) <= 1
    return float(near[seen].mean())


def spread(made: PFCBM) -> float:
    """How far the parts' centers of attention are from each other in an image, in patches, on average."""
    with torch.no_grad():
        centers = made(Tokens(patches(), GRID)).centroids[:, : len(made.part_names)]
    return float(torch.stack([torch.pdist(each).mean() for each in centers]).mean())
