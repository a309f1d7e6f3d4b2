"""What a model reads in a code, or in any token: its concept scores for an image of that one patch."""

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import Pipeline

Floats = npt.NDArray[np.float64]


@torch.inference_mode()
def read_patches(pipeline: Pipeline, concepts: ConceptSet, patches: torch.Tensor) -> Floats | str:
    """Concept scores (n, K) of each patch (n, D) as an image, or why there are none."""
    model = pipeline.model
    if model.needs_layers:
        return "the method reads several layers of the encoder, and a code belongs to one"
    if model.uses_image_vector:
        return "the method reads the encoder's vector of the whole image, which a patch has none of"
    if model.uses_patch_vectors:
        return "the method reads the encoder's patches in the text space, to which a code has no way"
    if not model.reads_concepts:
        return "the method reads no concepts"
    rows = patches.float().unsqueeze(1)
    first, second = (Tokens(rows, (1, 1), cls=fill * torch.ones_like(rows[:, 0])) for fill in (0.0, 1.0))
    try:
        read, other = model(first).concept_logits, model(second).concept_logits
    except (UserError, RuntimeError) as error:
        return f"the method cannot read a single patch ({str(error).splitlines()[0]})"
    if not torch.allclose(read, other, atol=1e-4):
        return "the method reads the class token, not patches"
    found = read.double().cpu().numpy()
    if found.shape[1] != len(concepts) or not np.isfinite(found).all() or np.ptp(found, axis=0).max(initial=0) < 1e-6:
        return "the method reads the same in every patch"
    return np.asarray(found)
