"""Do the maps of a trained run show what it used? Pixels change, the image is encoded again, and scores are followed.

Most measures follow one concept of each image, the groups taking turns: the value that the model reads in that group.
Occlusion, noise and fully shuffled weights look at all concepts. Scores are probabilities.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, PrivateAttr
from torch import Tensor

from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.regions.regions import read_regions, region_names
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.faithfulness import FILLS, shuffled
from conceptlens.evaluation.faithfulness.checks import (
    CENTER,
    CENTER_SIGMA,
    RANDOM,
    Columns,
    Floats,
    Plan,
    judge_maps,
    judge_regions,
)
from conceptlens.evaluation.faithfulness.verdict import faithfulness_numbers, judge_faithfulness
from conceptlens.evaluation.images import Judged, judged_images
from conceptlens.evaluation.localization import differences, summarize
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.summary import estimate_cells, estimates, mean_of
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.runs.predictions import units_of
from conceptlens.runs.saved import Card
from conceptlens.stats.bootstrap import Statistic

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

BATCH = 16
COLOR_IMAGES = 64  # training images at most whose mean color stands for a dropped patch
TOPICS = (
    "occlusion",
    "background_swap",
    "moved",
    "stability",
    "other_image",
    "randomized",
    "random_encoder",
    "random_head",
    "high_norm",
    "agreement",
)
LITTLE = 0.02  # of a map's mass: with less on a region than elsewhere, there is nothing that could follow it


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
    against_center: dict[str, dict[str, Any]] = Field(default_factory=dict)
    dropped: dict[str, dict[str, Any]] = Field(default_factory=dict)  # curves and differences with patches dropped
    background_swap: dict[str, dict[str, Any]] = Field(default_factory=dict)
    moved: dict[str, dict[str, Any]] = Field(default_factory=dict)
    random_encoder: dict[str, dict[str, Any]] = Field(default_factory=dict)
    random_head: dict[str, dict[str, Any]] = Field(default_factory=dict)
    high_norm: dict[str, dict[str, Any]] = Field(default_factory=dict)
    verdict: Verdict = Verdict(outcome="unmeasured", reason="It was measured by an earlier version. Measure it again.")
    numbers: Numbers = Field(default_factory=dict)
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
        return "\n".join([*lines, "", self.verdict.text()])

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


def faithfulness_run(
    run: "OpenedRun",
    *,
    split: str | None = None,
    data: Mapping[str, Any] | None = None,
    n: int = 64,
    fill: str = "blur",
    steps: int = 8,
    noise: float = 0.02,
    seed: int = 0,
    folds: Sequence["OpenedRun"] = (),
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
        folds: Of a cross-validated run: each judges its share of the n images by its own model.
    """
    if fill not in FILLS:
        raise unknown_name("fill", fill, FILLS)
    if n < 1 or steps < 1 or noise <= 0:
        raise UserError(
            f"Faithfulness needs at least one image and one step, and noise above 0; found {n}, {steps}, {noise}."
        )
    columns, units = Columns(), list[str]()
    models = folds or [run]
    for model in models:
        judged = judged_images(model, data, split)
        indices = spread(judged.indices, -(-n // len(models)))
        _judge(model, judged, indices, columns, len(units), fill, steps, noise, seed)
        units += units_of(judged.source, indices)

    def means(found: Mapping[str, Floats]) -> dict[str, Any]:
        return summarize(found, range(next(iter(found.values())).shape[1]), units, judged.metrics)

    def topic(name: str) -> dict[str, Any]:
        return {kind: means(found)["value"] for kind, found in columns.joined(name).items()}

    def against(found: Mapping[str, Mapping[str, Floats]], other: str) -> dict[str, Any]:
        return {
            name: differences(areas, found[other], [0], units, judged.metrics)
            for name, areas in found.items()
            if name not in (RANDOM, other)
        }

    curves, dropped = columns.joined("curves"), columns.joined("dropped")
    faithfulness = Faithfulness(
        run=run.name,
        method=run.info["method"],
        data=judged.source.name,
        split=judged.split,
        images=len(units),
        fill=fill,
        steps=steps,
        noise=noise,
        seed=seed,
        center_sigma=CENTER_SIGMA,
        curves={name: means(found) for name, found in curves.items()},
        against_random=against(curves, RANDOM),
        against_center=against(curves, CENTER),
        dropped={
            "curves": {name: means(found) for name, found in dropped.items()},
            "against_random": against(dropped, RANDOM),
            "against_center": against(dropped, CENTER),
        },
        moved=_moved(columns.joined("moved"), units, judged),
        occlusion=topic("occlusion"),
        background_swap=topic("background_swap"),
        stability=topic("stability"),
        other_image=topic("other_image"),
        randomized=topic("randomized"),
        random_encoder=topic("random_encoder"),
        random_head=topic("random_head"),
        high_norm=topic("high_norm"),
        agreement=topic("agreement"),
    )
    faithfulness.verdict = judge_faithfulness(faithfulness.to_dict())
    faithfulness.numbers = faithfulness_numbers(faithfulness.to_dict())
    faithfulness._file = judged.file("faithfulness")
    return faithfulness


def _judge(
    run: "OpenedRun",
    judged: Judged,
    indices: npt.NDArray[np.int64],
    columns: Columns,
    first: int,
    fill: str,
    steps: int,
    noise: float,
    seed: int,
) -> None:
    """Numbers of images into the columns; `first` is the number of the first."""
    run.need_concepts("it has no maps of them")
    pipeline, card, concepts, device = run.pipeline, run.card, run.concepts, run.device
    part_of = None
    if judged.source.region_names:
        parts = concept_parts(concepts, region_names(judged.source), judged.config.regions.concepts)
        part_of = torch.from_numpy(parts).to(device)
    plan = Plan(
        pipeline,
        {
            "randomized": shuffled(pipeline, seed).eval(),
            "random_encoder": shuffled(pipeline, seed, "encoder").eval(),
            "random_head": shuffled(pipeline, seed, "model").eval(),
        },
        concepts,
        pipeline.encoder.grid(card.image_size, card.image_size),
        part_of,
        fill,
        _usual_color(judged, indices, card).to(device),
        steps,
        noise,
        seed,
    )
    side = (card.image_size, card.image_size)
    with PixelReader(judged.source, card.image_size, card.fit, cache_mb=0) as reader:
        for start in range(0, len(indices), BATCH):
            batch = indices[start : start + BATCH]
            images = reader.batch(batch).to(device).float() / 255
            followed = judge_maps(plan, columns, images, first + start)
            if part_of is not None:
                whole = read_regions(judged.source, batch, size=card.image_size, fit=card.fit, grid=side)
                judge_regions(plan, columns, images, followed, whole)


def _usual_color(judged: Judged, indices: npt.NDArray[np.int64], card: Card) -> Tensor:
    """The mean color (3,) of training images, or of the judged ones where there are no others."""
    some = spread(indices if judged.same else judged.fit_on, COLOR_IMAGES)
    with PixelReader(judged.source, card.image_size, card.fit, cache_mb=0) as reader:
        return (reader.batch(some).float() / 255).mean((0, 2, 3))


def _moved(found: Mapping[str, Mapping[str, Floats]], units: Sequence[str], judged: Judged) -> dict[str, Any]:
    """Of what maps could have followed, the share that did; and what was read of the changed images."""
    wanted: dict[str, Statistic] = {}
    for name, columns in found.items():
        if "value" in columns:
            wanted[name] = mean_of(columns["value"], [0])
        else:
            gained, possible = (mean_of(columns[key], [0]) for key in ("gained", "possible"))
            wanted[name] = _share(gained, possible)
            wanted[f"{name} gained"] = gained
    return estimates(wanted, len(units), units, judged.metrics)


def _share(gained: Statistic, possible: Statistic) -> Statistic:
    def ratio(weights: Floats) -> Floats:
        whole = possible(weights)
        return np.divide(gained(weights), whole, out=np.full_like(whole, np.nan), where=whole >= LITTLE)

    return ratio
