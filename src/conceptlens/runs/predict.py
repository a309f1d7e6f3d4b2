"""Run a pipeline over images once and keep what the metrics need: scores per image, sums of everything per patch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.resident import ResidentReader
from conceptlens.data.loading.transfer import to_device
from conceptlens.encoders.store.reader import StoredReader
from conceptlens.methods.contract import ConceptOutput, Pipeline
from conceptlens.nn.quantization.usage import AssignmentUse, CodebookUse
from conceptlens.runs.image_distribution import image_vectors
from conceptlens.stats.rank import patch_ranks, rank_columns, rank_means

LAYER_RANKS = ("effective", "published")  # of the further layers that a method reads

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Predictions:
    """What a pipeline says of N images, in the order of `indices`."""

    indices: Indices
    logits: Floats  # (N, C)
    concept_logits: Floats  # (N, K); (N, 0) of a method that reads no concepts
    ranks: dict[str, float | None] = field(default_factory=dict)  # means over the first images
    codebook: dict[str, Any] | None = None
    slots: dict[str, Any] | None = None
    bottleneck: Floats | None = None  # (N, K): what the class head read; None: the concept logits
    context: npt.NDArray[np.float16] | None = None  # (N, E): what it read of the image besides, where it does
    vectors: Floats | None = None  # (N, D): see `image_vectors`


class _Tally:
    """What is kept of each batch; memory grows with images only by their scores."""

    def __init__(self, rank_images: int, every_layer: bool) -> None:
        self.rank_images, self.every_layer = rank_images, every_layer
        self.logits: list[Floats] = []
        self.concept_logits: list[Floats] = []
        self.bottleneck: list[Floats] = []
        self.context: list[npt.NDArray[np.float16]] = []
        self.vectors: list[Floats] = []
        self.ranks: list[dict[str, npt.NDArray[Any]]] = []
        self.codes: CodebookUse | None = None
        self.slots: AssignmentUse | None = None

    def add(self, output: ConceptOutput, codebook: int | None) -> None:
        self.logits.append(output.logits.float().cpu().numpy())
        self.concept_logits.append(output.concept_logits.float().cpu().numpy())
        self.bottleneck.append(output.bottleneck.float().cpu().numpy())
        if output.context is not None:
            self.context.append(output.context.half().cpu().numpy())
        if output.patches is not None:
            self.vectors.append(image_vectors(output.patches).cpu().numpy())
        if output.codes is not None and codebook is not None:
            self.codes = self.codes or CodebookUse(codebook)
            self.codes.update(output.codes)
        if output.assignment is not None:
            self.slots = self.slots or AssignmentUse(output.assignment.shape[-1])
            self.slots.update(output.assignment)
        if self.rank_images > 0 and output.patches is not None:
            columns = rank_columns(output.patches[: self.rank_images])
            for number, layer in enumerate(output.layers if self.every_layer else (), start=1):
                ranks = patch_ranks(layer[: self.rank_images], LAYER_RANKS)
                columns |= {f"layer_{number}_{name}": values for name, values in ranks.items()}
            self.ranks.append({name: column.cpu().numpy() for name, column in columns.items()})
            self.rank_images -= len(output.patches)


@torch.inference_mode()
def predict(
    pipeline: Pipeline,
    reader: PixelReader | StoredReader | ResidentReader,
    indices: Indices,
    *,
    batch_size: int = 64,
    rank_images: int = 0,
    every_layer: bool = False,
    processes: Processes | None = None,
    on_batch: Callable[[int], None] | None = None,
) -> Predictions:
    """Predict images in order; several processes share the work and all get the whole result.

    With `every_layer`, ranks are also measured of each further layer that the encoder hands on.
    """
    processes = processes or Processes()
    was_training = pipeline.training
    pipeline.eval()
    mine = np.arange(len(indices))[processes.index :: processes.count]
    codebook = getattr(pipeline.regularizer, "codebook", None)
    tally = _Tally(
        int((mine < rank_images).sum()), every_layer
    )  # ranks are measured on the first images, whoever has them

    def batches() -> Iterator[Indices]:
        # At least one batch, if need be an empty one, so that the widths of the outputs are known.
        for start in range(0, max(len(mine), 1), batch_size):
            yield indices[mine[start : start + batch_size]]

    for batch, pixels in to_device(reader.prefetch(batches()), processes.device):
        with processes.autocast():
            output = pipeline(pixels)
        tally.add(output, None if codebook is None else len(codebook))
        if on_batch:
            on_batch(len(batch))
    pipeline.train(was_training)
    tallies = processes.gather(tally)
    back = np.argsort(np.concatenate(processes.gather(mine)), kind="stable")
    first, *others = tallies
    for other in others:
        if first.codes and other.codes:
            first.codes.add(other.codes)
        if first.slots and other.slots:
            first.slots.add(other.slots)
    ranks = [columns for each in tallies for columns in each.ranks]
    concept_logits = np.concatenate([rows for each in tallies for rows in each.concept_logits])[back]
    bottleneck = np.concatenate([rows for each in tallies for rows in each.bottleneck])[back]
    context = [rows for each in tallies for rows in each.context]
    vectors = [rows for each in tallies for rows in each.vectors]
    return Predictions(
        indices=np.asarray(indices),
        logits=np.concatenate([rows for each in tallies for rows in each.logits])[back],
        concept_logits=concept_logits,
        ranks=rank_means({name: np.concatenate([columns[name] for columns in ranks]) for name in ranks[0]})
        if ranks
        else {},
        codebook=first.codes.summary() if first.codes else None,
        slots=first.slots.summary() if first.slots else None,
        bottleneck=None if np.array_equal(bottleneck, concept_logits) else bottleneck,
        context=np.concatenate(context)[back] if context else None,
        vectors=np.concatenate(vectors)[back] if vectors else None,
    )
