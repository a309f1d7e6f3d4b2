"""`transformers/…`: DINOv2, DINOv3, SigLIP, ViT, ViT-MAE (Phikon, …) and others with one list of blocks, as encoders.

The model's own forward runs; what leaves its blocks is seen by hooks. So rotary positions, registers and layer scales
are the original's.
"""

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.encoders.layer_choice import Layers, choose_layers
from conceptlens.encoders.replay import ReplayEncoder
from conceptlens.encoders.transformers.published import VISION, Published, resolve, transformers
from conceptlens.encoders.weights_file import load_weights, read_weights

NORMS = ("layernorm", "norm", "post_layernorm")
HEADS = ("pooler", "head")  # no token passes them
HALF = (0.5, 0.5, 0.5)


class TransformersEncoder(ReplayEncoder):
    """Tokens of a vision model of transformers.

    Args:
        name: `transformers/ORGANIZATION/NAME` or `transformers/local-dir:PATH`.
        image_size: Side in pixels; the model's own if not given. Positions are interpolated.
        layers: Blocks whose patches are handed on besides the last; `all`: of every one.
        final_norm: Take patches after the model's final norm, or before it.
        pretrained: Start from the weights that the name stands for.
        weights: A local .safetensors file with the names of this transformers' parameters to start from instead.
        structure: What an encoder's `structure` said, to build it again where its folder or the hub is out of reach.
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
    ) -> None:
        super().__init__()
        published = resolve(name, structure)
        self.name, self.structure, self.final_norm = name, published.structure, final_norm
        self.model = build(published, pretrained=pretrained and weights is None)
        if weights is not None:
            load_weights(self.model, read_weights(Path(weights)), source=str(weights), hint=f"Is it of {name}?")
        config: Any = self.model.config
        self.mean = _three(published.images.get("image_mean", HALF), name)
        self.std = _three(published.images.get("image_std", HALF), name)
        self.image_size = image_size or image_side(published.images, config)
        self.patch = _patch(config, name)
        self._trunk = _trunk(self.model, name)
        if config.model_type == "vit_mae":
            config.mask_ratio = 0.0  # in use no patch is hidden; `tokens` keeps their order
        takes = inspect.signature(self.model.forward).parameters
        self._interpolates = "interpolate_pos_encoding" in takes
        self.width = int(config.hidden_size)
        self.layers = choose_layers(layers, len(self._trunk), name)

    def _norm(self, tokens: Tensor) -> Tensor:
        return self.tail()[0](tokens) if self.tail() else tokens

    def grid(self, height: int, width: int) -> tuple[int, int]:
        if height < self.patch or width < self.patch:
            raise UserError(
                f"{self.name}: expected images of at least {self.patch} pixels, one patch, got {height} × {width}. "
                "Set encoder.image_size."
            )
        return height // self.patch, width // self.patch

    def tokens(self, images: Tensor) -> Tokens:
        grid = self.grid(images.shape[-2], images.shape[-1])
        images = images[..., : grid[0] * self.patch, : grid[1] * self.patch]
        left: dict[int, Tensor] = {}
        last = len(self._trunk) - 1

        def keep(number: int) -> Any:
            def hook(_: nn.Module, __: Any, value: Tensor) -> None:
                left[number] = value

            return hook

        handles = [self._trunk[number].register_forward_hook(keep(number)) for number in {*self.layers, last}]
        more: dict[str, Any] = {"interpolate_pos_encoding": True} if self._interpolates else {}
        if self.model.config.model_type == "vit_mae":
            more["noise"] = torch.arange(grid[0] * grid[1], device=images.device).float().expand(images.shape[0], -1)
        try:
            self.model(pixel_values=images.to(next(self.model.parameters()).dtype), **more)
        finally:
            for handle in handles:
                handle.remove()
        start = left[last].shape[1] - grid[0] * grid[1]  # class token and registers
        final = self._norm(left[last])
        patches = (final if self.final_norm else left[last])[:, start:]
        chosen = [self._norm(left[layer]) if self.final_norm else left[layer] for layer in self.layers]
        return Tokens(
            patches,
            grid,
            final[:, 0] if start else patches.mean(1),
            tuple(layer[:, start:] for layer in chosen),
            layer_cls=tuple(layer[:, 0] if start else layer.mean(1) for layer in chosen),
        )

    def blocks(self) -> Sequence[nn.Module]:
        return self._trunk

    def tail(self) -> Sequence[nn.Module]:
        return [getattr(self.model, norm) for norm in NORMS if hasattr(self.model, norm)]

    def heads(self) -> Sequence[nn.Module]:
        parts = [getattr(self.model, part, None) for part in HEADS]
        return [part for part in parts if isinstance(part, nn.Module)]


def build(published: Published, *, pretrained: bool) -> Any:
    """The vision model, with its weights or fresh ones."""
    package = transformers()
    kind = str(published.config["model_type"])
    described = published.config.get(VISION[kind], {}) if kind in VISION else published.config
    # An implementation of attention may be named by a repository of kernels, which are code.
    described = {key: value for key, value in described.items() if not key.endswith("_implementation")}
    if kind.startswith("timm") or any("backbone" in key and value for key, value in described.items()):
        # It would fetch it, or have timm open any file.
        raise UserError(f"{published.name}: a model around another published one is not read. Name that one.")
    own_kind = f"{kind}_vision_model" if kind in VISION else kind
    try:
        config = package.AutoConfig.for_model(**{**described, "model_type": own_kind})
        model_class = package.AutoModel._model_mapping[type(config)]
    except (KeyError, ValueError):
        raise UserError(
            f"{published.name}: transformers {package.__version__} has no model of the type {kind!r}. Update it, or "
            "choose another."
        ) from None
    if getattr(model_class, "main_input_name", "") != "pixel_values":
        raise UserError(f"{published.name}: {kind!r} is no vision model that reads an image. Choose another.")
    return load_published(model_class, published, config) if pretrained else model_class(config).eval()


def load_published(model_class: Any, published: Published, config: Any, spare: tuple[str, ...] = HEADS) -> Any:
    """A model of this class with its weights; only parts in `spare` may start fresh."""
    logging = transformers().utils.logging
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model, report = model_class.from_pretrained(
            published.weights_folder(),
            config=config,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
            dtype=torch.float32,
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{published.name}: its weights cannot be loaded: {reason}") from None
    finally:
        if bars:
            logging.enable_progress_bar()
    missing = [key for key in report["missing_keys"] if key.partition(".")[0] not in spare]
    if missing:
        raise UserError(
            f"{published.name}: its weights lack {len(missing)} tensors, such as {missing[0]}. Is it a whole model?"
        )
    return model.eval()


def _trunk(model: Any, name: str) -> list[nn.Module]:
    """The list of blocks: as many modules of one class as its configuration says."""
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == getattr(model.config, "num_hidden_layers", 0) > 0:
            return list(module)
    raise UserError(f"{name}: it has no list of equal blocks that hand on tokens. Use timm's model, `timm/…`.")


def _patch(config: Any, name: str) -> int:
    patch = getattr(config, "patch_size", None)
    patch = patch[0] if isinstance(patch, list | tuple) and len(set(patch)) == 1 else patch
    if not isinstance(patch, int) or not isinstance(getattr(config, "hidden_size", None), int):
        raise UserError(f"{name}: only models with square patches of one size are read. Use timm's, `timm/…`.")
    return patch


def image_side(images: dict[str, Any], config: Any) -> int:
    """The side that the preprocessor cuts to, or that positions were learned for."""
    for key in ("crop_size", "size") if images.get("do_center_crop", True) else ("size",):
        size = images.get(key)
        side = size.get("height", size.get("shortest_edge")) if isinstance(size, dict) else size
        if isinstance(side, int):
            return side
    own: Any = getattr(config, "image_size", 224)
    return int(own[0] if isinstance(own, list | tuple) else own)


def _three(values: Any, name: str) -> tuple[float, float, float]:
    if not isinstance(values, list | tuple) or len(values) != 3 or not all(isinstance(v, int | float) for v in values):
        raise UserError(f"{name}: expected three numbers of image_mean and image_std, found {values!r}.")
    return (float(values[0]), float(values[1]), float(values[2]))
