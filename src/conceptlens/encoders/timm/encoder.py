"""`timm/…`: image models of timm as encoders; which names there are, `published` says.

How its tokens are read: `tokens`. Weights are read by `weights_file`.
"""

import inspect
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.encoders.layer_choice import Layers
from conceptlens.encoders.timm.layouts import in_layout_of
from conceptlens.encoders.timm.published import Published, read_structure, resolve
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


def _init_options(model: nn.Module) -> set[str]:
    """Keywords of the model's class, and of its bases as far as keywords are passed on to them."""
    names: set[str] = set()
    for kind in type(model).__mro__:
        parameters = inspect.signature(vars(kind).get("__init__", object.__init__)).parameters.values()
        names |= {parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return names - {"self"}


def _layers(options: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Options whose names end in `_layer` with the classes that their words stand for, such as `SwiGLUPacked`."""
    from timm import layers

    named = dict(options)
    for option, word in options.items():
        if option.endswith("_layer") and isinstance(word, str):
            kind = getattr(layers, word, None) or getattr(nn, word, None)
            made = kind.func if isinstance(kind, partial) else kind
            if not isinstance(made, type) or not issubclass(made, nn.Module):
                raise UserError(f"encoder.options.{option} of {name}: timm and torch have no layer {word!r}.")
            named[option] = kind
    return named


def create(published: Published, options: Mapping[str, Any], classes: int | None = 0) -> nn.Module:
    """A timm model with fresh weights; `classes` of its head, None for as many as it was published with."""
    import timm
    from timm.models import PretrainedCfg

    own = {key: value for key, value in published.options.items() if key != "num_classes"}
    config: dict[str, Any] = {}
    if published.config is not None:
        fields = PretrainedCfg.__dataclass_fields__
        config = {"pretrained_cfg": {key: value for key, value in published.config.items() if key in fields}}
    if classes is None:
        classes = (published.structure or {}).get("num_classes", (published.config or {}).get("num_classes"))
    head = {} if classes is None else {"num_classes": classes}
    keywords = {**_layers({**own, **options}, published.name), **head, **config}
    model: nn.Module = timm.create_model(published.architecture, pretrained=False, **keywords)
    return model


def build_model(published: Published, image_size: int | None, options: Mapping[str, Any]) -> Any:
    """A timm model with fresh weights that takes as many image sizes as its kind can."""
    name = published.name
    for option in options:
        if option in RESERVED:
            raise UserError(f"encoder.options.{option} cannot be set for {name}: {RESERVED[option]}.")
    with torch.device("meta"):  # no memory, no random numbers: only to see which keywords its class takes
        known = _init_options(create(published, {}))
    for option in options:
        if option not in known:
            raise UserError(f"encoder.options: {name} has no option {option!r}. {did_you_mean(option, known)}")
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
        return create(published, {**options, **sizes})
    except (TypeError, ValueError, AssertionError, RuntimeError) as error:
        raise UserError(
            f"{name} cannot be built with {dict(options)} at {image_size or 'its own'} pixels: {error}."
        ) from None


class TimmEncoder(TimmTokens):
    """Tokens of a timm model.

    Args:
        name: A name of timm's, `hf-hub:…` or `local-dir:…` (see `published`), with or without the prefix `timm/`.
        image_size: Side in pixels; the model's own if not given.
        layers: Blocks whose patches are handed on besides the last; `all`: of every one of the last one's shape.
        final_norm: Take patches after the model's final norm, where it has one, or before it.
        pretrained: Start from published weights.
        weights: A local .safetensors file to start from instead.
        structure: What an encoder's `structure` said, to build it again where its folder or the hub is out of reach.
        options: Further keywords of the timm model, such as `drop_path_rate`; layers by their names.
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
        structure: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        from timm.data.config import resolve_model_data_config

        published = resolve(name, read_structure(name, structure))
        if image_size is not None and (
            isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 1
        ):
            raise UserError(f"encoder.image_size: expected a positive whole number, got {image_size!r}.")
        self.name = published.name
        self.structure = None if published.structure is None else json.dumps(published.structure)
        self.model = build_model(published, image_size, options)
        data: dict[str, Any] = resolve_model_data_config(self.model)  # type: ignore[no-untyped-call]
        self.mean, self.std = tuple(data["mean"]), tuple(data["std"])
        self.image_size = image_size or int(data["input_size"][-1])
        if weights is not None:
            self._load(Path(weights))
        elif pretrained:
            self._load(published.weights(dict(self.model.pretrained_cfg)))
        strip_head(self.model)
        self._settle(layers, final_norm)

    def _load(self, path: Path) -> None:
        state = in_layout_of(self.model, read_weights(path), ignore=is_head)
        hint = f"Is it a file for {self.name}?"
        inner, outer = state.get("blocks.0.mlp.fc1.weight"), state.get("blocks.0.mlp.fc2.weight")
        if inner is not None and outer is not None and len(inner) == 2 * outer.shape[1]:  # its configuration cannot say
            hint = "Its MLPs are gated: set `encoder.options: {mlp_layer: SwiGLUPacked, act_layer: SiLU}`."
        load_weights(self.model, state, source=str(path), hint=hint, ignore=is_head)
