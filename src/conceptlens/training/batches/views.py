"""The views of a batch: one for every method, and a second where a regularizer asks for it."""

from dataclasses import replace

from conceptlens.nn.regularizers.regularizer import SecondView
from conceptlens.recipes import AugmentConfig
from conceptlens.training.batches.augment import Draw, draw


def draw_views(config: AugmentConfig, second: SecondView | None, batch: int, key: tuple[int, ...]) -> tuple[Draw, ...]:
    """What happens to each image in each view; `key` is (seed, epoch, step), from which a resumed run draws the same.

    The first view does not depend on whether there is a second: all regularizers are compared on the same images.
    """
    first = draw(config, batch, key)
    if second is None:
        return (first,)
    colors = {name: max(getattr(config, name), second.color) for name in ("brightness", "contrast", "saturation")}
    other = draw(replace(config, **colors), batch, (*key, 2))
    return first, (replace(other, affine=first.affine) if second.same_place else other)
