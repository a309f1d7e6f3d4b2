"""Run a pipeline over images once and keep what the metrics need: scores per image, sums of everything per patch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.data.loader import PixelReader
from conceptlens.metrics.rank import rank_summary
from conceptlens.models.contract import ConceptOutput, Pipeline
from conceptlens.processes import Processes

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


@dataclass
class Predictions:
    """What a pipeline says of N images, in the order of `indices`."""

    indices: Indices
    logits: Floats  # (N, C)
    concept_logits: Floats  # (N, K)
    ranks: dict[str, float] = field(default_factory=dict)  # means over the first images
    code_uses: npt.NDArray[np.int64] | None = None  # (M,)
    slot_mass: npt.NDArray[np.float64] | None = None  # (S,): share of all patches
    assignment_entropy: float | None = None  # as a share of ln S


class _Sums:
    """Running sums over patches: memory does not grow with the images."""

    def __init__(self) -> None:
        self.code_uses: Tensor | None = None
        self.slot_mass: Tensor | None = None
        self.entropy = 0.0
        self.patches = 0

    def add(self, output: ConceptOutput, codes: int | None) -> None:
        if output.codes is not None and codes is not None:
            uses = torch.bincount(output.codes.flatten(), minlength=codes)
            self.code_uses = uses if self.code_uses is None else self.code_uses + uses
        if output.assignment is not None:
            a = output.assignment.double()
            mass = a.sum((0, 1))
            self.slot_mass = mass if self.slot_mass is None else self.slot_mass + mass
            self.entropy += float(torch.special.entr(a).sum())
            self.patches += a.shape[0] * a.shape[1]


@torch.inference_mode()
def predict(
    pipeline: Pipeline,
    reader: PixelReader,
    indices: Indices,
    *,
    batch_size: int = 64,
    rank_images: int = 0,
    processes: Processes | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Predictions:
    """Predict images in order; several processes share the work and all get the whole result."""
    processes = processes or Processes()
    was_training = pipeline.training
    pipeline.eval()
    mine = np.arange(len(indices))[processes.index :: processes.count]
    codebook = getattr(pipeline.regulariser, "codebook", None)
    sums, logits, concept_logits, sample = _Sums(), [], [], []

    def batches() -> Iterator[Indices]:
        for start in range(0, len(mine), batch_size):
            yield indices[mine[start : start + batch_size]]

    sampled = 0
    wanted = -(-rank_images // processes.count)  # each process measures its share of the first images
    for batch, pixels in reader.prefetch(batches()):
        with processes.autocast():
            output = pipeline(pixels.to(processes.device, non_blocking=True))
        logits.append(output.logits.float().cpu().numpy())
        concept_logits.append(output.concept_logits.float().cpu().numpy())
        sums.add(output, None if codebook is None else len(codebook))
        if sampled < wanted and output.patches is not None:
            summary = rank_summary(output.patches[: wanted - sampled].float(), per_image=True)
            sample.append(np.stack([summary[name] for name in sorted(summary)]))
            names = sorted(summary)
            sampled += sample[-1].shape[1]
        if on_batch:
            on_batch(len(batch))
    pipeline.train(was_training)

    order = np.concatenate(processes.gather(mine)) if len(indices) else mine
    back = np.argsort(order, kind="stable")

    def whole(pieces: list[Floats], width: int) -> Floats:
        local = np.concatenate(pieces) if pieces else np.zeros((0, width), np.float32)
        return np.concatenate(processes.gather(local))[back].astype(np.float32)

    ranks = np.concatenate(processes.gather(np.concatenate(sample, 1) if sample else np.zeros((0, 0))), 1) if rank_images else None
    patches = sum(processes.gather(sums.patches))
    masses = [mass for mass in processes.gather(None if sums.slot_mass is None else sums.slot_mass.cpu().numpy()) if mass is not None]
    uses = [use for use in processes.gather(None if sums.code_uses is None else sums.code_uses.cpu().numpy()) if use is not None]
    slots = len(masses[0]) if masses else 0
    model_classes, model_concepts = _widths(pipeline)
    return Predictions(
        indices=np.asarray(indices),
        logits=whole(logits, model_classes),
        concept_logits=whole(concept_logits, model_concepts),
        ranks={} if ranks is None or ranks.size == 0 else dict(zip(names, ranks.mean(1).tolist(), strict=True)),
        code_uses=np.sum(uses, 0) if uses else None,
        slot_mass=np.sum(masses, 0) / patches if masses else None,
        assignment_entropy=float(sum(processes.gather(sums.entropy)) / patches / np.log(slots)) if slots > 1 else None,
    )


def _widths(pipeline: Pipeline) -> tuple[int, int]:
    """(C, K) of a pipeline, for an empty split."""
    text = pipeline.model.get_buffer("text")
    return int(pipeline.model.decide(text.new_zeros(1, len(text))).shape[1]), len(text)
