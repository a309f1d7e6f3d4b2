"""What single images are seen against: the average image, and the names of codes; from a sample, and kept.

`explain/reference.json` of the run holds both, so that a second call, or one after the data is gone, need not look at
the sample again. It is made anew when the weights are others.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.spread import spread
from conceptlens.explanations.codes import CoAssignment
from conceptlens.explanations.document import CodeName, Reference
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import Card

FILE = "reference.json"
Floats = npt.NDArray[np.float64]


class _File(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False, extra="ignore")
    weights: str
    split: str
    images: int
    bottleneck: list[float]  # (K,) of the average image
    codes: list[CodeName] | None


@dataclass(frozen=True)
class Background:
    """The reference of a run."""

    reference: Reference
    bottleneck: Floats  # (K,)
    codes: list[CodeName] | None  # by number; None without a codebook, slots or a sample

    @classmethod
    def zero(cls, concepts: int, why: str) -> "Background":
        """Scores of zero, where there is no average image."""
        return cls(Reference(what="zero scores", images=0, split=None, why=why), np.zeros(concepts), None)


_SAMPLED: WeakKeyDictionary[OpenedRun, _File] = WeakKeyDictionary()


def background(run: OpenedRun, *, keep: bool = True) -> Background:
    """Read what was kept, or look at a sample of the run's own images.

    Args:
        run: The run.
        keep: Write the sample to the run folder; otherwise it is kept in memory with the run alone.
    """
    if not run.read_concepts.concepts:
        return Background.zero(0, "this method reads no concepts")
    kept = kept_background(run.path, run.card, run.concepts)
    if kept is not None:
        return kept
    try:
        sampled = _SAMPLED.get(run) or _sample(run)
    except DamagedError:
        raise
    except (UserError, OSError) as error:
        return Background.zero(len(run.concepts), str(error).splitlines()[0])
    _SAMPLED[run] = sampled
    if keep:
        with contextlib.suppress(OSError):  # a run that cannot be written to is sampled each time
            write_json(run.path / "explain" / FILE, sampled.model_dump(mode="json"))
    return _as_background(sampled)


def kept_background(run: Path, card: Card, concepts: ConceptSet) -> Background | None:
    """What an earlier call kept; None if there is nothing, or of other weights."""
    kept = _kept(run / "explain" / FILE, card, concepts)
    return None if kept is None else _as_background(kept)


def _as_background(kept: _File) -> Background:
    reference = Reference(what="average image", images=kept.images, split=kept.split)
    return Background(reference, np.array(kept.bottleneck), kept.codes)


def _kept(path: Path, card: Card, concepts: ConceptSet) -> _File | None:
    if not path.exists():
        return None
    try:
        found = _File.model_validate(read_json(path))
    except (UserError, ValidationError):
        return None  # damaged, or of another version: made anew
    return found if found.weights == card.weights_hash and len(found.bottleneck) == len(concepts) else None


@torch.inference_mode()
def _sample(run: OpenedRun, batch: int = 32) -> _File:
    """Images of the split that the run's numbers speak of, evenly spread: the same as in its stories."""
    split, indices = run.reported_images()
    chosen = spread(indices)
    pipeline, card = run.pipeline, run.card
    device = next(pipeline.parameters()).device
    codebook = getattr(pipeline.regularizer, "codebook", None)
    together: CoAssignment | None = None
    scores: list[Any] = []
    with PixelReader(run.source, card.image_size, card.fit, cache_mb=0) as reader:
        pieces = (chosen[start : start + batch] for start in range(0, len(chosen), batch))
        for _, pixels in reader.prefetch(pieces):
            output = pipeline(pixels.to(device))
            scores.append(output.bottleneck.double().cpu().numpy())
            if output.codes is not None and output.assignment is not None and codebook is not None:
                together = together or CoAssignment(len(codebook), output.assignment.shape[-1])
                together.update(output.codes, output.assignment)
    return _File(
        weights=card.weights_hash,
        split=split,
        images=len(chosen),
        bottleneck=np.concatenate(scores).mean(0).tolist(),
        codes=together.names(run.concepts, pipeline.model.concept_slot) if together else None,
    )
