"""Corrections of images that the model can hardly see: its own images, blurred before the encoder reads them.

With all groups told, a head no longer looks at the image. What some answers are worth shows where the others have to be
guessed: on images that were made small and large again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError
from conceptlens.core.processes import Launched
from conceptlens.data.loading.loader import PixelReader
from conceptlens.evaluation.interventions.curve import Curve, follow_policy, summarize
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.interventions.value_map import cross_map
from conceptlens.runs.predict import predict
from conceptlens.runs.predictions import to_stored
from conceptlens.runs.readout import Indices, Readout, read_out
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun


class Blurred(Part):
    """Corrections by chance of images that were `pixels` wide once."""

    pixels: int
    curve: Curve

    @property
    def area(self) -> Estimate:
        return self.curve.area


def blur(images: Tensor, pixels: int) -> Tensor:
    """Images (B, 3, H, W) of bytes, made as small as `pixels` on a side and large again."""
    size = images.shape[-2:]
    small = functional.interpolate(images.float(), (pixels, pixels), mode="bilinear", antialias=True)
    large = functional.interpolate(small.round(), size, mode="bicubic", align_corners=False)
    return large.round().clamp(0, 255).to(torch.uint8)


class _BlurredReader(PixelReader):
    """Reads images and blurs each batch; memory is that of a batch."""

    pixels: int

    def prefetch(self, batches: Iterable[Indices], ahead: int = 2) -> Iterator[tuple[Indices, Tensor]]:
        for indices, images in super().prefetch(batches, ahead):
            yield indices, blur(images, self.pixels) if len(images) else images


def blurred_readout(run: "OpenedRun", split: str, pixels: int) -> Readout:
    """What the class head reads of a split's images once they are blurred."""
    card, recipe = run.card, run.recipe
    processes = Launched(recipe.training.precision)
    reader = _BlurredReader(run.source, card.image_size, card.fit, 0, workers=recipe.data.workers)
    reader.pixels = pixels
    predictions = predict(run.pipeline.to(processes.device), reader, run.splits[split], processes=processes)
    return read_out(run.pipeline.model, to_stored(predictions, run.source, card.thresholds), run.concepts)


def measure_blurred(
    run: "OpenedRun",
    clean: Readout,
    sizes: Sequence[int],
    bootstrap: Bootstrap,
    *,
    split: str = "test",
    by: str = "groups",
    to: str = "auto",
    seed: int = 0,
    note: Callable[[str], object] = lambda text: None,
) -> list[Blurred]:
    """Corrections by chance for each size; how answers are written is learned from the clean images' scores.

    Args:
        run: The run, with its images.
        clean: The split's images as they are.
        sizes: Pixels on a side, each below the model's own.
        bootstrap: How intervals are made.
        split: The split's name.
        by: What is corrected at a time.
        to: How answers are written.
        seed: Of folds, random orders and wrong answers.
        note: Says something to the person who waits.
    """
    for pixels in sizes:
        if not 1 <= pixels < run.card.image_size:
            raise UserError(
                f"--blur {pixels}: expected pixels from 1 to below {run.card.image_size}, the side of what the model "
                "reads."
            )
    units, maps = make_units(clean.concepts, by), cross_map(clean, assign_folds(clean.units, seed=seed), to)
    found = []
    for pixels in dict.fromkeys(sizes):
        note(f"corrections of images blurred to {pixels} pixels")
        readout = blurred_readout(run, split, pixels)
        if readout.ids != clean.ids:
            raise UserError(f"{run.path}: its kept {split} predictions are not of its {split} images. Train it again.")
        readout = replace(readout, truth=clean.truth, labels=clean.labels)
        curve = summarize("chance", follow_policy(readout, maps, units, "chance", seed=seed), bootstrap)
        found.append(Blurred(pixels=pixels, curve=curve))
    return found
