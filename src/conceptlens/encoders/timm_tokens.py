"""Tokens of a timm model that has been built.

A ViT gives its patch tokens; the last map of a CNN or of a Swin serves as patches.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.layer_choice import choose_layers
from conceptlens.encoders.timm_structure import split_model
from conceptlens.errors import UserError


class TimmTokens(Encoder):
    """What encoders around a timm model share. Subclasses set name, model, size, mean and std, then call `_settle`."""

    model: Any

    def _settle(self, layers: Sequence[int] | None, final_norm: bool) -> None:
        """What follows from the model once its weights are loaded and `image_size` is set."""
        from timm.models.vision_transformer import VisionTransformer

        self.final_norm = final_norm
        self._is_plain_vit = type(self.model) is VisionTransformer
        self.layers = self._check_layers(layers)
        self._grids: dict[tuple[int, int], tuple[int, int]] = {}
        self.width = self._probe(self.image_size, self.image_size).patches.shape[-1]

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
        if self._is_plain_vit:  # its patches are a list already: as a map they would be copied there and back
            final, patches = self.model.forward_intermediates(
                images, indices=indices, norm=self.final_norm, output_fmt="NLC"
            )
            by_layer = dict(zip(indices, patches, strict=True))
            grid = self.model.patch_embed.dynamic_feat_size((images.shape[-2], images.shape[-1]))
            layers = tuple(by_layer[layer] for layer in self.layers)
            cls = final[:, 0] if self.model.cls_token is not None else by_layer[last].mean(1)
            return Tokens(by_layer[last], grid, cls, layers)
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
        if not self._is_plain_vit or self.layers:
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
