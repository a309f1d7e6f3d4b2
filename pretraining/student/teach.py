"""What the teachers say of a batch of views, in the form the student is asked for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from pretraining.teachers.contract import Classifier, Teacher


@dataclass
class Targets:
    """Teachers' answers for V views, in half precision.

    Args:
        classes: The teachers' mean class probabilities mixed with the true class, (V, 1000).
        place: Where the classifiers see those classes, zero mean and unit spread in each view, (V, 1, h, w).
        pooled: Teacher → standardized image vectors, (V, C).
        grids: Teacher → principal components of its map, each divided by √λ^½, (V, C', h, w).
    """

    classes: Tensor
    place: Tensor
    pooled: dict[str, Tensor]
    grids: dict[str, Tensor]


class Panel:
    """Several teachers and the statistics that put their answers on one scale.

    Vectors are standardized channel by channel; maps are centered and reduced to their first principal components,
    which fit into memory.
    """

    def __init__(self, teachers: Sequence[Teacher], grids: Mapping[str, int]) -> None:
        """`grids`: teacher → how many components of its map are taught."""
        self.teachers = list(teachers)
        self.grids = dict(grids)
        self.statistics: dict[str, Tensor] = {}

    @torch.no_grad()
    def fit(self, views: Tensor, batch: int = 256) -> None:
        """Learn the statistics from views (n, 3, S, S) in [0, 1]."""
        pooled: dict[str, list[Tensor]] = {}
        grids: dict[str, list[Tensor]] = {}
        for part in torch.split(views, batch):
            for teacher in self.teachers:
                said = teacher(part)
                if said.pooled is not None:
                    pooled.setdefault(teacher.name, []).append(said.pooled.float())
                if said.grid is not None and teacher.name in self.grids:
                    grids.setdefault(teacher.name, []).append(
                        said.grid.float().flatten(2).transpose(1, 2).flatten(0, 1)
                    )
        for name, parts in pooled.items():
            rows = torch.cat(parts)
            self.statistics[f"{name}.pooled.mean"] = rows.mean(0)
            self.statistics[f"{name}.pooled.std"] = rows.std(0) + 1e-4
        for name, parts in grids.items():
            rows = torch.cat(parts)
            mean = rows.mean(0)
            centered = (rows - mean).double()
            values, vectors = torch.linalg.eigh(centered.T @ centered / len(rows))
            keep = vectors[:, -self.grids[name] :].flip(1).float()
            # Between raw and whitened: √λ^½ keeps strong components ahead without drowning the others.
            scale = values[-self.grids[name] :].flip(0).clamp(min=1e-6).float().pow(-0.25)
            self.statistics[f"{name}.grid.mean"] = mean
            self.statistics[f"{name}.grid.basis"] = keep * scale
            self.statistics[f"{name}.grid.scale"] = scale

    def widths(self) -> tuple[dict[str, int], dict[str, int]]:
        """Teacher → width of its vector, and teacher → components of its map, as the statistics have them."""
        found = self.statistics.items()
        pooled = {name.split(".")[0]: len(value) for name, value in found if name.endswith(".pooled.mean")}
        return pooled, {name.split(".")[0]: value.shape[1] for name, value in found if name.endswith(".grid.basis")}

    @torch.no_grad()
    def __call__(self, views: Tensor, label: Tensor, trust: Tensor) -> Targets:
        """`label` (V,): the true class, −1 for none; `trust` (V,): its weight beside the teachers' opinion."""
        probabilities, pooled, grids = [], {}, {}
        maps: list[tuple[Classifier, Tensor]] = []
        for teacher in self.teachers:
            said = teacher(views)
            if said.logits is not None:
                probabilities.append(said.logits.float().softmax(-1))
            if isinstance(teacher, Classifier) and said.grid is not None:
                maps.append((teacher, said.grid))
            if said.pooled is not None:
                mean, std = (self.statistics[f"{teacher.name}.pooled.{key}"] for key in ("mean", "std"))
                pooled[teacher.name] = ((said.pooled.float() - mean) / std).half()
            if said.grid is not None and teacher.name in self.grids:
                mean, basis = (self.statistics[f"{teacher.name}.grid.{key}"] for key in ("mean", "basis"))
                centered = said.grid.float() - mean.view(1, -1, 1, 1)
                grids[teacher.name] = torch.einsum("bchw,cd->bdhw", centered, basis).half()
        opinion = torch.stack(probabilities).mean(0)
        share = (trust * (label >= 0)).unsqueeze(1)
        classes = (1 - share) * opinion + share * F.one_hot(label.clamp(min=0), opinion.shape[1])
        place = torch.stack([_standard(teacher.where(grid, classes)) for teacher, grid in maps]).sum(0)
        return Targets(classes.half(), _standard(place).unsqueeze(1).half(), pooled, grids)


def _standard(maps: Tensor) -> Tensor:
    """Maps (V, h, w) with zero mean and unit spread each."""
    rest = maps - maps.mean((1, 2), keepdim=True)
    return rest / (rest.square().mean((1, 2), keepdim=True).sqrt() + 1e-6)
