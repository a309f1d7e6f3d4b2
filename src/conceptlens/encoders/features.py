"""Images as one vector each, of an encoder that stays as it is."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.core.devices import best_device
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import Fit
from conceptlens.data.loading.loader import PixelReader

if TYPE_CHECKING:
    from conceptlens.encoders.contract import Encoder

BATCH = 32


def image_features(
    encoder: "Encoder", source: DataSource, indices: npt.NDArray[np.int64], fit: Fit
) -> npt.NDArray[np.float64]:
    """Class token, where there is one, and mean patch of each image, (N, D).

    Args:
        encoder: It is moved to the device and frozen.
        source: The images.
        indices: Which of them, (N,).
        fit: How an image becomes a square.
    """
    device = best_device()
    encoder.to(device).eval().requires_grad_(False)
    found = []
    pieces = (indices[start : start + BATCH] for start in range(0, len(indices), BATCH))
    with PixelReader(source, encoder.image_size, fit, cache_mb=0) as reader, torch.inference_mode():
        for _, pixels in reader.prefetch(pieces):
            tokens = encoder(pixels.to(device))
            pooled = tokens.patches.mean(1)
            whole = pooled if tokens.cls is None else torch.cat([tokens.cls, pooled], 1)
            found.append(whole.double().cpu().numpy())
    return np.concatenate(found) if found else np.zeros((0, encoder.width))
