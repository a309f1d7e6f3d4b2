"""The maps of every concept of a batch, as numbers: a method's own, and one attribution that is the same for all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.explanations.maps.gradcam import watch
from conceptlens.methods.contract import Pipeline

OWN, GRADCAM = "own", "gradcam"


@dataclass(frozen=True)
class BatchMaps:
    """Maps (B, K, L) by kind, numbers ≥ 0 over the cells of a grid."""

    grid: tuple[int, int]
    maps: dict[str, Tensor]  # `own`, where the method has attention over patches, and `gradcam`
    place: str  # the tokens at which Grad-CAM looks
    concept_logits: Tensor  # (B, K)


def concept_maps(pipeline: Pipeline, images: Tensor) -> BatchMaps:
    """The attention of each concept's slot, and Grad-CAM, of images (B, 3, H, W).

    The pipeline is in evaluation mode and at rest, as for `watch`. Grad-CAM takes a backward pass for each concept.
    """
    watched = watch(pipeline, images)
    count = watched.output.concept_logits.shape[1]
    every = torch.arange(count, device=images.device).expand(len(images), -1)
    maps = {GRADCAM: watched.maps(every)}
    attention = watched.output.attention
    if attention is not None:
        maps[OWN] = attention.detach().float()[:, pipeline.model.concept_slot.to(images.device)]
    ordered = {kind: maps[kind] for kind in (OWN, GRADCAM) if kind in maps}
    return BatchMaps(watched.grid, ordered, watched.place, watched.output.concept_logits.detach())
