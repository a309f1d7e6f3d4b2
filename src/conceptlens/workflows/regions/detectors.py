"""Open-vocabulary detectors of transformers: Grounding DINO, OWLv2, and what else its pipeline runs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.workflows.regions.detections import Detection, parse_detection

Detector = Callable[[Image.Image, Sequence[str]], list[Detection]]
TOGETHER = 16  # labels that are asked for in one pass: a prompt has limited room


def open_detector(name: str, *, least: float) -> Detector:
    """A detector by its name on the hub, or by its folder; weights must be safetensors.

    Args:
        name: As `IDEA-Research/grounding-dino-base` or `google/owlv2-base-patch16-ensemble`.
        least: Boxes below this confidence are not kept.
    """
    try:
        from transformers import pipeline
    except ImportError:
        raise UserError("A detector needs transformers: pip install 'conceptlens[open-clip]'.") from None
    try:
        run = pipeline("zero-shot-object-detection", model=name, model_kwargs={"use_safetensors": True})
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise UserError(
            f"--detector {name}: transformers cannot open it ({reason}). Name a folder with its files, or one that is "
            "in the hub's cache; detections that were made elsewhere are read with --detections."
        ) from None

    def detect(image: Image.Image, labels: Sequence[str]) -> list[Detection]:
        boxes: list[Detection] = []
        for start in range(0, len(labels), TOGETHER):
            answers = run(image, candidate_labels=list(labels[start : start + TOGETHER]), threshold=least)
            boxes += [_within(image, parse_detection(answer, name)) for answer in answers]
        return [box for box in boxes if box.box[0] < box.box[2] and box.box[1] < box.box[3]]

    return detect


def _within(image: Image.Image, found: Detection) -> Detection:
    """A box cut at the image's edges: OWLv2 pads images to squares and finds things in the padding."""
    width, height = image.size
    left, top, right, bottom = found.box
    return replace(found, box=(max(left, 0.0), max(top, 0.0), min(right, float(width)), min(bottom, float(height))))
