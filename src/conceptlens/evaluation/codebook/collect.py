"""One pass over the audited images: codes, slots, scores of out-of-distribution detection, and maps of a few images.

The pass goes in chunks of some thousand images. Several processes may compute them; they are added up in their order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.data.dataset import DataSource
from conceptlens.data.regions.regions import read_regions
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.codebook.stream import BATCH, TokenStream
from conceptlens.evaluation.codebook.survey import Survey
from conceptlens.evaluation.ood.codebook_distance import TrainingDistribution
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.quantization.usage import AssignmentUse

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
REGIONS = 300  # images whose regions are looked at
CHUNK = 64 * BATCH  # images that are added up together


@dataclass
class Collected:
    """What the whole pass collected."""

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


@dataclass(frozen=True)
class Plan:
    """Which images are read, in which order, and what they are compared with: all that every process must know."""

    order: Indices  # random: neighbors in a list are often alike, and must not be permuted with each other
    training: TrainingDistribution
    shown: Indices  # images whose index maps are kept
    known: Indices  # images whose regions are known
    calibration: Indices  # images of which only the scores are wanted

    @classmethod
    def of(
        cls,
        indices: Indices,
        training: TrainingDistribution,
        source: DataSource,
        *,
        shown: Indices,
        calibration: Indices,
        codebook: bool,
    ) -> "Plan":
        known = _annotated(source, indices) if codebook else indices[:0]
        return cls(np.random.default_rng(0).permutation(indices), training, shown, known, calibration)

    def to_tensors(self) -> dict[str, Tensor]:
        """As tensors that `from_tensors` reads."""
        rows = {name: torch.from_numpy(getattr(self, name).copy()) for name in _ROWS}
        return rows | {f"training {name}": value for name, value in self.training.to_tensors().items()}

    @classmethod
    def from_tensors(cls, values: Mapping[str, Tensor]) -> "Plan":
        training = TrainingDistribution.from_tensors(_below(values, "training "))
        return cls(training=training, **{name: values[name].numpy() for name in _ROWS})

    def to(self, device: torch.device) -> "Plan":
        """The same on a device."""
        return replace(self, training=self.training.to(device))

    @property
    def chunks(self) -> int:
        """Of the audited images; the chunks of the calibration images follow."""
        return -(-len(self.order) // CHUNK)

    @property
    def all_chunks(self) -> int:
        return self.chunks - (-len(self.calibration) // CHUNK)


_ROWS = ("order", "shown", "known", "calibration")


@dataclass
class Partial:
    """What was collected from some images; that of the next images can be added."""

    scores: list[Tensor] = field(default_factory=list)  # (n, 3) each
    grid: tuple[int, int] = (1, 1)
    survey: Survey | None = None
    slots: AssignmentUse | None = None
    kept: dict[int, Indices] = field(default_factory=dict)

    def add(self, other: "Partial") -> None:
        self.scores += other.scores
        self.grid = other.grid if other.scores else self.grid
        self.kept |= other.kept
        if self.survey is None:
            self.survey = other.survey
        elif other.survey is not None:
            self.survey.add(other.survey)
        if self.slots is None:
            self.slots = other.slots
        elif other.slots is not None:
            self.slots.add(other.slots)

    def to_tensors(self) -> dict[str, Tensor]:
        """As tensors that `from_tensors` reads."""
        values = {"scores": torch.cat(self.scores), "grid": torch.tensor(self.grid)}
        values |= {f"codes of {image}": torch.from_numpy(codes) for image, codes in self.kept.items()}
        for part, found in (("survey", self.survey), ("slots", self.slots)):
            if found is not None:
                values |= {f"{part} {name}": value for name, value in found.to_tensors().items()}
        return values

    @classmethod
    def from_tensors(cls, values: Mapping[str, Tensor], codebook: Tensor | None) -> "Partial":
        height, width = values["grid"].tolist()
        survey, slots = _below(values, "survey "), _below(values, "slots ")
        return cls(
            [values["scores"]],
            (height, width),
            Survey.from_tensors(codebook, survey) if survey and codebook is not None else None,
            AssignmentUse.from_tensors(slots) if slots else None,
            {int(image): codes.numpy() for image, codes in _below(values, "codes of ").items()},
        )


def collect_chunk(stream: TokenStream, plan: Plan, chunk: int, codebook: Tensor | None) -> Partial:
    """Read every image of a chunk once."""
    if chunk >= plan.chunks:
        start = (chunk - plan.chunks) * CHUNK
        tokens = stream.tokens(plan.calibration[start : start + CHUNK])
        return Partial([plan.training.scores(each.patches).double().cpu() for _, each in tokens])
    found = Partial(survey=None if codebook is None else Survey(codebook, seed=chunk))
    wanted = {int(index) for index in (*plan.shown, *plan.known)}
    for batch, patches, layout, output in stream.outputs(plan.order[chunk * CHUNK : (chunk + 1) * CHUNK]):
        found.grid = layout
        nearest = None
        if found.survey is not None:
            nearest, codes = found.survey.update(torch.from_numpy(batch), patches, output.assignment)
            found.kept |= {int(i): codes[row].cpu().numpy() for row, i in enumerate(batch) if int(i) in wanted}
        if output.assignment is not None:
            found.slots = found.slots or AssignmentUse(output.assignment.shape[-1])
            found.slots.update(output.assignment)
        own = nearest if plan.training.codebook else None
        found.scores.append(plan.training.scores(patches, own).double().cpu())
    return found


def merge(stream: TokenStream, plan: Plan, chunks: Iterable[Partial], source: DataSource) -> tuple[Collected, Floats]:
    """The pass of all chunks, in their order; and the scores (n, 3) of the calibration images."""
    whole, calibration = Partial(), Partial()
    for number, chunk in enumerate(chunks):
        (whole if number < plan.chunks else calibration).add(chunk)
    collected = Collected(plan.order, _scores(whole), whole.grid, whole.survey, whole.slots)
    collected.maps = {int(index): whole.kept[int(index)] for index in plan.shown if int(index) in whole.kept}
    if len(plan.known):
        collected.on_object = _cover(stream, source, plan.known, whole.kept, whole.grid)
    return collected, _scores(calibration)


def _scores(found: Partial) -> Floats:
    return torch.cat(found.scores).numpy() if found.scores else np.zeros((0, 3))


def _below(values: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    return {name.removeprefix(part): value for name, value in values.items() if name.startswith(part)}


def _annotated(source: DataSource, indices: Indices) -> Indices:
    """Some images whose regions are known."""
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
