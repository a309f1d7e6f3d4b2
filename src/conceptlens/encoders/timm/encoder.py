"""`timm/NAME`: image models of timm as encoders.

How its tokens are read: `timm_tokens`. Weights are read by `weights_file`.
"""

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from conceptlens.core.errors import UserError, did_you_mean, unknown_name
from conceptlens.encoders.layer_choice import Layers
from conceptlens.encoders.timm.structure import is_head, strip_head
from conceptlens.encoders.timm.tokens import TimmTokens
from conceptlens.encoders.weights_file import load_weights, read_weights

RESERVED = {
    "num_classes": "the head is not used",
    "global_pool": "the head is not used",
    "in_chans": "images have three channels",
    "img_size": "use encoder.image_size",
    "dynamic_img_size": "it is on where the model knows it",
    "features_only": "use encoder.layers",
    "pretrained": "use encoder.pretrained",
}


def timm_names() -> list[str]:
    """All models of timm, with the tags of their published weights and without."""
    import timm

    return sorted({*timm.list_models(), *timm.list_models(pretrained=True)})


def _init_options(model: nn.Module) -> set[str]:
    """Keywords of the model's class, and of its bases as far as keywords are passed on to them."""
    names: set[str] = set()
    for kind in type(model).__mro__:
        parameters = inspect.signature(vars(kind).get("__init__", object.__init__)).parameters.values()
        names |= {parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names - {"self"}


def _create(name: str, options: Mapping[str, Any]) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=0, **options)
    return model


def build_model(name: str, image_size: int | None, options: Mapping[str, Any]) -> Any:
    """A timm model with fresh weights that takes as many image sizes as its kind can."""
    for option in options:
        if option in RESERVED:
            raise UserError(f"encoder.options.{option} cannot be set for timm/{name}: {RESERVED[option]}.")
    with torch.device("meta"):  # no memory, no random numbers: only to see which keywords its class takes
        known = _init_options(_create(name, {}))
    for option in options:
        if option not in known:
            raise UserError(f"encoder.options: timm/{name} has no option {option!r}. {did_you_mean(option, known)}")
    sizes: dict[str, Any] = {}
    if "dynamic_img_size" in known:
        sizes = {"dynamic_img_size": True}
        if "dynamic_img_pad" in known:
            sizes["dynamic_img_pad"] = True  # a side that is no multiple of the patch
    elif "img_size" in known:
        sizes = {"img_size": image_size} if image_size is not None else {}
        if "strict_img_size" in known:
            sizes["strict_img_size"] = False
    try:
        return _create(name, {**options, **sizes})
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise UserError(
            f"timm/{name} cannot be built with {dict(options)} at {image_size or 'its own'} pixels: {error}."
        ) from None


class TimmEncoder(TimmTokens):
    """Tokens of a timm model.

    Args:
        name: A name of timm's, with or without the tag of its weights and the prefix `timm/`.
        image_size: Side in pixels; the model's own if not given.
        layers: Blocks whose patches are handed on besides the last; `all`: of every one of the last one's shape.
        final_norm: Take patches after the model's final norm, where it has one, or before it.
        pretrained: Start from published weights.
        weights: A local .safetensors file to start from instead.
        options: Further keywords of the timm model, such as `drop_path_rate`.
    """

    def __init__(
        self,
        name: str,
        *,
        image_size: int | None = None,
        layers: Layers | None = None,
        final_norm: bool = False,
        pretrained: bool = True,
        weights: str | Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        from timm.data.config import resolve_model_data_config

        short = name.removeprefix("timm/")
        names = timm_names()
        if short not in names:
            raise unknown_name("encoder", f"timm/{short}", [f"timm/{known}" for known in names])
        if image_size is not None and (
            isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 1
        ):
            raise UserError(f"encoder.image_size: expected a positive whole number, got {image_size!r}.")
        self.name = f"timm/{short}"
        self.model = build_model(short, image_size, options)
        data: dict[str, Any] = resolve_model_data_config(self.model)  # type: ignore[no-untyped-call]
        self.mean, self.std = tuple(data["mean"]), tuple(data["std"])
        self.image_size = image_size or int(data["input_size"][-1])
        if weights is not None:
            self._load(Path(weights))
        elif pretrained:
            from conceptlens.encoders.timm.hub import published_weights

            self._load(published_weights(self.name, dict(self.model.pretrained_cfg)))
        strip_head(self.model)
        self._settle(layers, final_norm)

    def _load(self, path: Path) -> None:
        state = read_weights(path)
        # timm keeps, beside most models, what brings other layouts and position grids of a checkpoint to its own.
        convert = getattr(sys.modules[type(self.model).__module__], "checkpoint_filter_fn", None)
        if convert is not None:
            state = convert(state, self.model)
        load_weights(self.model, state, source=str(path), hint=f"Is it a file for {self.name}?", ignore=is_head)
