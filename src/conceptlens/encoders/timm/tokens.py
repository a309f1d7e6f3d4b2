"""Tokens of a timm model that has been built.

A ViT gives its patch tokens; the last map of a CNN or of a Swin serves as patches.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Cut, Tokens
from conceptlens.encoders.layer_choice import Layers, choose_layers, last_of_stride, on_grid, pack, run_blocks, unpack
from conceptlens.encoders.replay import ReplayEncoder
from conceptlens.encoders.timm.structure import split_model


class TimmTokens(ReplayEncoder):
    """What encoders around a timm model share. Subclasses set name, model, size, mean and std, then call `_settle`."""

    model: Any

    def _settle(self, layers: Layers | None, final_norm: bool) -> None:
        """What follows from the model once its weights are loaded and `image_size` is set."""
        from timm.models.vision_transformer import VisionTransformer

        self.final_norm = final_norm
        self._is_plain_vit = type(self.model) is VisionTransformer
        self.layers = self._check_layers(layers)
        self._grids: dict[tuple[int, int], tuple[int, int]] = {}
        probe = self._probe(self.image_size, self.image_size)
        self.width = probe.patches.shape[-1]
        self._layer_widths = tuple(layer.shape[-1] for layer in probe.layers)

    @property
    def layer_widths(self) -> tuple[int, ...]:
        return self._layer_widths

    def _check_layers(self, layers: Layers | None) -> tuple[int, ...]:
        if not layers:
            return ()
        if not hasattr(self.model, "forward_intermediates"):
            raise UserError(f"encoder.layers: {self.name} does not hand on its layers. Leave encoder.layers empty.")
        shapes = [(info["num_chs"], info["reduction"]) for info in self.model.feature_info]
        if layers == "all":
            return tuple(layer for layer, shape in enumerate(shapes) if shape == shapes[-1])
        if layers == "several" and len(set(shapes)) > 1:
            return last_of_stride([stride for _, stride in shapes])
        return choose_layers(layers, len(shapes), self.name)

    def tokens(self, images: Tensor) -> Tokens:
        images = images.to(next(self.model.parameters()).dtype)
        if not len(images):  # windows and batch norms cannot divide nothing
            grid = self.grid(images.shape[-2], images.shape[-1])
            empty = images.new_zeros(0, grid[0] * grid[1], self.width)
            layers = tuple(images.new_zeros(0, empty.shape[1], width) for width in self.layer_widths)
            return Tokens(empty, grid, empty.mean(1), layers, layer_cls=tuple(layer.mean(1) for layer in layers))
        if self._is_plain_vit:  # its patches are a list already: as a map they would be copied there and back
            x, left = run_blocks(self._enter(images), self.model.blocks, self.layers)
            return self._leave(x, left, self.model.patch_embed.dynamic_feat_size(tuple(images.shape[-2:])))
        if not hasattr(self.model, "forward_intermediates"):
            return self._from_map(self.model.forward_features(images))
        last = len(self.model.feature_info) - 1
        indices = sorted({*self.layers, last})
        prefix = {"return_prefix_tokens": True} if self.layers and self._tells_prefix() else {}
        final, found = self.model.forward_intermediates(
            images, indices=indices, norm=self.final_norm, output_fmt="NCHW", **prefix
        )
        maps = dict(zip(indices, (layer[0] if prefix else layer for layer in found), strict=True))
        grid = (0, 0)  # the finest, by a loop: torch.export cannot follow `max` of a generator
        for each in maps.values():
            if int(each.shape[-1]) > grid[1]:
                grid = (int(each.shape[-2]), int(each.shape[-1]))
        patches = {layer: on_grid(each, grid) for layer, each in maps.items()}
        starts = {layer: each[1][:, 0] for layer, each in zip(indices, found, strict=True)} if prefix else {}
        layers = tuple(patches[layer] for layer in self.layers)
        layer_cls = tuple(starts[layer] if prefix else patches[layer].mean(1) for layer in self.layers)
        if not isinstance(final, Tensor) or (final.ndim != 3 and getattr(self.model, "norm", None) is None):
            read = self._from_map(final, grid)
            return Tokens(read.patches, read.grid, read.cls, layers, layer_cls=layer_cls)
        has_class_token = final.ndim == 3 and getattr(self.model, "cls_token", None) is not None
        cls = final[:, 0] if has_class_token else patches[last].mean(1)
        return Tokens(patches[last], grid, cls, layers, layer_cls=layer_cls)

    def _tells_prefix(self) -> bool:
        """Whether the model has a class token and hands it on with each layer."""
        known = inspect.signature(self.model.forward_intermediates).parameters
        return "return_prefix_tokens" in known and getattr(self.model, "cls_token", None) is not None

    def _enter(self, images: Tensor) -> Tensor:
        """What enters the first block of a plain ViT, (B, prefix + L, D)."""
        model = self.model
        images = images.to(next(model.parameters()).dtype)
        return model.norm_pre(model.patch_drop(model._pos_embed(model.patch_embed(images))))  # type: ignore[no-any-return]

    def _leave(self, x: Tensor, left: dict[int, Tensor], grid: tuple[int, int]) -> Tokens:
        """Tokens of a plain ViT from what left its last block and the chosen ones."""
        model = self.model
        start, has_class_token = model.num_prefix_tokens, model.cls_token is not None
        final = model.norm(x)
        patches = (final if self.final_norm else x)[:, start:]
        chosen = [model.norm(left[layer]) if self.final_norm else left[layer] for layer in self.layers]
        return Tokens(
            patches,
            grid,
            final[:, 0] if has_class_token else patches.mean(1),
            tuple(layer[:, start:] for layer in chosen),
            layer_cls=tuple(layer[:, 0] if has_class_token else layer[:, start:].mean(1) for layer in chosen),
        )

    def before(self, images: Tensor, blocks: int) -> Tensor:
        if not self._is_plain_vit:  # only its blocks need nothing but their input
            return super().before(images, blocks)
        first = len(self.model.blocks) - blocks
        return pack(*run_blocks(self._enter(images), self.model.blocks[:first], self.layers), first)

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        if not self._is_plain_vit:
            return super().after(entering, cut)
        first = len(self.model.blocks) - cut.blocks
        x, before = unpack(entering.to(next(self.model.parameters()).dtype), self.layers, first)
        x, behind = run_blocks(x, self.model.blocks[first:], self.layers, first)
        return self._leave(x, {**before, **behind}, cut.grid)

    def layer_block(self, layer: int) -> int | None:
        blocks, features = self.blocks(), self.model.feature_info
        if len(features) == len(blocks):
            return layer
        names = {id(module): name for name, module in self.model.named_modules()}
        inner = str(features[layer]["module"])
        for number, block in enumerate(blocks):
            if f"{inner}.".startswith(f"{names[id(block)]}."):
                return number
        return None

    def _from_map(self, final: Any, grid: tuple[int, int] | None = None) -> Tokens:
        """Tokens from the last feature map of a network without a final norm, on its own grid or a finer one."""
        if not isinstance(final, Tensor) or final.ndim != 4:
            raise UserError(
                f"{self.name} gives no map of features that could serve as patches. Choose another encoder."
            )
        if getattr(self.model, "output_fmt", "NCHW") == "NHWC":
            final = final.permute(0, 3, 1, 2)
        grid = grid or (int(final.shape[-2]), int(final.shape[-1]))
        patches = on_grid(final, grid)
        return Tokens(patches, grid, patches.mean(1))

    @torch.no_grad()
    def _probe(self, height: int, width: int) -> Tokens:
        """One gray image through the model: the surest way to its grid and width."""
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
