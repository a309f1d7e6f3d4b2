"""Own augmentation in the place of the built-in one: torchvision v2, albumentations, kornia, or any function.

It is called image by image, with every generator it may draw from set from (seed, epoch, image): what happens to an
image does not depend on the batch, the number of processes or a stop in between.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.errors import UserError

Transform = Callable[..., Any]


class OwnTransform:
    """Changes images as the user's function does, the same for the same image and epoch.

    Args:
        function: From bytes (3, H, W) to the same shape, as bytes or from 0 to 1; albumentations and kornia are called
            as they expect to be.
        seed: Of the recipe.
    """

    def __init__(self, function: Transform, seed: int) -> None:
        if not callable(function):
            raise UserError(f"transform: expected a function of an image, found {type(function).__name__}.")
        self.function, self.seed = function, seed
        self.package = type(function).__module__.partition(".")[0]

    @property
    def name(self) -> str:
        """What `run.json` says of it."""
        return f"{type(self.function).__module__}.{getattr(self.function, '__name__', type(self.function).__name__)}"

    def __call__(self, images: Tensor, indices: Sequence[int], epoch: int) -> Tensor:
        """Changed images.

        Args:
            images: Bytes (B, 3, H, W).
            indices: (B,) their positions in the data.
            epoch: The running one.
        """
        rows = []
        for image, index in zip(images.cpu(), indices, strict=True):
            key = int(np.random.SeedSequence([self.seed, epoch, int(index)]).generate_state(1)[0])
            with _seeded(key):
                rows.append(_bytes(self._call(image, key), image.shape))
        return torch.stack(rows).to(images.device)

    def _call(self, image: Tensor, key: int) -> Any:
        if self.package == "albumentations":
            if hasattr(self.function, "set_random_seed"):  # it has generators of its own
                self.function.set_random_seed(key)
            changed = self.function(image=np.ascontiguousarray(image.permute(1, 2, 0).numpy()))["image"]
            return torch.as_tensor(changed).permute(2, 0, 1) if isinstance(changed, np.ndarray) else changed
        if self.package == "kornia":
            return self.function(image[None].float() / 255)[0]
        return self.function(image)


def _bytes(found: Any, shape: torch.Size) -> Tensor:
    if not isinstance(found, Tensor) or found.shape != shape:
        what = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise UserError(f"transform: expected a tensor {tuple(shape)}, as it was given, found {what}.")
    if found.dtype == torch.uint8:
        return found
    if not found.is_floating_point() or not bool(torch.isfinite(found).all()):
        raise UserError(f"transform: expected bytes, or numbers from 0 to 1, found {found.dtype} or no numbers.")
    if float(found.max()) > 1.5:
        raise UserError("transform: expected bytes, or numbers from 0 to 1. Leave out any normalization.")
    return (found.clamp(0, 1) * 255).round().to(torch.uint8)


@contextmanager
def _seeded(key: int) -> Iterator[None]:
    """All generators that a transform may draw from; afterwards they go on as if it had not."""
    plain, arrays = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key)
            random.seed(key)
            np.random.seed(key)  # noqa: NPY002
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(arrays)  # noqa: NPY002
