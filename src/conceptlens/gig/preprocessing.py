"""How images are normalized before a model sees them: what its configuration says, what the user says, or not at all.

A module's own attributes are never read: a module that has `mean` and `std` most often normalizes by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from conceptlens.core.errors import UserError, did_you_mean

NAMES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
}


@dataclass(frozen=True)
class Preprocessing:
    """(pixels in [0, 1] − mean) / std, and who says so."""

    mean: tuple[float, ...] = NAMES["none"][0]
    std: tuple[float, ...] = NAMES["none"][1]
    source: str = "no configuration and no --normalize"

    def text(self) -> str:
        if (self.mean, self.std) == NAMES["none"]:
            return f"pixels from 0 to 1, not normalized ({self.source})"
        mean, std = (", ".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        return f"mean {mean}, std {std} ({self.source})"


def chosen(normalize: str | None, config: Preprocessing | None = None) -> Preprocessing:
    """What the user says, else what the model's configuration says, else nothing.

    Args:
        normalize: One of `NAMES`, or six numbers with commas: three means, three standard deviations.
        config: What the model's configuration says.
    """
    if normalize is None:
        return config or Preprocessing()
    if normalize in NAMES:
        return Preprocessing(*NAMES[normalize], f"--normalize {normalize}")
    try:
        numbers = tuple(float(word) for word in normalize.split(","))
    except ValueError:
        raise UserError(
            f"--normalize {normalize}: expected one of {', '.join(NAMES)}, or six numbers with commas (three means, "
            f"three standard deviations). {did_you_mean(normalize, NAMES)}"
        ) from None
    if len(numbers) != 6 or min(numbers[3:]) <= 0:
        raise UserError(
            f"--normalize {normalize}: expected six numbers, three means and three standard deviations above 0."
        )
    return Preprocessing(numbers[:3], numbers[3:], "--normalize")


def of_timm(module: nn.Module) -> Preprocessing | None:
    """What a timm model's configuration says; None where the module is no timm model."""
    config = getattr(module, "pretrained_cfg", None)
    if not isinstance(config, Mapping) and not hasattr(config, "mean"):
        return None
    values: Any = config if isinstance(config, Mapping) else vars(config)
    if values.get("mean") is None or values.get("std") is None:
        return None
    return Preprocessing(tuple(values["mean"]), tuple(values["std"]), "timm's configuration of the model")
