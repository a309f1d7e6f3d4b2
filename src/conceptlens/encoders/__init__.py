"""Encoders by name. Torch and timm are imported when an encoder is made, not before."""

import inspect
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from conceptlens.core.errors import UserError, did_you_mean, unknown_name
from conceptlens.core.plugins import is_code
from conceptlens.core.registry import ENCODERS
from conceptlens.recipes.schema import EncoderConfig

if TYPE_CHECKING:
    from conceptlens.encoders.contract import Encoder, TextEncoder

BUILTIN, TIMM, OPEN_CLIP, TRANSFORMERS = "builtin/vit", "timm/", "open_clip/", "transformers/"
TEXT, HASHED_TEXT, RANDOM_TEXT = "builtin/text", "builtin/hashed-text", "builtin/random-text"
MINI, LITE0 = "builtin/vit-mini", "builtin/efficientnet-lite0"
AUTO = "auto"  # as a text encoder: the image encoder's own, else the package's
SETTINGS = ("image_size", "layers", "final_norm", "pretrained", "weights")  # keys of the recipe's `encoder` itself


def list_encoders(pattern: str = "*") -> list[str]:
    """Names of image encoders that match a pattern.

    Args:
        pattern: Such as `timm/*dinov2*`; all by default.

    >>> import conceptlens as cl
    >>> cl.list_encoders("builtin/eff*")
    ['builtin/efficientnet-lite0']
    """
    from conceptlens.encoders.open_clip.files import open_clip_names
    from conceptlens.encoders.timm.published import timm_names

    names = [BUILTIN, LITE0, MINI, *ENCODERS.names(), *(TIMM + short for short in timm_names())]
    if not pattern.startswith((TIMM, BUILTIN[:8])):  # importing open_clip takes seconds
        names += open_clip_names()
    return [name for name in names if fnmatch(name, pattern)]


def make_encoder(config: EncoderConfig) -> "Encoder":
    """The encoder a recipe asks for, with its starting weights; what of it learns is set by `set_trainable`.

    Args:
        config: A recipe's section `encoder`.
    """
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
    if config.name == LITE0:
        from conceptlens.encoders.builtin.efficientnet_lite0 import EfficientNetLite0

        if config.options:
            raise UserError(
                f"encoder.options: {LITE0} has no option {next(iter(config.options))!r}; leave encoder.options empty."
            )
        return EfficientNetLite0(**settings)
    if config.name in (BUILTIN, MINI):
        from conceptlens.encoders.builtin.vit import MINI as SMALL
        from conceptlens.encoders.builtin.vit import BuiltinViT

        known = [option for option in inspect.signature(BuiltinViT).parameters if option not in (*SETTINGS, "name")]
        for option in config.options:
            if option not in known:
                raise UserError(
                    f"encoder.options: {config.name} has no option {option!r}. {did_you_mean(option, known)}"
                )
        return BuiltinViT(**{**(SMALL if config.name == MINI else {}), **settings, **config.options})
    if config.name.startswith(TIMM):
        from conceptlens.encoders.timm.encoder import TimmEncoder

        return TimmEncoder(config.name, **settings, **config.options)  # type: ignore[arg-type]
    if config.name.startswith(OPEN_CLIP):
        from conceptlens.encoders.open_clip.encoder import make_open_clip

        if unknown := [option for option in config.options if option != "structure"]:
            raise UserError(
                f"encoder.options: {config.name} has no option {unknown[0]!r}; leave encoder.options empty."
            )
        return make_open_clip(config.name, **settings, **config.options)  # type: ignore[arg-type]
    if config.name.startswith(TRANSFORMERS):
        from conceptlens.encoders.transformers.encoder import TransformersEncoder

        if unknown := [option for option in config.options if option != "structure"]:
            raise UserError(
                f"encoder.options: {config.name} has no option {unknown[0]!r}; leave encoder.options empty."
            )
        return TransformersEncoder(config.name, **settings, **config.options)  # type: ignore[arg-type]
    if is_code(config.name) or config.name in ENCODERS:
        from conceptlens.encoders.contract import Encoder

        encoder = ENCODERS.get(config.name)(**settings, **config.options)
        if not isinstance(encoder, Encoder):
            raise UserError(f"encoder.name: {config.name} returned {type(encoder).__name__}; expected an Encoder.")
        encoder.name = config.name
        return encoder
    names = [*list_encoders("builtin/*"), *ENCODERS.names(), *list_encoders("timm/*")]
    if TIMM + config.name in names:
        raise UserError(f"Unknown encoder {config.name!r}. Did you mean '{TIMM}{config.name}'?")
    raise unknown_name("encoder", config.name, names)


def list_text_encoders() -> list[str]:
    """Names of text encoders: the trained one, and two without weights as controls; any `open_clip/…` besides."""
    return [TEXT, HASHED_TEXT, RANDOM_TEXT]


def make_text_encoder(name: str) -> "TextEncoder":
    """What reads the concepts' texts.

    Args:
        name: As a recipe's `encoder.text`.
    """
    if name.startswith(OPEN_CLIP):
        from conceptlens.encoders.open_clip.text import OpenClipText

        return OpenClipText(name)
    if name == TEXT:
        from conceptlens.encoders.text.builtin import BuiltinText

        return BuiltinText()
    if name == HASHED_TEXT:
        from conceptlens.encoders.text.hashed import HashedText

        return HashedText()
    if name.startswith(RANDOM_TEXT):
        from conceptlens.encoders.text.random import RandomText

        return RandomText(name)
    raise unknown_name("text encoder", name, list_text_encoders())


def text_encoder_name(chosen: str, encoder: "Encoder") -> str:
    """The text encoder that a recipe's `encoder.text` means for this image encoder."""
    return (encoder.text or TEXT) if chosen == AUTO else chosen
