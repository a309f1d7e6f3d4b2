"""One vector for the whole image: what methods without slots read."""

from typing import Literal

from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens

Pool = Literal["cls", "mean"]


def global_token(tokens: Tokens, pool: Pool) -> Tensor:
    """The class token (of a network without one, what its encoder gives in its place) or the mean patch, (B, D)."""
    if pool == "mean":
        return tokens.patches.mean(1)
    if tokens.cls is None:
        raise UserError("method.pool: cls needs an encoder with a class token; this one has none. Use `mean`.")
    return tokens.cls
