"""Independent judges: class or attribute probabilities of images by finished runs, in an order that is asked for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import parse_condition
from conceptlens.cortex.masking import Judge
from conceptlens.runs.opened import OpenedRun

Judges = Sequence[str] | Mapping[str, Judge]  # run folders, or anything that looks at images, by name


def open_judges(judges: Judges, concepts: Sequence[str], *, device: torch.device | None = None) -> dict[str, Judge]:
    """Judges by name. Those that are given as functions must answer for the concepts in their order."""
    if isinstance(judges, Mapping):
        return dict(judges)
    return {str(path): run_judge(path, concepts, device=device) for path in judges}


def run_judge(path: str | Path, concepts: Sequence[str], *, device: torch.device | None = None) -> Judge:
    """A judge from the run folder of any method.

    Args:
        path: The run.
        concepts: What it is asked: its classes by name, or values of one of its concept groups as `group=value`. The
            columns of its answers are theirs, scaled to sum to one over them.
        device: Where it works; the CPU by default.
    """
    run = OpenedRun.open(path, device=device or "cpu")
    pipeline, card, vocabulary = run.pipeline, run.card, run.concepts
    groups = {group.name: group.values for group in vocabulary.groups}
    asked = [parse_condition(name, card.classes, groups) for name in concepts]
    by_class = all(each.class_name is not None and not each.attributes for each in asked)
    by_value = all(each.class_name is None and len(each.attributes) == 1 for each in asked)
    if not by_class and not by_value:
        raise UserError(
            f"{path}: a judge tells classes apart, or values of concepts; it was asked for {', '.join(concepts)}."
        )
    if by_class:
        columns = [card.classes.index(str(each.class_name)) for each in asked]
    else:
        named = [f"{group}: {value}" for each in asked for group, value in each.attributes.items()]
        columns = [vocabulary.names.index(name) for name in named]

    @torch.no_grad()
    def judge(images: Tensor) -> Tensor:
        side = (card.image_size, card.image_size)
        seen = images.to(run.device)
        if tuple(images.shape[-2:]) != side:
            seen = interpolate(seen, side, mode="bicubic", antialias=True, align_corners=False)
        output = pipeline(seen.clamp(0, 1))
        logits = output.logits if by_class else output.concept_logits
        found: Tensor = logits.float()[:, columns].softmax(1).to(images.device)
        return found

    return judge
