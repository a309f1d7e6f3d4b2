"""Which blocks' tokens are handed on besides the last."""

from collections.abc import Sequence

from conceptlens.errors import UserError


def choose_layers(layers: Sequence[int] | None, count: int, encoder: str) -> tuple[int, ...]:
    """Indices from 0 (or from the end if negative) as indices from 0, in the order given."""
    chosen = []
    for layer in layers or ():
        if isinstance(layer, bool) or not isinstance(layer, int) or not -count <= layer < count:
            raise UserError(
                f"encoder.layers: expected whole numbers from {-count} to {count - 1}, got {layer!r}: "
                f"{encoder} has {count} blocks."
            )
        chosen.append(layer % count)
    return tuple(chosen)
