"""Which dictionary rebuilds a layer best: clusters, dictionary learning, a sparse autoencoder; and of which size.

GIG paper, Sec. 4.2.2 and Appendix I (Tables 1 and 3). The paper compares each dictionary with its own way to code, at
whatever sparsity that has. Here each is also coded by the *same* lasso on vectors of unit length over several λ:
errors can be compared at equal sparsity. They are those of held-out features.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.progress import Note
from conceptlens.gig.dictionaries.autoencoder import fit_autoencoder
from conceptlens.gig.dictionaries.clusters import cluster
from conceptlens.gig.dictionaries.dictionary_learning import fit_dictionary
from conceptlens.gig.dictionaries.lasso import decompose, lambda_for
from conceptlens.gig.validation.validation import Reconstruction, reconstruction_curve, trade_off

Maker = Literal["clusters", "dictionary learning", "sparse autoencoder"]
MAKERS: tuple[Maker, ...] = ("clusters", "dictionary learning", "sparse autoencoder")
SHARES = (0.4, 0.2, 0.1, 0.05, 0.025)  # λ as shares of the λ at which a typical vector uses no concept


def _lasso(centered: Tensor, vectors: Tensor, penalty: float) -> Tensor:
    return decompose(centered, vectors, penalty).dense()


def compare_dictionaries(
    layer: str,
    features: Tensor,
    held_out: Tensor,
    shift: Tensor,
    k: int,
    *,
    makers: Sequence[str] = MAKERS,
    shares: Sequence[float] = SHARES,
    epochs: int = 10,
    seed: int = 0,
    note: Note = lambda text: None,
) -> list[Reconstruction]:
    """Curves of relative l2 against sparsity for each dictionary, coded by its own means and by the same lasso.

    Args:
        layer: Its name.
        features: (N, C) what the dictionaries are made from.
        held_out: (n, C) what they are judged on.
        shift: (C,) μ_BN.
        k: Concepts of each.
        makers: Which dictionaries.
        shares: λ, as shares of that at which a typical held-out vector uses no concept of the first dictionary.
        epochs: Of the autoencoder.
        seed: Of all.
        note: Is told how far it is.
    """
    found: list[Reconstruction] = []
    penalties: list[float] = []
    centered, judged = features - shift, held_out - shift
    for maker in makers:
        if maker not in MAKERS:
            raise UserError(f"Unknown dictionary {maker!r}. {did_you_mean(maker, MAKERS)}")
        if maker == "clusters":
            vectors = cluster(features, k, shift, seed=seed).concepts
            penalty = lambda_for(centered, vectors)
            u = _lasso(judged, vectors, penalty)
            own = trade_off(held_out, u, u @ vectors + shift, penalty)
        elif maker == "dictionary learning":
            learned = fit_dictionary(centered, k, seed=seed)
            vectors, u = learned.concepts, learned.encode(judged).dense()
            own = trade_off(held_out, u, u @ vectors + shift, learned.lam)
        else:
            coder = fit_autoencoder(centered, k, epochs=epochs, seed=seed)
            vectors, u = coder.concepts, coder.encode(judged)
            own = trade_off(held_out, u, coder.decode(u) + shift, None)
        found.append(Reconstruction(layer=layer, dictionary=maker, coding="own", concepts=len(vectors), points=[own]))
        unit = torch.nn.functional.normalize(vectors, dim=1)
        penalties = penalties or [lambda_for(judged, unit, share) for share in shares]
        found.append(_curve(layer, maker, held_out, unit, shift, penalties, note))
    return found


def compare_sizes(
    layer: str,
    features: Tensor,
    held_out: Tensor,
    shift: Tensor,
    *,
    sizes: Sequence[float] = (0.5, 1, 2, 4, 8),
    shares: Sequence[float] = (0.1,),
    seed: int = 0,
    note: Note = lambda text: None,
) -> list[Reconstruction]:
    """Clusters of several sizes, in channels (Table 3), as long as a cluster has two samples or more."""
    found: list[Reconstruction] = []
    penalties: list[float] = []
    for size in sizes:
        k = max(1, round(size * features.shape[1]))
        if 2 * k > len(features):
            note(f"{layer}: {k} clusters of {len(features)} samples are too many; left out")
            continue
        unit = torch.nn.functional.normalize(cluster(features, k, shift, seed=seed).concepts, dim=1)
        penalties = penalties or [lambda_for(held_out - shift, unit, share) for share in shares]
        found.append(_curve(layer, "clusters", held_out, unit, shift, penalties, note))
    if not found:
        raise UserError(f"{layer}: {len(features)} samples are too few for any of the sizes {list(sizes)}.")
    return found


def _curve(
    layer: str, maker: str, held_out: Tensor, unit: Tensor, shift: Tensor, penalties: Sequence[float], note: Note
) -> Reconstruction:
    def code(centered: Tensor, penalty: float) -> Tensor:
        return _lasso(centered, unit, penalty)

    return reconstruction_curve(layer, maker, held_out, code, unit, shift, penalties, note)
