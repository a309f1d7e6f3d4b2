"""From a slot to the text space, as IVQ-CBM (Appendix B) and Explicd do it."""

from typing import Literal

from torch import nn


def text_projection(kind: Literal["linear", "ffn"], width: int, text_width: int) -> nn.Module:
    """A linear map, or FFN, norm and linear map. No bias at the end: an empty slot stays zero under a linear map."""
    if kind == "linear":
        return nn.Linear(width, text_width, bias=False)
    return nn.Sequential(
        nn.Linear(width, 4 * width),
        nn.ReLU(),
        nn.Linear(4 * width, width),
        nn.LayerNorm(width),
        nn.Linear(width, text_width, bias=False),
    )
