"""`open_clip/…`: image towers of CLIP models as encoders; which names there are, `open_clip_files` says."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.layer_choice import Layers, choose_layers, pack, run_blocks, unpack
from conceptlens.encoders.open_clip.files import HUB, LOCAL, Published, resolve, split
from conceptlens.encoders.open_clip.towers import build_image_tower, load_tower
from conceptlens.encoders.timm.structure import is_head
from conceptlens.encoders.timm.tokens import TimmTokens
from conceptlens.encoders.weights_file import read_weights


def make_open_clip(
    name: str,
    *,
    image_size: int | None = None,
    layers: Layers | None = None,
    final_norm: bool = False,
    pretrained: bool = True,
    weights: str | Path | None = None,
    structure: str | None = None,
) -> Encoder:
    """The image tower of a CLIP model.

    Args:
        name: `open_clip/…`.
        image_size: Side in pixels; the model's own if not given. Positions are interpolated.
        layers: Blocks whose patches are handed on besides the last; `all`: of every one.
        final_norm: Take patches after the tower's final norm, or before it.
        pretrained: Start from the weights that the name stands for.
        weights: A local .safetensors file of the whole CLIP to start from instead.
        structure: What an encoder's `structure` said, to build it again where its folder or the hub is out of reach.
    """
    try:
        model = resolve(name, None if structure is None else json.loads(structure))
    except json.JSONDecodeError:
        raise UserError(f"{name}: expected its configuration as JSON, found {structure!r}.") from None
    tower = build_image_tower(model)
    if weights is not None:
        load_tower(tower, model, split(read_weights(Path(weights))), "visual", str(weights))
    elif pretrained:
        load_tower(tower, model, model.weights(), "visual", name)
    kind = OpenClipTrunk if hasattr(tower, "trunk") else OpenClipViT
    encoder = kind(model, tower, image_size, layers, final_norm)
    if weights is None and (model.complete or structure is not None):
        encoder.text = name
    if model.plain.startswith((LOCAL, HUB)):
        config = {"model_cfg": model.model, "preprocess_cfg": {"mean": model.mean, "std": model.std}}
        encoder.structure = json.dumps(config)
    return encoder


def _side(model: Published) -> int:
    side = model.model["vision_cfg"].get("image_size", 224)
    return int(side[0] if isinstance(side, list | tuple) else side)


def resize_positions(positions: Tensor, own: tuple[int, int], grid: tuple[int, int]) -> Tensor:
    """Position vectors (1 + own, D), the class token's first, for another grid, as open_clip resizes them."""
    if own == grid:
        return positions
    maps = positions[1:].reshape(1, *own, -1).permute(0, 3, 1, 2)
    maps = F.interpolate(maps, grid, mode="bicubic", antialias=True, align_corners=False)
    return torch.cat([positions[:1], maps.flatten(2).transpose(1, 2)[0]])


class OpenClipViT(Encoder):
    """open_clip's own ViT. Its class vector, after the final norm, is what open_clip projects to the joint space."""

    def __init__(
        self, model: Published, tower: Any, image_size: int | None, layers: Layers | None, final_norm: bool
    ) -> None:
        super().__init__()
        self.name, self.mean, self.std = model.name, model.mean, model.std
        self.image_size, self.final_norm = image_size or _side(model), final_norm
        self.to_text = nn.Linear(tower.proj.shape[0], tower.proj.shape[1], bias=False)
        self.to_text.weight.data.copy_(tower.proj.data.T)
        tower.proj = None
        self.visual = tower
        self.width = int(tower.conv1.out_channels)
        self.layers = choose_layers(layers, len(self.blocks()), self.name)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        patch = self.visual.patch_size
        if height < patch[0] or width < patch[1]:
            raise UserError(
                f"{self.name}: expected images of at least {patch[0]} × {patch[1]} pixels, one patch, got "
                f"{height} × {width}. Set encoder.image_size."
            )
        return height // patch[0], width // patch[1]

    def tokens(self, images: Tensor) -> Tokens:
        x, left = run_blocks(self._enter(images), self.blocks(), self.layers)
        return self._leave(x, left, self.grid(images.shape[-2], images.shape[-1]))

    def before(self, images: Tensor, blocks: int) -> Tensor:
        first = len(self.blocks()) - blocks
        return pack(*run_blocks(self._enter(images), self.blocks()[:first], self.layers), first)

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        first = len(self.blocks()) - cut.blocks
        x, before = unpack(entering, self.layers, first)
        x, behind = run_blocks(x, self.blocks()[first:], self.layers, first)
        return self._leave(x, {**before, **behind}, cut.grid)

    def _enter(self, images: Tensor) -> Tensor:
        """Class token and patches with their positions, (B, 1 + L, D)."""
        tower, grid = self.visual, self.grid(images.shape[-2], images.shape[-1])
        patches = tower.conv1(images.to(tower.conv1.weight.dtype)).flatten(2).transpose(1, 2)
        start = tower.class_embedding.expand(len(images), 1, -1).to(patches.dtype)
        positions = resize_positions(tower.positional_embedding, tower.grid_size, grid)
        x: Tensor = tower.ln_pre(tower.patch_dropout(torch.cat([start, patches], 1) + positions.to(patches.dtype)))
        return x

    def _leave(self, x: Tensor, left: dict[int, Tensor], grid: tuple[int, int]) -> Tokens:
        """Tokens from what left the last block and the chosen ones."""
        chosen = [self._choose_norm(left[layer]) for layer in self.layers]
        pooled: Tensor = self.visual._pool(x)[0]
        layers, layer_cls = tuple(layer[:, 1:] for layer in chosen), tuple(layer[:, 0] for layer in chosen)
        return Tokens(self._choose_norm(x[:, 1:]), grid, pooled, layers, layer_cls=layer_cls)

    def _choose_norm(self, patches: Tensor) -> Tensor:
        return self.visual.ln_post(patches) if self.final_norm else patches

    def blocks(self) -> Sequence[nn.Module]:
        return list(self.visual.transformer.resblocks)

    def tail(self) -> Sequence[nn.Module]:
        return [self.visual.ln_post]

    def heads(self) -> Sequence[nn.Module]:
        return [self.to_text]

    def embed(self, tokens: Tokens) -> Tensor:
        return F.normalize(self.to_text(tokens.cls), dim=-1)

    def embed_patches(self, tokens: Tokens) -> Tensor:
        patches = tokens.patches if self.final_norm else self.visual.ln_post(tokens.patches)
        return F.normalize(self.to_text(patches), dim=-1)


class OpenClipTrunk(TimmTokens):
    """An image tower around a timm trunk, as BiomedCLIP's and SigLIP's: read like any timm model, pooled like CLIP."""

    def __init__(
        self, model: Published, tower: Any, image_size: int | None, layers: Layers | None, final_norm: bool
    ) -> None:
        super().__init__()
        self.name, self.mean, self.std = model.name, model.mean, model.std
        self.image_size = image_size or _side(model)
        if image_size is not None and image_size != _side(model):
            if not hasattr(tower.trunk, "set_input_size") and hasattr(tower.trunk, "pos_embed"):
                raise UserError(f"encoder.image_size: {self.name} reads images of {_side(model)} pixels only.")
            tower.set_input_size(image_size)
        self.model, self.to_text = tower.trunk, tower.head
        self._settle(layers, final_norm)

    def tail(self) -> Sequence[nn.Module]:
        heads = {id(module) for module in self.heads()}
        return [module for module in super().tail() if id(module) not in heads]

    def heads(self) -> Sequence[nn.Module]:
        return [*(module for name, module in self.model.named_children() if is_head(name)), self.to_text]

    def embed(self, tokens: Tokens) -> Tensor:
        return F.normalize(self.to_text(self.model.forward_head(self._final(tokens))), dim=-1)

    def embed_patches(self, tokens: Tokens) -> Tensor:
        """Each patch as an image of its own: the only patch, and what stands where the class token does."""
        alone = tokens.patches.flatten(0, 1).unsqueeze(1)
        norm = getattr(self.model, "norm", None)
        cls = alone[:, 0] if self.final_norm or norm is None else norm(alone)[:, 0]
        vectors = self.embed(Tokens(alone, (1, 1), cls))
        return vectors.view(*tokens.patches.shape[:2], vectors.shape[-1])

    def _final(self, tokens: Tokens) -> Tensor:
        """What the trunk's own pooling expects: all tokens after the final norm, or the last map."""
        trunk, patches = self.model, tokens.patches
        prefix = getattr(trunk, "num_prefix_tokens", None)
        if prefix is None:
            if getattr(trunk, "norm", None) is not None or getattr(trunk, "output_fmt", "NCHW") != "NCHW":
                raise self._cannot_pool()
            return patches.transpose(1, 2).reshape(len(patches), -1, *tokens.grid)
        if not self.final_norm:
            patches = trunk.norm(patches)
        if not prefix:
            return patches
        has_class = trunk.cls_token is not None
        pooled = trunk.global_pool != "token" and getattr(trunk, "pool_include_prefix", trunk.global_pool == "map")
        if prefix > has_class and pooled:
            raise self._cannot_pool()  # registers are pooled too, but tokens do not hold them
        start = patches.new_zeros(len(patches), prefix, patches.shape[-1])
        if has_class and tokens.cls is not None:
            start[:, 0] = tokens.cls
        return torch.cat([start, patches], 1)

    def _cannot_pool(self) -> UserError:
        return UserError(
            f"{self.name} pools more than the tokens it hands out, so images cannot be compared with texts. "
            "Choose another CLIP."
        )
