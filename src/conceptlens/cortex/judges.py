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
        side = (card.image_size, card.image_size)
        seen = images.to(run.device)
        if tuple(images.shape[-2:]) != side:
            seen = interpolate(seen, side, mode="bicubic", antialias=True, align_corners=False)
        output = pipeline(seen.clamp(0, 1))
        logits = output.logits if by_class else output.concept_logits
        found: Tensor = logits.float()[:, columns].softmax(1).to(images.device)
        return found

    return judge
