"""Do the maps of a trained run show what it used? Insertion, deletion, occlusion of parts, noise, randomized weights.

Insertion and deletion follow one concept of each image, the groups taking turns: the value that the model reads in
that group. Everything else looks at all concepts. Scores are probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import PrivateAttr
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.regions.regions import read_regions, region_names
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.faithfulness import (
    FILLS,
    insertion_deletion,
    occlude_parts,
    own_against_others,
    random_orders,
    rank_correlation,
    shuffled,
    with_noise,
)
from conceptlens.evaluation.images import Judged, judged_images
from conceptlens.evaluation.localization import center_prior_maps, differences, summarize
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.summary import estimate_cells
from conceptlens.explanations.maps.concept_maps import OWN, concept_maps
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import concept_probabilities
from conceptlens.runs.predictions import units_of

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Floats = npt.NDArray[np.float64]
BATCH = 16
CENTER_SIGMA = 0.25  # σ of the centered order, in sides of the image
RANDOM, CENTER = "random", "center"
TOPICS = ("occlusion", "stability", "other_image", "randomized", "agreement")


class Faithfulness(Document):
    """Whether maps show what was used; numbers are estimates with their intervals."""

    remedy = "Measure it again with `conceptlens localize RUN --faithfulness N`."

    run: str
    method: str
    data: str
    split: str
    images: int
    fill: str
    steps: int
    noise: float
    seed: int
    center_sigma: float
    curves: dict[str, dict[str, Any]]  # deletion and insertion of each map
    against_random: dict[str, dict[str, Any]]
    occlusion: dict[str, dict[str, Any]]
    stability: dict[str, dict[str, Any]]
    other_image: dict[str, dict[str, Any]]
    randomized: dict[str, dict[str, Any]]
    agreement: dict[str, dict[str, Any]]
    _file: str = PrivateAttr(default="faithfulness.json")

    @property
    def default_file(self) -> str:
        """Its place in the run folder; other data is named in it."""
        return self._file

    def text(self) -> str:
        lines = [f"faithfulness of {self.images} images, fill {self.fill}"]
        for name, areas in self.curves.items():
            lines.append(f"  {name:8} " + ", ".join(f"{key} {_shown(value)}" for key, value in areas.items()))
        for topic in TOPICS:
            if numbers := getattr(self, topic):
                lines.append(f"  {topic}: " + ", ".join(f"{name} {_shown(value)}" for name, value in numbers.items()))
        return "\n".join(lines)

    def table(self) -> list[TableRow]:
        """Every number: its measure, and the map or the side that it is of."""
        areas: list[TableRow] = [
            {"measure": measure, "of": name, **estimate_cells(estimate)}
            for name, measures in self.curves.items()
            for measure, estimate in measures.items()
        ]
        return areas + [
            {"measure": topic, "of": name, **estimate_cells(estimate)}
            for topic in TOPICS
            for name, estimate in getattr(self, topic).items()
        ]


def _shown(estimate: Mapping[str, Any]) -> str:
    return "-" if estimate["value"] is None else f"{estimate['value']:.3f}"


@dataclass
class _Columns:
    """Numbers of each image, (N, K) or (N, 1), by topic and name."""

    rows: dict[str, dict[str, dict[str, list[Tensor]]]] = field(default_factory=dict)

    def add(self, topic: str, name: str, key: str, values: Tensor) -> None:
        columns = values.double().cpu().reshape(len(values), -1)
        self.rows.setdefault(topic, {}).setdefault(name, {}).setdefault(key, []).append(columns)

    def joined(self, topic: str) -> dict[str, dict[str, Floats]]:
        return {
            name: {key: torch.cat(parts).numpy() for key, parts in found.items()}
            for name, found in self.rows.get(topic, {}).items()
        }


@dataclass(frozen=True)
class _Plan:
    """What stays the same over all batches."""

    pipeline: Pipeline
    other: Pipeline  # with shuffled weights
    concepts: ConceptSet
    judged: Judged
    part_of: Tensor | None  # (K,) positions of regions, where the data knows any
    fill: str
    steps: int
    noise: float
    seed: int

    def score(self, images: Tensor) -> Tensor:
        """Probabilities (n, K) of the concepts."""
        with torch.no_grad():
            return concept_probabilities(self.pipeline(images).concept_logits, self.concepts.groups)


def faithfulness_run(
    run: "OpenedRun",
    *,
    split: str | None = None,
    data: Mapping[str, Any] | None = None,
    n: int = 64,
    fill: str = "blur",
    steps: int = 14,
    noise: float = 0.02,
    seed: int = 0,
) -> Faithfulness:
    """Measure how faithful the maps of a finished run are; nothing is written.

    Args:
        run: The run.
        split: As for `localize_run`.
        data: As for `localize_run`; without regions, parts are not occluded.
        n: At most so many images, evenly spread over the split.
        fill: What stands where something was taken away: `black`, `mean` or `blur`.
        steps: In which cells are taken away and put back.
        noise: Deviation of the noise of the stability check, in parts of the full range.
        seed: Of noise, random orders and shuffled weights.
    """
    if fill not in FILLS:
        raise unknown_name("fill", fill, FILLS)
    if n < 1 or steps < 1 or noise <= 0:
        raise UserError(
            f"Faithfulness needs at least one image and one step, and noise above 0; found {n}, {steps}, {noise}."
        )
    run.need_concepts("it has no maps of them")
    pipeline, card, concepts, device = run.pipeline, run.card, run.concepts, run.device
    judged = judged_images(run, data, split)
    indices = spread(judged.indices, n)
    part_of = None
    if judged.source.region_names:
        parts = concept_parts(concepts, region_names(judged.source), judged.config.regions.concepts)
        part_of = torch.from_numpy(parts).to(device)
    other = shuffled(pipeline, seed).eval()
    plan = _Plan(pipeline, other, concepts, judged, part_of, fill, steps, noise, seed)
    columns = _Columns()
    with PixelReader(judged.source, card.image_size, card.fit, cache_mb=0) as reader:
        for start in range(0, len(indices), BATCH):
            batch = indices[start : start + BATCH]
            images = reader.batch(batch).to(device).float() / 255
            _maps(plan, columns, images, start)
            if part_of is not None and bool((part_of > 0).any()):
                whole = read_regions(
                    judged.source, batch, size=card.image_size, fit=card.fit, grid=(card.image_size, card.image_size)
                )
                _occlusion(plan, columns, images, whole.cover, whole.seen, whole.parts)
    units = units_of(judged.source, indices)

    def means(found: Mapping[str, Floats]) -> dict[str, Any]:
        return summarize(found, range(next(iter(found.values())).shape[1]), units, judged.metrics)

    def topic(name: str) -> dict[str, Any]:
        return {kind: means(found)["value"] for kind, found in columns.joined(name).items()}

    curves = columns.joined("curves")
    faithfulness = Faithfulness(
        run=run.name,
        method=run.info["method"],
        data=judged.source.name,
        split=judged.split,
        images=len(indices),
        fill=fill,
        steps=steps,
        noise=noise,
        seed=seed,
        center_sigma=CENTER_SIGMA,
        curves={name: means(found) for name, found in curves.items()},
        against_random={
            name: differences(found, curves[RANDOM], [0], units, judged.metrics)
            for name, found in curves.items()
            if name != RANDOM
        },
        occlusion=topic("occlusion"),
        stability=topic("stability"),
        other_image=topic("other_image"),
        randomized=topic("randomized"),
        agreement=topic("agreement"),
    )
    faithfulness._file = judged.file("faithfulness")
    return faithfulness


def _maps(plan: _Plan, columns: _Columns, images: Tensor, start: int) -> None:
    """Everything that is asked of the maps of a batch, whose first image is number `start`."""
    made = concept_maps(plan.pipeline, images)
    cells = made.grid[0] * made.grid[1]
    followed = _followed(plan.score(images), plan.concepts, start)
    rows = torch.arange(len(images), device=images.device)
    orders = {name: maps[rows, followed] for name, maps in made.maps.items()}
    orders[CENTER] = center_prior_maps([CENTER_SIGMA], made.grid).to(images.device).expand(len(images), -1)
    orders[RANDOM] = random_orders(len(images), cells, plan.seed + start).to(images.device)
    for name, order in orders.items():
        curves = insertion_deletion(plan.score, images, order, followed, made.grid, fill=plan.fill, steps=plan.steps)
        columns.add("curves", name, "deletion", curves.deletion_area)
        columns.add("curves", name, "insertion", curves.insertion_area)
    noisy = concept_maps(plan.pipeline, with_noise(images, plan.noise, plan.seed + start)).maps
    blank = concept_maps(plan.other, images).maps
    for name, maps in made.maps.items():
        columns.add("stability", name, "value", rank_correlation(maps, noisy[name]))
        columns.add("randomized", name, "value", rank_correlation(maps, blank[name]))
        alone = len(images) == 1  # there is no other image to compare with
        columns.add(
            "other_image", name, "value", rank_correlation(maps, maps.roll(1, 0)) * (torch.nan if alone else 1.0)
        )
        if name != OWN and OWN in made.maps:
            columns.add("agreement", f"{OWN} and {name}", "value", rank_correlation(made.maps[OWN], maps))


def _followed(shares: Tensor, concepts: ConceptSet, start: int) -> Tensor:
    """The concept that is followed in each image, (B,): the likeliest of a group, the groups taking turns."""
    spans = [group.concepts for group in concepts.groups]
    likeliest = torch.stack([shares[:, span].argmax(1) + span.start for span in spans], 1)
    turn = (torch.arange(len(shares), device=shares.device) + start) % len(concepts.groups)
    return likeliest.gather(1, turn[:, None])[:, 0]


def _occlusion(
    plan: _Plan,
    columns: _Columns,
    images: Tensor,
    cover: npt.NDArray[np.float32],
    seen: npt.NDArray[np.bool_],
    names: Sequence[str],
) -> None:
    """Hide each part of each image; the object as a whole, the first of the names, is no part."""
    assert plan.part_of is not None
    side = images.shape[-1]
    masks = torch.from_numpy(cover[:, 1:]).to(images.device).view(len(images), len(names) - 1, side, side)
    change = occlude_parts(plan.score, images, masks, fill=plan.fill)
    found = own_against_others(change, torch.from_numpy(seen[:, 1:]).to(images.device), plan.part_of - 1)
    for key, values in (("own", found.own), ("others", found.others), ("wins", found.wins)):
        columns.add("occlusion", key, "value", values)
