"""Cut-outs of training images through the frozen encoder: what is inside a detector's box or a segment's rectangle."""

from collections.abc import Iterator

import numpy as np
import torch

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Annotation
from conceptlens.data.images.framing import Box
from conceptlens.data.images.read import resize_square
from conceptlens.data.regions.regions import mask_box
from conceptlens.data.regions.tables import OBJECT
from conceptlens.methods.fitted.data import FitCrops, some_of_each
from conceptlens.training.session import Session

BATCH = 64
SMALLEST = 4.0  # pixels a side


def part_boxes(annotation: Annotation) -> Iterator[tuple[str, Box]]:
    """The box of every part, or the rectangle around its mask; not of the whole object where there are parts."""
    boxes = dict(annotation.boxes)
    for part, mask in annotation.masks.items():
        if part not in boxes and (box := mask_box(mask)) is not None:
            boxes[part] = box
    if len(boxes) > 1:
        boxes.pop(OBJECT, None)
    for part, box in boxes.items():
        if min(box[2] - box[0], box[3] - box[1]) >= SMALLEST:
            yield part, box


@torch.inference_mode()
def encode_crops(session: Session) -> FitCrops:
    """The vectors of all boxes and segments of the training images.

    Raises:
        UserError: None of them has any.
    """
    source, pipeline = session.source, session.pipeline
    size, fit, device = session.pipeline.encoder.image_size, session.recipe.data.fit, session.processes.device
    found: list[tuple[int, str, Box]] = []
    vectors: list[np.ndarray] = []
    waiting: list[np.ndarray] = []

    def encode() -> None:
        pixels = torch.from_numpy(np.stack(waiting)).to(device)
        with session.processes.autocast():
            tokens = pipeline.with_text_space(pipeline.encoder(pixels))
            vectors.append(pipeline.model.summarize(tokens).float().cpu().numpy())
        waiting.clear()

    train = session.splits.train
    rows = some_of_each(source.examples.labels[train], pipeline.model.fit_crop_images, session.recipe.seed).tolist()
    with session.progress.counting("reading boxes and segments", len(rows)) as count:
        for row in rows:
            index = int(train[row])
            annotation = source.annotation(index)
            parts = list(part_boxes(annotation)) if annotation is not None else []
            image = source.read(index) if parts else None
            for part, box in parts:
                assert image is not None
                found.append((row, part, box))
                waiting.append(resize_square(image.crop(tuple(round(edge) for edge in box)), size, fit))  # type: ignore[arg-type]
                if len(waiting) == BATCH:
                    encode()
            count(1)
    if waiting:
        encode()
    if not found:
        raise UserError(
            f"method.name: this method learns from boxes or segments, but no training image of {source.name} has any. "
            "Make them with `conceptlens data detect` or `data segment`, and name them in data.regions."
        )
    places, names, boxes = zip(*found, strict=True)
    return FitCrops(np.concatenate(vectors), np.asarray(places), tuple(names), np.asarray(boxes, dtype=np.float64))
