"""The maps of every concept of a batch, as numbers: a method's own, and one attribution that is the same for all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.explanations.maps.gradcam import watch
from conceptlens.methods.contract import ConceptModel, ConceptOutput, Pipeline

OWN, GRADCAM = "own", "gradcam"


@dataclass(frozen=True)
class BatchMaps:
    """Maps (B, K, L) by kind over the cells of a grid: ≥ 0, or signed where the method's own map is its evidence."""

    grid: tuple[int, int]
    maps: dict[str, Tensor]  # `own`, where the method has evidence or attention over patches, and `gradcam`
    place: str  # the tokens at which Grad-CAM looks
    concept_logits: Tensor  # (B, K)
    patches: Tensor  # (B, L, D) as they came from the encoder


def concept_maps(pipeline: Pipeline, images: Tensor) -> BatchMaps:
    """The method's own map of each concept, and Grad-CAM, of images (B, 3, H, W).

    The pipeline is in evaluation mode and at rest, as for `watch`. Grad-CAM takes a backward pass for each concept.
    """
    watched = watch(pipeline, images)
    count = watched.output.concept_logits.shape[1]
    every = torch.arange(count, device=images.device).expand(len(images), -1)
    maps = {GRADCAM: watched.maps(every)}
    own = own_maps(watched.output, pipeline.model)
    if own is not None:
        maps[OWN] = own
    ordered = {kind: maps[kind] for kind in (OWN, GRADCAM) if kind in maps}
    output = watched.output
    assert output.patches is not None  # set by the pipeline
    return BatchMaps(watched.grid, ordered, watched.place, output.concept_logits.detach(), output.patches.detach())


def own_maps(output: ConceptOutput, model: ConceptModel) -> Tensor | None:
    """A method's own maps (B, K, L): its evidence, or the attention of each concept's slot; None without either."""
    if output.evidence is not None:
        return output.evidence.detach().float()
    if output.attention is None:
        return None
    return output.attention.detach().float()[:, model.concept_slot.to(output.attention.device)]
