"""`timm/NAME`: image models of timm as encoders.

A ViT gives its patch tokens; the last map of a CNN or of a Swin serves as patches. Weights are read by `weights_file`.
"""

import inspect
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.layer_choice import choose_layers
from conceptlens.encoders.timm_structure import is_head, split_model, strip_head
from conceptlens.encoders.weights_file import load_weights, read_weights
from conceptlens.errors import UserError, did_you_mean, unknown_name

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


class TimmEncoder(Encoder):
    """Tokens of a timm model.

    Args:
        name: A name of timm's, with or without the tag of its weights and the prefix `timm/`.
        image_size: Side in pixels; the model's own if not given.
        layers: Blocks whose patches are handed on besides the last; they must share the last one's shape.
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
        layers: Sequence[int] | None = None,
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
        self.final_norm = final_norm
        self.model: Any = build_model(short, image_size, options)
        data: dict[str, Any] = resolve_model_data_config(self.model)  # type: ignore[no-untyped-call]
        self.mean, self.std = tuple(data["mean"]), tuple(data["std"])
        self.image_size = image_size or int(data["input_size"][-1])
        if weights is not None:
            self._load(Path(weights))
        elif pretrained:
            from conceptlens.encoders.timm_hub import published_weights

            self._load(published_weights(self.name, dict(self.model.pretrained_cfg)))
        strip_head(self.model)
        self.layers = self._check_layers(layers)
        self._grids: dict[tuple[int, int], tuple[int, int]] = {}
        self.width = self._probe(self.image_size, self.image_size).patches.shape[-1]

    def _load(self, path: Path) -> None:
        state = read_weights(path)
        # timm keeps, beside most models, what brings other layouts and position grids of a checkpoint to its own.
        convert = getattr(sys.modules[type(self.model).__module__], "checkpoint_filter_fn", None)
        if convert is not None:
            state = convert(state, self.model)
        load_weights(self.model, state, source=str(path), hint=f"Is it a file for {self.name}?", ignore=is_head)

    def _check_layers(self, layers: Sequence[int] | None) -> tuple[int, ...]:
        if not layers:
            return ()
        if not hasattr(self.model, "forward_intermediates"):
            raise UserError(f"encoder.layers: {self.name} does not hand on its layers. Leave encoder.layers empty.")
        shapes = [(info["num_chs"], info["reduction"]) for info in self.model.feature_info]
        chosen = choose_layers(layers, len(shapes), self.name)
        for layer in chosen:
            if shapes[layer] != shapes[-1]:
                raise UserError(
                    f"encoder.layers: layer {layer} of {self.name} has {shapes[layer][0]} channels, one for every "
                    f"{shapes[layer][1]} pixels, the last {shapes[-1][0]} for every {shapes[-1][1]}. Only layers of "
                    "the last one's shape can be handed on; all blocks of a plain ViT can."
                )
        return chosen

    def tokens(self, images: Tensor) -> Tokens:
        images = images.to(next(self.model.parameters()).dtype)
        if not len(images):  # windows and batch norms cannot divide nothing
            grid = self.grid(images.shape[-2], images.shape[-1])
            empty = images.new_zeros(0, grid[0] * grid[1], self.width)
            return Tokens(empty, grid, empty.mean(1), (empty,) * len(self.layers))
        if not hasattr(self.model, "forward_intermediates"):
            return self._from_map(self.model.forward_features(images))
        last = len(self.model.feature_info) - 1
        indices = sorted({*self.layers, last})
        final, maps = self.model.forward_intermediates(images, indices=indices, norm=self.final_norm, output_fmt="NCHW")
        by_layer = dict(zip(indices, (_flat(layer) for layer in maps), strict=True))
        layers = tuple(by_layer[layer] for layer in self.layers)
        if not isinstance(final, Tensor) or (final.ndim != 3 and getattr(self.model, "norm", None) is None):
            read = self._from_map(final)
            return Tokens(read.patches, read.grid, read.cls, layers)
        grid = (int(maps[-1].shape[-2]), int(maps[-1].shape[-1]))
        patches = by_layer[last]
        has_class_token = final.ndim == 3 and getattr(self.model, "cls_token", None) is not None
        return Tokens(patches, grid, final[:, 0] if has_class_token else patches.mean(1), layers)

    def _plain_vit(self, blocks: int) -> Any:
        """The model, if it is a ViT whose blocks need nothing but their input."""
        from timm.models.vision_transformer import VisionTransformer

        if type(self.model) is not VisionTransformer or self.layers:
            return super().before(torch.empty(0), blocks)  # refuses
        return self.model

    def before(self, images: Tensor, blocks: int) -> Tensor:
        model = self._plain_vit(blocks)
        images = images.to(next(model.parameters()).dtype)
        x: Tensor = model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(images))))
        return model.blocks[: len(model.blocks) - blocks](x)  # type: ignore[no-any-return]

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        model = self._plain_vit(cut.blocks)
        x = model.blocks[len(model.blocks) - cut.blocks :](entering.to(next(model.parameters()).dtype))
        final = model.norm(x)
        patches = (final if self.final_norm else x)[:, model.num_prefix_tokens :]
        return Tokens(patches, cut.grid, final[:, 0] if model.cls_token is not None else patches.mean(1))

    def _from_map(self, final: Any) -> Tokens:
        """Tokens from the last feature map of a network without a final norm."""
        if not isinstance(final, Tensor) or final.ndim != 4:
            raise UserError(
                f"{self.name} gives no map of features that could serve as patches. Choose another encoder."
            )
        if getattr(self.model, "output_fmt", "NCHW") == "NHWC":
            final = final.permute(0, 3, 1, 2)
        patches = _flat(final)
        return Tokens(patches, (final.shape[-2], final.shape[-1]), patches.mean(1))

    @torch.no_grad()
    def _probe(self, height: int, width: int) -> Tokens:
        """One grey image through the model: the surest way to its grid and width."""
        parameter = next(self.model.parameters())
        was_training = self.training
        self.eval()
        try:
            return self.tokens(torch.zeros(1, 3, height, width, dtype=parameter.dtype, device=parameter.device))
        except (AssertionError, RuntimeError, ValueError) as error:
            own = self.model.pretrained_cfg.get("input_size", (3, self.image_size))[-1]
            raise UserError(
                f"{self.name} cannot read images of {height} × {width} pixels ({str(error).splitlines()[0]}). "
                f"Its own size is {own}: set encoder.image_size."
            ) from None
        finally:
            self.train(was_training)

    def blocks(self) -> Sequence[nn.Module]:
        return split_model(self.model)[0]

    def tail(self) -> Sequence[nn.Module]:
        return split_model(self.model)[1]

    def grid(self, height: int, width: int) -> tuple[int, int]:
        if (height, width) not in self._grids:
            self._grids[height, width] = self._probe(height, width).grid
        return self._grids[height, width]


def _flat(maps: Tensor) -> Tensor:
    """(B, D, h, w) → (B, h · w, D)."""
    return maps.flatten(2).transpose(1, 2)
