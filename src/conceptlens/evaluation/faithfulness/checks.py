"""Everything that is asked of the maps of a batch of images; one number an image, by topic and name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from conceptlens.concepts import ConceptSet
from conceptlens.data.regions.regions import Regions
from conceptlens.evaluation.faithfulness import (
    filled,
    insertion_deletion,
    occlude_parts,
    own_against_others,
    random_orders,
    rank_correlation,
    with_noise,
)
from conceptlens.evaluation.faithfulness.moved import (
    background_color,
    farthest_shift,
    followed,
    move_region,
    roll_cells,
    swap_backgrounds,
)
from conceptlens.evaluation.faithfulness.norms import highest_norm, leaving, mass_on
from conceptlens.evaluation.localization import center_prior_maps
from conceptlens.evaluation.localization.energy import as_mass, energy
from conceptlens.explanations.maps.concept_maps import GRADCAM, OWN, concept_maps, own_maps
from conceptlens.explanations.maps.gradcam import watch
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import concept_probabilities

Floats = npt.NDArray[np.float64]
CENTER_SIGMA = 0.25  # σ of the centered order, in sides of the image
RANDOM, CENTER = "random", "center"
DROP_STEPS = 4  # in which patches are dropped


@dataclass
class Columns:
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
class Plan:
    """What stays the same over all batches."""

    pipeline: Pipeline
    shuffled: Mapping[str, Pipeline]  # with shuffled weights: of everything, of the encoder, of the head
    concepts: ConceptSet
    grid: tuple[int, int]
    part_of: Tensor | None  # (K,) positions of regions, where the data knows any
    fill: str
    color: Tensor  # (3,): what stands where a patch is dropped
    steps: int
    noise: float
    seed: int

    def score(self, images: Tensor) -> Tensor:
        """Probabilities (n, K) of the concepts."""
        with torch.no_grad():
            return concept_probabilities(self.pipeline(images).concept_logits, self.concepts.groups)


def judge_maps(plan: Plan, columns: Columns, images: Tensor, start: int) -> Tensor:
    """Orders, noise and random weights of a batch whose first image is number `start`; the concept of each image."""
    blocks = plan.pipeline.encoder.blocks()
    with leaving(blocks[-1]) as left:
        made = concept_maps(plan.pipeline, images)
    cells = made.grid[0] * made.grid[1]
    scores = plan.score(images)
    concepts = follow(scores, plan.concepts, start)
    rows = torch.arange(len(images), device=images.device)
    orders = {name: maps[rows, concepts] for name, maps in made.maps.items()}
    shown = dict(orders)
    orders[CENTER] = center_prior_maps([CENTER_SIGMA], made.grid).to(images.device).expand(len(images), -1)
    orders[RANDOM] = random_orders(len(images), cells, plan.seed + start).to(images.device)
    fills: dict[str, tuple[str | Tensor, int]] = {
        "curves": (plan.fill, plan.steps),
        "dropped": (plan.color, min(DROP_STEPS, plan.steps)),
    }
    for topic, (fill, steps) in fills.items():
        ends = scores, plan.score(filled(images, fill))
        for name, order in orders.items():
            curves = insertion_deletion(
                plan.score, images, order, concepts, made.grid, fill=fill, steps=steps, ends=ends
            )
            columns.add(topic, name, "deletion", curves.deletion_area)
            columns.add(topic, name, "insertion", curves.insertion_area)
    noisy = concept_maps(plan.pipeline, with_noise(images, plan.noise, plan.seed + start)).maps
    blank = concept_maps(plan.shuffled["randomized"], images).maps
    for name, maps in made.maps.items():
        columns.add("stability", name, "value", rank_correlation(maps, noisy[name]))
        columns.add("randomized", name, "value", rank_correlation(maps, blank[name]))
        alone = len(images) == 1  # there is no other image to compare with
        columns.add(
            "other_image", name, "value", rank_correlation(maps, maps.roll(1, 0)) * (torch.nan if alone else 1.0)
        )
        if name != OWN and OWN in made.maps:
            columns.add("agreement", f"{OWN} and {name}", "value", rank_correlation(made.maps[OWN], maps))
    for topic in ("random_encoder", "random_head"):
        other = maps_of(plan.shuffled[topic], images, concepts)
        for name, maps in shown.items():
            columns.add(topic, name, "value", rank_correlation(maps, other[name]))
    tokens = left[-1] if left and left[-1].ndim == 3 and left[-1].shape[1] >= cells else made.patches
    marks = highest_norm(tokens.detach(), cells)
    columns.add("high_norm", "area", "value", marks.mean(-1))
    for name, maps in shown.items():
        columns.add("high_norm", name, "value", mass_on(maps, marks))
    return concepts


def maps_of(pipeline: Pipeline, images: Tensor, concepts: Tensor) -> dict[str, Tensor]:
    """The maps (B, L) of one concept (B,) of each image, by kind: a single backward pass."""
    watched = watch(pipeline, images)
    maps: dict[str, Tensor] = {GRADCAM: watched.maps(concepts[:, None])[:, 0]}
    own = own_maps(watched.output, pipeline.model)
    if own is not None:
        maps[OWN] = own[torch.arange(len(images), device=images.device), concepts]
    return maps


def follow(shares: Tensor, concepts: ConceptSet, start: int) -> Tensor:
    """The concept that is followed in each image, (B,): the likeliest of a group, the groups taking turns."""
    spans = [group.concepts for group in concepts.groups]
    likeliest = torch.stack([shares[:, span].argmax(1) + span.start for span in spans], 1)
    turn = (torch.arange(len(shares), device=shares.device) + start) % len(concepts.groups)
    return likeliest.gather(1, turn[:, None])[:, 0]


def judge_regions(plan: Plan, columns: Columns, images: Tensor, concepts: Tensor, whole: Regions) -> None:
    """Hidden parts, other backgrounds and moved regions of a batch; `whole` are regions pixel by pixel."""
    side = images.shape[-1]
    cover = torch.from_numpy(whole.cover).to(images.device).view(len(images), -1, side, side)
    seen = torch.from_numpy(whole.seen).to(images.device)
    if plan.part_of is not None and bool((plan.part_of > 0).any()):
        hide_parts(plan, columns, images, cover[:, 1:], seen[:, 1:])
    _swap(plan, columns, images, concepts, cover[:, 0], seen[:, 0])
    _move(plan, columns, images, concepts, cover, seen)


def hide_parts(plan: Plan, columns: Columns, images: Tensor, masks: Tensor, seen: Tensor) -> None:
    """Hide each part (B, R, H, W) of each image."""
    assert plan.part_of is not None
    change = occlude_parts(plan.score, images, masks, fill=plan.fill)
    found = own_against_others(change, seen, plan.part_of - 1)
    columns.add("occlusion", "own", "value", found.own)
    columns.add("occlusion", "others", "value", found.others)
    columns.add("occlusion", "wins", "value", found.wins)
    columns.add("occlusion", "own - others", "value", found.own - found.others)


def _swap(plan: Plan, columns: Columns, images: Tensor, concepts: Tensor, masks: Tensor, seen: Tensor) -> None:
    """The object before another image's background."""
    changed = swap_backgrounds(images, masks)
    known = seen & seen.roll(1, 0) & (len(images) > 1)  # an image alone has no other's background
    _readings(plan, columns, "background_swap", images, changed, concepts, known)
    cells = _on_grid(masks, plan.grid)
    for moment, pixels in (("before", images), ("after", changed)):
        for name, maps in maps_of(plan.pipeline, pixels, concepts).items():
            columns.add(
                "background_swap", f"{name} on object, {moment}", "value", _where(known, energy(as_mass(maps), cells))
            )


def _move(plan: Plan, columns: Columns, images: Tensor, concepts: Tensor, cover: Tensor, seen: Tensor) -> None:
    """The part of the followed concept, or the object, as far away as there is room."""
    rows = torch.arange(len(images), device=images.device)
    part = torch.zeros_like(concepts) if plan.part_of is None else plan.part_of[concepts].clamp(min=0)
    part = torch.where(seen[rows, part], part, 0)
    masks = cover[rows, part]
    shifts = torch.tensor([farthest_shift(mask, plan.grid) for mask in masks], device=images.device)
    known = seen[rows, part] & (shifts != 0).any(1)
    changed = move_region(images, masks, shifts, plan.grid, background_color(images, cover[:, 0]))
    _readings(plan, columns, "moved", images, changed, concepts, known)
    old = _on_grid(masks, plan.grid)
    new = roll_cells(old, shifts, plan.grid)
    before, after = (maps_of(plan.pipeline, pixels, concepts) for pixels in (images, changed))
    for name in before:
        gained, possible = followed(before[name], after[name], old, new)
        columns.add("moved", name, "gained", _where(known, gained))
        columns.add("moved", name, "possible", _where(known, possible))


def _readings(
    plan: Plan, columns: Columns, topic: str, images: Tensor, changed: Tensor, concepts: Tensor, known: Tensor
) -> None:
    """Whether the followed concept is still read, and how far its probability moved."""
    before, after = plan.score(images), plan.score(changed)
    held = torch.stack([_is_read(shares, concepts, plan.concepts) for shares in (before, after)]).all(0)
    was = _is_read(before, concepts, plan.concepts)
    moved = (after - before).gather(1, concepts[:, None])[:, 0].abs()
    columns.add(topic, "held", "value", _where(known & was, held.double()))
    columns.add(topic, "change", "value", _where(known, moved))


def _is_read(shares: Tensor, concepts: Tensor, vocabulary: ConceptSet) -> Tensor:
    """Whether a concept (B,) is what is read of each image: likeliest of its exclusive group, or likely."""
    read = shares >= 0.5
    for group in vocabulary.groups:
        if group.kind == "exclusive":
            own = shares[:, group.concepts]
            read[:, group.concepts] = own >= own.amax(1, keepdim=True)
    return read.gather(1, concepts[:, None])[:, 0]


def _on_grid(masks: Tensor, grid: tuple[int, int]) -> Tensor:
    return adaptive_avg_pool2d(masks[:, None].float(), grid).flatten(1)


def _where(known: Tensor, values: Tensor) -> Tensor:
    return torch.where(known, values.double(), torch.nan)
