"""What a method may be told about the places of parts (PF-CBM, sections 3.3 and 3.5), for any method with attention.

    points    each slot's center of attention is drawn to the points marked in the training images       L_al of Eq. 7
    prior     a learnable Gaussian for each part is added to the attention logits of its slots           Eq. 2

A slot speaks of the part that all its concepts speak of; one whose concepts speak of several parts, or of the whole, is
told nothing. Places are those of the training images: at test time no point is read.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.concepts.part_map import WHOLE, part_map
from conceptlens.core.errors import UserError
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, patch_centers
from conceptlens.nn.grounding.object_frame import Pose
from conceptlens.nn.grounding.part_attention import alignment_loss
from conceptlens.nn.grounding.part_targets import PartTargets
from conceptlens.nn.grounding.places import PlaceTargets, TrainingImages

Places = Literal["none", "points", "prior"]


class PartPlaces(nn.Module):
    """Where the parts of S slots are.

    Args:
        slot_part: (S,): the part of each slot, or `WHOLE`.
        targets: What is looked for in the training images before training.
        prior: Where parts are expected, if that is learned.
        pose: The frame in which the prior holds: of the image, or of the object (see `object_frame`).
        alignment_weight: Weight of the loss between centers of attention and points, in patches.
    """

    slot_part: Tensor
    center: Tensor
    spread: Tensor
    grid: Tensor

    def __init__(
        self,
        slot_part: Tensor,
        targets: PartTargets | None = None,
        prior: GaussianPrior | None = None,
        *,
        pose: Pose = "image",
        alignment_weight: float = 0.1,
    ) -> None:
        super().__init__()
        self.targets, self.pose, self.alignment_weight = targets, pose, alignment_weight
        self.prior = prior
        self.register_buffer("slot_part", slot_part, persistent=False)
        self.register_buffer("center", torch.zeros(2))  # of a typical object, in patches; for poses only
        self.register_buffer("spread", torch.ones(()))
        # Of the training images: what means are places on.
        self.register_buffer("grid", torch.zeros(2, dtype=torch.int64))

    def begin(self, grid: tuple[int, int]) -> None:
        """Without places in training images, all Gaussians begin in the middle: they then tell no part from another."""
        self.grid.copy_(torch.tensor(grid))
        if self.prior is not None and not bool(self.prior.start_means.any()):
            self.prior.start((self.grid / 2).expand_as(self.prior.means), grid=grid)

    def find(self, images: TrainingImages) -> PlaceTargets | None:
        """Targets of all training images; sets where the Gaussians begin."""
        return None if self.targets is None else self.targets.find(images, self.prior, (self.center, self.spread))

    def log_expected(self, grid: tuple[int, int]) -> Tensor | None:
        """Log of where each slot is expected before an image is seen, (S, L); even for slots that have no part.

        Each row's exponentials add up to one, so it can be added where patches are shared among slots (Magnet) as well
        as where a slot chooses among patches. None without a prior in the frame of the image.
        """
        if self.prior is None or self.pose != "image":
            return None
        maps: Tensor = self.prior(patch_centers(grid, self.prior.means)).log_softmax(-1)
        even = torch.zeros_like(maps[:1]).log_softmax(-1)
        return torch.cat((maps, even))[self.slot_part]  # WHOLE, -1, is the row of even weights

    def alignment(self, centroids: Tensor, places: PlaceTargets) -> dict[str, Tensor]:
        """The weighted loss between the slots' centers of attention (B, S, 2) and the points of their parts."""
        if places.points is None or places.seen is None or not self.alignment_weight:
            return {}
        placed = self.slot_part != WHOLE
        part = self.slot_part[placed]
        loss = alignment_loss(centroids[:, placed], places.points[:, part], places.seen[:, part])
        return {"alignment": self.alignment_weight * loss}

    def drift(self) -> dict[str, float]:
        """How far the Gaussians have moved and how wide they are, in patches."""
        if self.prior is None:
            return {}
        moved = (self.prior.means.detach() - self.prior.start_means).norm(dim=-1)
        return {"prior_moved": float(moved.mean()), "prior_sigma": float(self.prior.log_sigma.detach().exp().mean())}


def slot_centroids(attention: Tensor, grid: tuple[int, int]) -> Tensor:
    """Center of each slot's attention (B, S, L), whatever it adds up to: row and column in patches, (B, S, 2)."""
    return F.normalize(attention.float(), p=1, dim=-1) @ patch_centers(grid, attention)


def part_places(
    concepts: ConceptSet,
    concept_slot: Tensor,
    *,
    places: Places,
    parts: str,
    keypoint_fraction: float,
    sigma: float | None,
    alignment_weight: float,
) -> PartPlaces | None:
    """The part from a method's options; None where nothing is told.

    Args:
        concepts: The K concepts, whose `part` counts.
        concept_slot: (K,): the slot that each concept reads.
        places: What tells where parts are: points in training images, a prior, or nothing.
        parts: Which part each concept speaks of (see `part_map`); a concept without one speaks of the whole.
        keypoint_fraction: Share of the training images whose points tell where the Gaussians begin.
        sigma: Width of the Gaussians at the start, in patches; 5 on a grid of 32 and as much of another by default.
        alignment_weight: Of the loss between centers of attention and points.
    """
    check_places(keypoint_fraction, sigma, alignment_weight)
    if places == "none":
        return None
    routes = part_map(concepts, parts, bare_is_whole=True)
    of = torch.from_numpy(routes.of)
    slot_part = torch.full((int(concept_slot.max()) + 1,), WHOLE)
    for slot in range(len(slot_part)):
        own = set(of[concept_slot == slot].tolist())
        if len(own) == 1:
            slot_part[slot] = own.pop()
    if bool((slot_part == WHOLE).all()):
        raise UserError(
            f"method.places: {places} needs attention that speaks of one part, but here every one speaks of several or "
            "of the whole. Give groups a `part` in the concept file, let each group or concept have its own attention, "
            "or set places: none."
        )
    targets = PartTargets(
        routes,
        foreground="none",
        keypoints="image" if places == "points" else "none",
        prior=places == "prior",
        fraction=keypoint_fraction,
        pose="image",
        option=f"method.places: {places}",
        partial=places == "points",
    )
    gaussians = GaussianPrior(len(routes.parts), sigma=sigma) if places == "prior" else None
    return PartPlaces(slot_part, targets, gaussians, alignment_weight=alignment_weight)


def check_places(fraction: float, sigma: float | None, weight: float) -> None:
    """Raise a `UserError` for an option out of range."""
    if not 0 < fraction <= 1:
        raise UserError(f"method.keypoint_fraction: expected a share above 0, at most 1, found {fraction}.")
    if sigma is not None and sigma <= 0:
        raise UserError(f"method.sigma: expected a width above 0 in patches, found {sigma}.")
    if weight < 0:
        raise UserError(f"method.alignment_weight: expected 0 or more, found {weight}.")
