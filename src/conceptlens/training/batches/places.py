"""From a session to what a method may see of all training images before it trains, and the targets it makes of it."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.regions.object_boxes import read_boxes
from conceptlens.data.regions.part_points import read_points
from conceptlens.data.regions.tables import OBJECT
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.grounding.places import MarkedPlaces, PlaceTargets, TrainingImages
from conceptlens.recipes import AugmentConfig
from conceptlens.training.session import Session

BATCH = 64


def find_places(session: Session) -> PlaceTargets | None:
    """The method's targets by place, one row a training image; None for a method that learns from none."""
    pipeline, source, train = session.pipeline, session.source, session.splits.train
    size, fit = session.reader.size, session.recipe.data.fit
    grid = pipeline.encoder.grid(size, size)
    where: dict[str, Any] = {"size": size, "fit": fit, "grid": grid}

    def marked(parts: tuple[str, ...], rows: Tensor) -> MarkedPlaces:
        points, seen = read_points(source, train[rows.numpy()], parts, **where)
        return MarkedPlaces(parts, torch.from_numpy(points), torch.from_numpy(seen))

    def boxes() -> tuple[Tensor, Tensor]:
        if not source.region_names:
            raise _no_boxes(source.name)
        cover, known = read_boxes(source, train, **where)
        if not known.any():
            raise _no_boxes(source.name)
        return torch.from_numpy(cover), torch.from_numpy(known)

    def tokens() -> Iterator[Tokens]:
        batches = (train[start : start + BATCH] for start in range(0, len(train), BATCH))
        with session.progress.counting("looking for places", len(train)) as count, torch.inference_mode():
            for inputs in session.stream(batches):
                with session.processes.autocast():
                    found = pipeline.encoder.encode(inputs)
                yield found
                count(len(inputs))

    was_training = pipeline.training
    pipeline.eval()
    places = pipeline.model.find_places(
        TrainingImages(
            count=len(train),
            grid=grid,
            known_parts=tuple(name for name in source.region_names if name != OBJECT),
            marked=marked,
            boxes=boxes,
            tokens=tokens,
            seed=session.recipe.seed,
            note=session.progress.note,
        )
    )
    pipeline.train(was_training)
    if places is not None and session.stored is None and moves(session.recipe.training.augment):
        raise UserError(
            "training.augment: the method learns from places in the images, which a crop, a flip or a rotation would "
            "move. Set encoder.store, or augment: {crop: 1.0, flip_horizontal: false, flip_vertical: false}."
        )
    return places


def moves(augment: AugmentConfig) -> bool:
    """Whether things change their place in an augmented image."""
    return augment.crop < 1 or augment.flip_horizontal or augment.flip_vertical or augment.rotate > 0


def _no_boxes(name: str) -> UserError:
    return UserError(
        f"method.foreground: box needs the object's box, but {name} has none in its training images. Name boxes, "
        "masks or points in data.regions, or use method.foreground: pca."
    )
