"""`builtin/random-text`: a direction for each text that has nothing to do with its words; the control of every method
that reads texts.

What a method gains with a text encoder over this one is what the texts' meanings brought. A text is hashed (SHAKE-256),
and each coordinate is the sum of sixteen of the hash's bytes, which is Gaussian for all that matters here (its excess
kurtosis is −0.075). Sums over whole numbers are exact, so the vectors are the same to the last bit on every machine.
"""

import hashlib
import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.encoders.text.check import check_texts

NAME = "builtin/random-text"
WIDTH = 384  # as `builtin/text`
BYTES = 16  # a coordinate
MEAN = BYTES * 255 / 2


def random_text_name(width: int) -> str:
    """The name of random vectors that fit in the place of a text encoder of that width."""
    return NAME if width == WIDTH else f"{NAME}/{width}"


def _vector(text: str, width: int) -> npt.NDArray[np.float32]:
    stream = hashlib.shake_256(text.encode()).digest(BYTES * width)
    sums = np.frombuffer(stream, np.uint8).reshape(width, BYTES).sum(1, dtype=np.int64)
    twice = 2 * sums - round(2 * MEAN)  # whole numbers
    return np.asarray(twice / math.sqrt(int((twice * twice).sum())), dtype=np.float32)


class RandomText:
    """Texts to random unit vectors: equal texts get equal ones, all others are nearly orthogonal.

    Args:
        name: `builtin/random-text`, or `builtin/random-text/WIDTH` to stand in for another text encoder.
    """

    def __init__(self, name: str = NAME) -> None:
        found = re.fullmatch(rf"{NAME}(?:/([1-9]\d{{0,4}}))?", name)
        if found is None:
            raise UserError(f"Unknown text encoder {name!r}: expected {NAME} or {NAME}/WIDTH, such as {NAME}/512.")
        self.name, self.width = name, int(found[1] or WIDTH)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(n, width), unit length, fp32, on the CPU."""
        check_texts(self.name, texts)
        vectors = [_vector(text, self.width) for text in texts]
        return torch.from_numpy(np.stack(vectors)) if vectors else torch.zeros(0, self.width)
