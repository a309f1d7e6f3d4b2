"""What places are learned from, and where Gaussians begin (PF-CBM, sections 3.3 and 3.5): made once, before training.

| row of Table 2          | foreground  | keypoints | prior |
| pfcbm                   | box         | image     | no    |
| spatial_prior           | box         | none      | yes   |
| no_bbox_pca (_tight)    | pca (-tight)| image     | no    |
| no_bbox_spatial_prior   | pca         | none      | yes   |
| no_bbox_no_kp           | pca         | none      | no    |
| pseudo_kp (_tight)      | pca (-tight)| pseudo    | no    |
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from conceptlens.concepts.part_map import PartMap
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.data.labels.words import match
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, mean_places, patch_centers
from conceptlens.nn.grounding.object_frame import Pose, pose_of
from conceptlens.nn.grounding.pca_foreground import pca_foreground
from conceptlens.nn.grounding.places import PlaceTargets, TrainingImages
from conceptlens.nn.grounding.pseudo_keypoints import FOREGROUND, name_prototypes, prototype_points
from conceptlens.nn.quantization.clusters import kmeans, sample_rows

Foreground = Literal["box", "pca", "pca-tight", "none"]
Keypoints = Literal["image", "pseudo", "none"]
PATCHES = 65_536  # foreground patches at most that are clustered


@dataclass(frozen=True)
class PartTargets:
    """The sources of supervision by place that a row of Table 2 has."""

    routes: PartMap
    foreground: Foreground
    keypoints: Keypoints
    prior: bool
    fraction: float
    pose: Pose
    option: str = ""  # that asks for places, for errors; PF-CBM's own if empty
    partial: bool = False  # whether points of some of the parts are enough

    def find(
        self, images: TrainingImages, prior: GaussianPrior | None, frame: tuple[Tensor, Tensor]
    ) -> PlaceTargets | None:
        """Targets of all training images.

        Args:
            images: The training images.
            prior: The Gaussians; it sets where they begin.
            frame: Center (2,) and spread () of a typical object, which it sets for poses.
        """
        target, known = self._foreground(images)
        if self.pose != "image" and self.prior:
            self._set_pose(target, images, frame)
        points = seen = None
        if self.keypoints == "image":
            points, seen = self._marked(images, torch.arange(images.count), self.option or "method.keypoints: image")
        elif self.keypoints == "pseudo":
            points, seen = self._pseudo(images, target)
        if prior is not None:
            self._start(images, prior, frame, target)
        if target is None and points is None:
            return None
        return PlaceTargets(None if target is None else target.half(), known, points, seen)

    def _foreground(self, images: TrainingImages) -> tuple[Tensor | None, Tensor | None]:
        if self.foreground == "none":
            return None, None
        if self.foreground == "box":
            return images.boxes()
        tight = self.foreground == "pca-tight"
        maps = torch.cat([pca_foreground(each.patches, each.grid, tight=tight).cpu() for each in images.tokens()])
        return maps, torch.ones(len(maps), dtype=torch.bool)

    def _chosen(self, images: TrainingImages) -> Tensor:
        """The share of the images that is annotated, at random but for the seed."""
        count = max(1, round(self.fraction * images.count))
        order = torch.randperm(images.count, generator=torch.Generator().manual_seed(images.seed))
        return order[:count].sort().values

    def _marked(self, images: TrainingImages, rows: Tensor, why: str) -> tuple[Tensor, Tensor]:
        """The points of our parts in some images, (n, P, 2), and whether they are seen, (n, P)."""
        if not images.known_parts:
            raise UserError(
                f"{why} needs points of parts, but nothing is marked in these images. Name them in "
                "data.regions.points; or ask for a prior and name a part map with `places` in method.parts."
            )
        known = [part for part in self.routes.parts if match(part, images.known_parts)]
        for part in self.routes.parts:
            if part not in known and not (self.partial and known):
                raise UserError(
                    f"{why}: the data marks no part {part!r}. {did_you_mean(part, images.known_parts)} A part of "
                    f"another name is joined by data.regions.join, as {{{part}: [name in the data]}}; concepts are "
                    "given to other parts by a map in method.parts."
                )
        marked = images.marked(tuple(match(part, images.known_parts)[0] for part in known), rows)
        if not bool(marked.seen.any()):
            raise UserError(f"{why}: no part is visible in any of the {len(rows)} images that were looked at.")
        if len(known) == len(self.routes.parts):
            return marked.points, marked.seen
        images.note(f"{why}: the data marks {', '.join(known)}; nothing tells where the other parts are")
        columns = torch.tensor([self.routes.parts.index(part) for part in known])
        points = marked.points.new_zeros(len(rows), len(self.routes.parts), 2)
        seen = marked.seen.new_zeros(points.shape[:2])
        points[:, columns], seen[:, columns] = marked.points, marked.seen
        return points, seen

    def _start(
        self, images: TrainingImages, prior: GaussianPrior, frame: tuple[Tensor, Tensor], target: Tensor | None
    ) -> None:
        """Eq. 4, or the rough places of the part map where nobody marked points."""
        parts, (height, width) = self.routes.parts, images.grid
        known = [bool(match(part, images.known_parts)) for part in parts]
        if not all(known) and all(part in self.routes.places for part in parts):
            places = torch.tensor([self.routes.places[part] for part in parts])
            means = torch.stack((places[:, 1] * height, places[:, 0] * width), 1)
            prior.start(means.to(prior.means), (places[:, 2] * (height * width) ** 0.5).to(prior.means))
            images.note(
                "the Gaussians begin at the rough places of the part map: the data marks no points of its parts"
            )
            return
        rows = self._chosen(images)
        points, seen = self._marked(images, rows, self.option or "method.prior")
        if target is not None and self.pose != "image":
            centers = patch_centers(images.grid, target)
            gate, mirrored = target[rows], self.pose == "mirrored"
            middle, size, side = pose_of(centers, gate, mirrored=mirrored)
            away = (points - middle[:, None]) / size[:, None, None]
            away[..., 1] *= side[:, None]
            points = frame[0].cpu() + frame[1].cpu() * away
        means = mean_places(points, seen)
        missing = [part for part, mean in zip(parts, means, strict=True) if bool(mean.isnan().any())]
        if missing:
            raise UserError(
                f"method.keypoint_fraction: {', '.join(missing)}: visible in none of the {len(rows)} annotated "
                "images, so nothing says where the Gaussian begins. Annotate more images, or raise the fraction."
            )
        prior.start(means.to(prior.means), grid=images.grid)
        images.note(f"the Gaussians of {len(parts)} parts begin at the mean points of {len(rows)} training images")

    def _set_pose(self, target: Tensor | None, images: TrainingImages, frame: tuple[Tensor, Tensor]) -> None:
        if target is None:
            raise UserError("method.pose: the object's frame needs a foreground; set method.foreground to box or pca.")
        middle, size, _ = pose_of(patch_centers(images.grid, target), target, mirrored=False)
        frame[0].copy_(middle.mean(0))
        frame[1].copy_(size.mean())

    def _pseudo(self, images: TrainingImages, target: Tensor | None) -> tuple[Tensor, Tensor]:
        """Points of prototypes in every image, under the names that a few marked images give them."""
        if target is None:
            raise UserError("method.keypoints: pseudo points are looked for in the foreground; set method.foreground.")
        generator = torch.Generator().manual_seed(images.seed)
        few = []
        for tokens, maps in _with(images.tokens(), target):
            inside = tokens.patches[maps.to(tokens.patches.device) >= FOREGROUND]
            few.append(sample_rows(inside, max(1, PATCHES * len(maps) // images.count), generator).float())
        prototypes = kmeans(torch.cat(few), len(self.routes.parts), seed=images.seed)
        found = [
            prototype_points(
                tokens.patches, maps.to(device), patch_centers(tokens.grid, tokens.patches), prototypes.to(device)
            )
            for tokens, maps in _with(images.tokens(), target)
            for device in (tokens.patches.device,)
        ]
        points, seen = (torch.cat([each[at].cpu() for each in found]) for at in (0, 1))
        rows = self._chosen(images)
        true, true_seen = self._marked(images, rows, "method.keypoints: pseudo")
        far = (images.grid[0] ** 2 + images.grid[1] ** 2) ** 0.5
        names = name_prototypes(points[rows], seen[rows], true, true_seen, far)
        images.note(f"{len(names)} prototypes of foreground patches were named on {len(rows)} training images")
        return points[:, names], seen[:, names]


def _with(batches: Iterator[Tokens], maps: Tensor) -> Iterator[tuple[Tokens, Tensor]]:
    """Each batch of tokens with its rows of the maps."""
    start = 0
    for tokens in batches:
        yield tokens, maps[start : start + len(tokens.patches)].float()
        start += len(tokens.patches)
