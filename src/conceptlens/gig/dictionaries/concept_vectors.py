"""A layer's concept vectors, by the paper's clusters or by one of its baselines; with each of them a lasso codes.

Which is better depends on the network and on how many concepts a vector may use: evidence/gig.
"""

from typing import Literal

import torch
from torch import Tensor

from conceptlens.gig.dictionaries.autoencoder import fit_autoencoder
from conceptlens.gig.dictionaries.clusters import cluster, cluster_number
from conceptlens.gig.dictionaries.dictionary_learning import fit_dictionary

DictionaryKind = Literal["clusters", "learned", "autoencoder"]


def concept_vectors(
    kind: DictionaryKind, features: Tensor, shift: Tensor, k: int | None = None, *, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Concepts (k, C) of vectors (N, C), and the concept of each vector (N,): its cluster, or the nearest by cosine."""
    if kind == "clusters":
        found = cluster(features, k, shift, seed=seed)
        return found.concepts, found.labels
    k = cluster_number(features.shape[1], len(features)) if k is None else k
    centered = features - shift
    if kind == "learned":
        batch = min(1024, max(64, len(features) // 8))
        concepts = fit_dictionary(centered, k, batch=batch, seed=seed).concepts
    else:
        concepts = fit_autoencoder(centered, k, seed=seed).concepts
    unit = torch.nn.functional.normalize(concepts, dim=1)
    return unit, torch.cat([(some @ unit.T).argmax(1) for some in torch.split(centered, 4096)])
