"""The maps of every concept of a batch, as numbers: a method's own, and attributions that are the same for all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from conceptlens.explanations.maps.gradcam import watch
from conceptlens.explanations.maps.occlusion import occlusion_maps
from conceptlens.methods.contract import ConceptModel, ConceptOutput, Pipeline

Kind = Literal["own", "gradcam", "occlusion"]
OWN: Kind = "own"
GRADCAM: Kind = "gradcam"
OCCLUSION: Kind = "occlusion"
KINDS: tuple[Kind, ...] = (OWN, GRADCAM, OCCLUSION)  # in the order in which they are told
USUAL: tuple[Kind, ...] = (OWN, GRADCAM)


@dataclass(frozen=True)
class BatchMaps:
    """Maps (B, K, L) by kind over the cells of a grid: ≥ 0, or signed where the method's own map is its evidence."""

    grid: tuple[int, int]
    maps: dict[str, Tensor]  # the kinds asked for; `own` where the method has evidence or attention over patches
    place: str  # the tokens at which Grad-CAM looks; empty if it was not asked for
    concept_logits: Tensor  # (B, K)
    patches: Tensor  # (B, L, D) as they came from the encoder


def concept_maps(pipeline: Pipeline, images: Tensor, kinds: Sequence[Kind] = USUAL) -> BatchMaps:
    """Maps of each concept of images (B, 3, H, W): the method's own, and what else is asked for.

    The pipeline is in evaluation mode and at rest, as for `watch`. Grad-CAM takes a backward pass for each concept,
    occlusion a forward pass for each region.
    """
    maps: dict[str, Tensor] = {}
    if GRADCAM in kinds:
        watched = watch(pipeline, images)
        output, grid, place = watched.output, watched.grid, str(watched.place)
        every = torch.arange(output.concept_logits.shape[1], device=images.device).expand(len(images), -1)
        maps[GRADCAM] = watched.maps(every)
    else:
        with torch.no_grad():
            output, grid, place = pipeline(images), pipeline.encoder.grid(*images.shape[-2:]), ""
    scores = output.concept_logits.detach()
    own = own_maps(output, pipeline.model) if OWN in kinds else None
    if own is not None:
        maps[OWN] = own
    if OCCLUSION in kinds:
        maps[OCCLUSION] = occlusion_maps(pipeline, images, grid, scores)
    assert output.patches is not None  # set by the pipeline
    ordered: dict[str, Tensor] = {kind: maps[kind] for kind in KINDS if kind in maps}
    return BatchMaps(grid, ordered, place, scores, output.patches.detach())


def own_maps(output: ConceptOutput, model: ConceptModel) -> Tensor | None:
    """A method's own maps (B, K, L): its evidence, or the attention of each concept's slot; None without either."""
    if output.evidence is not None:
        return output.evidence.detach().float()
    if output.attention is None:
        return None
    return output.attention.detach().float()[:, model.concept_slot.to(output.attention.device)]
