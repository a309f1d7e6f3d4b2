"""Independent judges: probabilities of images by finished runs or timm's classifiers, in an order that is asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.cortex.generators.condition import parse_condition
from conceptlens.cortex.masking import Judge
from conceptlens.gig.load_model import open_model
from conceptlens.gig.models.loaded import Asked
from conceptlens.runs.opened import OpenedRun

Judges = Sequence[str] | Mapping[str, Judge]  # run folders and timm names, or functions of images, by name
TIMM = "timm/"


def open_judges(judges: Judges, concepts: Sequence[str], *, device: torch.device | None = None) -> dict[str, Judge]:
    """Judges by name. Those that are given as functions must answer for the concepts in their order."""
    if isinstance(judges, Mapping):
        return dict(judges)
    return {
        str(word): (timm_judge if str(word).startswith(TIMM) else run_judge)(word, concepts, device=device)
        for word in judges
    }


def timm_judge(word: str | Path, concepts: Sequence[str], *, device: torch.device | None = None) -> Judge:
    """A judge from a classifier of timm.

    Args:
        word: `timm/NAME` with its published weights, or `timm/NAME=FILE.safetensors`.
        concepts: Its classes by name or, as generators of ImageNet call them, by number.
        device: Where it works; the CPU by default.
    """
    name, _, weights = str(word).partition("=")
    model = open_model(name, Asked(weights=weights or None))
    columns = []
    for concept in concepts:
        if concept in model.outputs:
            columns.append(model.outputs.index(concept))
        elif concept.isdigit() and int(concept) < len(model.outputs):
            columns.append(int(concept))
        else:
            raise unknown_name(f"class of {name}", concept, model.outputs)
    module, where = model.module.to(device or "cpu"), device or torch.device("cpu")

    @torch.no_grad()
    def judge(images: Tensor) -> Tensor:
        seen = model.prepare(_sized(images.to(where), model.image_size))
        probabilities: Tensor = module(seen).float()[:, columns].softmax(1).to(images.device)
        return probabilities

    return judge


def _sized(images: Tensor, side: int) -> Tensor:
    """Images (n, 3, H, W) as squares of a judge's size."""
    if tuple(images.shape[-2:]) != (side, side):
        images = interpolate(images, (side, side), mode="bicubic", antialias=True, align_corners=False)
    return images.clamp(0, 1)


def run_judge(path: str | Path, concepts: Sequence[str], *, device: torch.device | None = None) -> Judge:
    """A judge from the run folder of any method.

    Args:
        path: The run.
        concepts: What it is asked for: its classes by name, or values of one of its concept groups as `group=value`.
            The columns of its answers are theirs, scaled to sum to one over them.
        device: Where it works; the CPU by default.
    """
    run = OpenedRun.open(path, device=device or "cpu")
    pipeline, card, vocabulary = run.pipeline, run.card, run.concepts
    groups = {group.name: group.values for group in vocabulary.groups}
    conditions = [parse_condition(name, card.classes, groups) for name in concepts]
    by_class = all(condition.class_name is not None and not condition.attributes for condition in conditions)
    by_value = all(condition.class_name is None and len(condition.attributes) == 1 for condition in conditions)
    if not by_class and not by_value:
        raise UserError(
            f"{path}: a judge classifies into classes or into values of one concept group; it was asked for "
            f"{', '.join(concepts)}."
        )
    if by_class:
        columns = [card.classes.index(str(condition.class_name)) for condition in conditions]
    else:
        named = [f"{group}: {value}" for condition in conditions for group, value in condition.attributes.items()]
        columns = [vocabulary.names.index(name) for name in named]

    @torch.no_grad()
    def judge(images: Tensor) -> Tensor:
        output = pipeline(_sized(images.to(run.device), card.image_size))
        logits = output.logits if by_class else output.concept_logits
        found: Tensor = logits.float()[:, columns].softmax(1).to(images.device)
        return found

    return judge
