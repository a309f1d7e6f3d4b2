"""Images of a data source as vectors of a frozen encoder: what `concepts check` looks at."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.devices import best_device
from conceptlens.data.dataset import DataSource
from conceptlens.data.loading.loader import PixelReader
from conceptlens.encoders import make_encoder, make_text_encoder
from conceptlens.recipes.schema import DataConfig, EncoderConfig

BATCH = 32


@dataclass(frozen=True)
class Seen:
    """N images, as an encoder sees them."""

    indices: npt.NDArray[np.int64]
    features: npt.NDArray[np.float64]  # (N, D)
    similarity: npt.NDArray[np.float64] | None  # (N, K) with the concepts' texts, where there is a common space
    encoder: str


def look(source: DataSource, config: DataConfig, concepts: ConceptSet, encoder_name: str, n: int) -> Seen:
    """Encode at most n images, evenly spread over those with a label of some concept."""
    labeled = np.flatnonzero((source.examples.concepts >= 0).any(1))
    places = np.unique(np.linspace(0, max(len(labeled) - 1, 0), min(n, len(labeled))).round().astype(np.int64))
    indices = labeled[places]
    encoder = make_encoder(EncoderConfig(name=encoder_name)).eval().requires_grad_(False)
    device = best_device()
    encoder.to(device)
    text = make_text_encoder(encoder.text).embed(concepts.texts).to(device) if encoder.text else None
    features, cosines = [], []
    pieces = (indices[start : start + BATCH] for start in range(0, len(indices), BATCH))
    with PixelReader(source, encoder.image_size, config.fit, cache_mb=0) as reader, torch.inference_mode():
        for _, pixels in reader.prefetch(pieces):
            tokens = encoder(pixels.to(device))
            pooled = tokens.patches.mean(1)
            whole = pooled if tokens.cls is None else torch.cat([tokens.cls, pooled], 1)
            features.append(whole.double().cpu().numpy())
            if text is not None:
                cosines.append((encoder.embed(tokens) @ text.T).double().cpu().numpy())
    return Seen(indices, np.concatenate(features), np.concatenate(cosines) if cosines else None, encoder.name)
