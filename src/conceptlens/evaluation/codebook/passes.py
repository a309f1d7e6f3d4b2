"""The pass over the audited images: codes, slots, scores of out-of-distribution detection, and maps of a few images."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.data.dataset import DataSource
from conceptlens.data.regions.regions import read_regions
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.codebook.stream import TokenStream
from conceptlens.evaluation.codebook.survey import Survey
from conceptlens.evaluation.ood.codebook_distance import TrainingDistribution
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.quantization.usage import AssignmentUse

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
REGIONS = 300  # images whose regions are looked at


@dataclass(frozen=True)
class Judgement:
    """What images are held against while they pass."""

    training: TrainingDistribution
    source: DataSource
    split: str
    shown: Indices  # images whose index maps are kept


@dataclass
class Pass:
    """What one pass found."""

    indices: Indices
    ood_scores: Floats  # (N, 3)
    grid: tuple[int, int]
    survey: Survey | None
    slots: AssignmentUse | None
    maps: dict[int, Indices] = field(default_factory=dict)  # image: nearest codes (L,)
    on_object: tuple[Indices, Floats] | None = None  # codes (n, L) and the object's cover (n, L) of some images

    def slot_mass(self, pipeline: Pipeline) -> list[float] | None:
        """Patches that each concept's slot gets (K,), over an even share; None without slots that share patches."""
        if self.slots is None:
            return None
        mass = self.slots.summary()["slot_mass"]
        if mass is None:
            return None
        slots = pipeline.model.concept_slot.cpu().tolist()
        return [float(mass[slot] * len(mass)) for slot in slots]


def run_pass(stream: TokenStream, indices: Indices, codebook: Tensor | None, judgement: Judgement) -> Pass:
    """Look at every image once, in a random order: neighbors in a list are often alike, and must not meet."""
    order = np.random.default_rng(0).permutation(indices)
    survey = None if codebook is None else Survey(codebook)
    slots: AssignmentUse | None = None
    scores: list[Tensor] = []
    kept: dict[int, Indices] = {}
    known = _annotated(judgement.source, indices) if survey is not None else np.zeros(0, dtype=np.int64)
    wanted = {int(index) for index in (*judgement.shown, *known)}
    grid = (1, 1)
    for batch, patches, layout, output in stream.outputs(order):
        grid = layout
        nearest = None
        if survey is not None:
            nearest, codes = survey.update(torch.from_numpy(batch), patches, output.assignment)
            kept |= {int(i): codes[row].cpu().numpy() for row, i in enumerate(batch) if int(i) in wanted}
        if output.assignment is not None:
            slots = slots or AssignmentUse(output.assignment.shape[-1])
            slots.update(output.assignment)
        own = nearest if judgement.training.codebook else None
        scores.append(judgement.training.scores(patches, own).double().cpu())
    found = Pass(order, torch.cat(scores).numpy() if scores else np.zeros((0, 3)), grid, survey, slots)
    found.maps = {int(index): kept[int(index)] for index in judgement.shown if int(index) in kept}
    if len(known):
        found.on_object = _cover(stream, judgement.source, known, kept, grid)
    return found


def _annotated(source: DataSource, indices: Indices) -> Indices:
    """Some images of which it is known where things are."""
    if not source.region_names:
        return indices[:0]
    return np.array([index for index in spread(indices, REGIONS) if source.annotation(int(index))], dtype=np.int64)


def _cover(
    stream: TokenStream, source: DataSource, known: Indices, kept: dict[int, Indices], grid: tuple[int, int]
) -> tuple[Indices, Floats] | None:
    reader = stream.pixels
    regions = read_regions(source, known, size=reader.size, fit=reader.fit, grid=grid)
    seen = np.flatnonzero(regions.seen[:, 0])  # the object comes first
    if not len(seen):
        return None
    codes = np.stack([kept[int(known[row])] for row in seen])
    return codes, regions.cover[seen, 0].astype(np.float64)
