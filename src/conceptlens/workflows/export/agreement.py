"""Does the file say what the run says? Both are asked about a few images before anything is written."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import DamagedError, UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.spread import spread
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.image_answer import Answer
from conceptlens.explanations.subjects import Subject
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.export.card import Check
from conceptlens.workflows.export.graph import CLASSES, CONCEPTS, MAPS, SCORE, SETS, UNPLACED
from conceptlens.workflows.export.torch_file import Outputs

IMAGES = 5
# Largest difference of any probability or map value at which a file is written, and that of the out-of-distribution
# score, in which directions count that hardly vary among training images: rounding shows there first.
TOLERANCE = {"fp32": 1e-4, "fp16": 0.01}
SCORE_TOLERANCE = {"fp32": 1e-4, "fp16": 0.1}


def some_images(run: OpenedRun, size: int) -> tuple[Tensor, str]:
    """Bytes (n, 3, S, S) of the run's own images, or drawn ones where its data is not here; and which they are."""
    try:
        split, indices = run.reported_images()
        with PixelReader(run.source, size, run.card.fit, cache_mb=0) as reader:
            return reader.batch(spread(indices, IMAGES)), split
    except DamagedError:
        raise
    except (UserError, OSError):
        return draw(size), "drawn"


def draw(size: int) -> Tensor:
    """Colored noise from coarse to fine, (n, 3, S, S) of bytes; always the same."""
    generator = torch.Generator().manual_seed(0)
    images = [
        F.interpolate(torch.rand(1, 3, cells, cells, generator=generator), (size, size), mode="bilinear")
        for cells in (2 ** (power + 1) for power in range(IMAGES))
    ]
    return torch.cat(images).mul(255).round().to(torch.uint8)


def live_outputs(answerer: Answerer, images: Tensor) -> dict[str, npt.NDArray[Any]]:
    """What `predict` and `explain` say of bytes (B, 3, S, S)."""
    subjects = [Subject(f"image {row}", pixels) for row, pixels in enumerate(images.numpy())]
    model = answerer.pipeline.model
    answers = answerer.batch(subjects, maps=("evidence" if model.has_evidence else "attention",))
    outputs = {CLASSES: np.stack([answer.probabilities for answer in answers])}
    if len(answerer.concepts):
        outputs[CONCEPTS] = np.stack([answer.concept_probabilities for answer in answers])
    if model.has_evidence or model.has_attention:
        outputs[MAPS] = np.stack([_concept_maps(answer) for answer in answers])
    if model.has_evidence:
        outputs[UNPLACED] = np.stack([answer.maps.unplaced for answer in answers if answer.maps])  # type: ignore[misc]
    if answers[0].distance is not None:
        outputs[SCORE] = np.array([answer.distance for answer in answers], dtype=np.float64)
    if answerer.caution.bounds is not None:
        classes = answerer.card.classes
        outputs[SETS] = np.array([[name in (answer.prediction_set or ()) for name in classes] for answer in answers])
    return outputs


def _concept_maps(answer: Answer) -> npt.NDArray[np.float32]:
    """The evidence of each concept, or the attention of its slot, (K, h, w)."""
    assert answer.maps is not None
    maps = answer.maps.evidence
    if maps is None:
        assert answer.maps.attention is not None
        maps = answer.maps.attention[answer.answerer.pipeline.model.concept_slot.cpu().numpy()]
    return maps.reshape(len(maps), *answer.maps.grid)


def compare(
    exported: Callable[[Tensor], Outputs],
    live: Callable[[Tensor], dict[str, npt.NDArray[Any]]],
    images: Tensor,
    bounds: npt.NDArray[np.float64] | None = None,
    precision: str = "fp32",
) -> float:
    """The largest difference of any output, over one image alone and all together.

    Scores beyond 1 count in proportion, and as their tolerance is to that of the others. A class that is in one
    prediction set alone counts as 1, unless its probability lies closer to its bound (C,) than the tolerance.
    """
    largest, tolerance = 0.0, TOLERANCE[precision]
    for batch in (images[:1], images):
        expected, found = live(batch), exported(batch)
        if {name: value.shape for name, value in found.items()} != {name: v.shape for name, v in expected.items()}:
            return float("inf")
        for name, value in expected.items():
            if name == SETS and bounds is not None:
                clear = np.abs(1 - expected[CLASSES] - bounds) > tolerance
                difference = ((found[name] != value) & clear).astype(np.float64)
            else:
                difference = np.abs(found[name] - value)
            if name == SCORE:
                difference = difference / np.maximum(1, value) * tolerance / SCORE_TOLERANCE[precision]
            # NaN would pass for a small difference: `maximum` hands it on, `max` might not.
            largest = float(np.maximum(largest, difference.max()))
    return largest


def checked(largest: float, images: int, of: str, precision: str = "fp32") -> Check:
    """The note for the file's card, or a refusal."""
    tolerance = TOLERANCE[precision]
    if not largest <= tolerance:
        raise UserError(
            f"The exported model differs from the run by up to {largest:.2g} on {images} images ({of}); at most "
            f"{tolerance:g} is accepted, so nothing was written. Try another --format or --precision, or the run's own "
            "--size."
        )
    return Check(images=images, of=of, largest_difference=largest, tolerance=tolerance)
