"""Encoders by name. Torch and timm are imported when an encoder is made, not before."""

import inspect
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from conceptlens.errors import UserError, did_you_mean, unknown_name
from conceptlens.recipe.schema import EncoderConfig

if TYPE_CHECKING:
    from conceptlens.encoders.contract import Encoder, TextEncoder

BUILTIN, TEXT, TIMM = "builtin/vit", "builtin/text", "timm/"
SETTINGS = ("image_size", "layers", "final_norm", "pretrained", "weights")  # keys of the recipe's `encoder` itself


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of image encoders that match a pattern such as `timm/*dinov2*`."""
    from conceptlens.encoders.timm_encoder import timm_names

    return [name for name in (BUILTIN, *(TIMM + short for short in timm_names())) if fnmatch(name, pattern)]


def make_encoder(config: EncoderConfig) -> "Encoder":
    """The encoder a recipe asks for, with its starting weights; what of it learns is set by `set_trainable`."""
    for option in config.options:
        if option in SETTINGS:
            raise UserError(f"encoder.options.{option}: this is a key of `encoder` itself. Write `encoder.{option}`.")
    settings: dict[str, Any] = {
        "layers": config.layers,
        "final_norm": config.final_norm,
        "pretrained": config.pretrained,
    }
    if config.image_size is not None:
        settings["image_size"] = config.image_size
    if config.weights is not None:
        settings["weights"] = config.weights
    if config.name == BUILTIN:
        from conceptlens.encoders.builtin import BuiltinViT

        known = [option for option in inspect.signature(BuiltinViT).parameters if option not in SETTINGS]
        for option in config.options:
            if option not in known:
                raise UserError(f"encoder.options: {BUILTIN} has no option {option!r}. {did_you_mean(option, known)}")
        return BuiltinViT(**settings, **config.options)  # type: ignore[arg-type]
    if config.name.startswith(TIMM):
        from conceptlens.encoders.timm_encoder import TimmEncoder

        return TimmEncoder(config.name, **settings, **config.options)  # type: ignore[arg-type]
    names = list_encoders()
    if TIMM + config.name in names:
        raise UserError(f"Unknown encoder {config.name!r}. Did you mean '{TIMM}{config.name}'?")
    raise unknown_name("encoder", config.name, names)


def make_text_encoder(name: str) -> "TextEncoder":
    """What reads the concepts' texts."""
    if name != TEXT:
        raise unknown_name("text encoder", name, [TEXT])
    from conceptlens.encoders.builtin_text import BuiltinText

    return BuiltinText()
