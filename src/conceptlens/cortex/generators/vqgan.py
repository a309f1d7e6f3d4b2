"""VQGAN (Esser et al., Taming transformers, 2021), rebuilt from the tensors of a checkpoint.

Everything but the image size follows from names and shapes of the tensors, so no configuration is needed: channels of
each resolution, blocks, where attention is, codebook. The names are those of the original release, which is what
checkpoints carry; `diffusers_layout` renames those of Hugging Face's `VQModel`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.encoders.weights_file import load_weights


@dataclass(frozen=True)
class Plan:
    """What the tensors of one half, encoder or decoder, say of it."""

    channels: tuple[int, ...]  # of each resolution, finest first
    blocks: tuple[int, ...]
    attention: tuple[int, ...]  # attention layers of each resolution: as many as blocks, or none
    latent: int
    middle_attention: bool


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(32 if channels % 32 == 0 else 1, channels, eps=1e-6)


class _Block(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = _norm(inside), nn.Conv2d(inside, outside, 3, padding=1)
        self.norm2, self.conv2 = _norm(outside), nn.Conv2d(outside, outside, 3, padding=1)
        if inside != outside:
            self.nin_shortcut = nn.Conv2d(inside, outside, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = self.conv2(F.silu(self.norm2(y)))
        result: Tensor = y + (self.nin_shortcut(x) if hasattr(self, "nin_shortcut") else x)
        return result


class _Attention(nn.Module):
    """One head over all positions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = _norm(channels)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(channels, channels, 1) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        seen = self.norm(x)
        q, k, v = (layer(seen).flatten(2).transpose(1, 2) for layer in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).view_as(x)
        result: Tensor = x + self.proj_out(mixed)
        return result


class _Resample(nn.Module):
    def __init__(self, channels: int, down: bool) -> None:
        super().__init__()
        self.down = down
        self.conv = nn.Conv2d(channels, channels, 3, 2 if down else 1, 0 if down else 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 1, 0, 1)) if self.down else F.interpolate(x, scale_factor=2.0)
        resampled: Tensor = self.conv(x)
        return resampled


def _level(inside: int, outside: int, blocks: int, attention: int) -> nn.Module:
    level = nn.Module()
    level.block = nn.ModuleList(_Block(inside if place == 0 else outside, outside) for place in range(blocks))
    level.attn = nn.ModuleList(_Attention(outside) for _ in range(attention))
    return level


def _run_level(level: nn.Module, x: Tensor) -> Tensor:
    for place, block in enumerate(level.block):  # type: ignore[arg-type]
        x = block(x)
        if len(level.attn):  # type: ignore[arg-type]
            x = level.attn[place](x)  # type: ignore[index,operator]
    return x


def _middle(channels: int, attention: bool) -> nn.Module:
    middle = nn.Module()
    middle.block_1, middle.block_2 = _Block(channels, channels), _Block(channels, channels)
    if attention:
        middle.attn_1 = _Attention(channels)
    return middle


def _run_middle(middle: nn.Module, x: Tensor) -> Tensor:
    x = middle.block_1(x)  # type: ignore[operator]
    if hasattr(middle, "attn_1"):
        x = middle.attn_1(x)  # type: ignore[operator]
    result: Tensor = middle.block_2(x)  # type: ignore[operator]
    return result


class _Encoder(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.conv_in = nn.Conv2d(3, plan.channels[0] if plan.blocks else 1, 3, padding=1)
        self.down = nn.ModuleList()
        first = plan.channels[0]
        for place, channels in enumerate(plan.channels[1:]):
            level = _level(first, channels, plan.blocks[place], plan.attention[place])
            if place < len(plan.channels) - 2:
                level.downsample = _Resample(channels, down=True)
            self.down.append(level)
            first = channels
        self.mid = _middle(first, plan.middle_attention)
        self.norm_out, self.conv_out = _norm(first), nn.Conv2d(first, plan.latent, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv_in(x)
        for level in self.down:
            x = _run_level(level, x)
            if hasattr(level, "downsample"):
                x = level.downsample(x)  # type: ignore[operator]
        result: Tensor = self.conv_out(F.silu(self.norm_out(_run_middle(self.mid, x))))
        return result


class _Decoder(nn.Module):
    """Levels are numbered as the encoder's, finest first, and passed from the last to the first."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        last = plan.channels[-1]
        self.conv_in = nn.Conv2d(plan.latent, last, 3, padding=1)
        self.mid = _middle(last, plan.middle_attention)
        levels = []
        for place in reversed(range(len(plan.channels))):
            level = _level(last, plan.channels[place], plan.blocks[place], plan.attention[place])
            last = plan.channels[place]
            if place:
                level.upsample = _Resample(last, down=False)
            levels.append(level)
        self.up = nn.ModuleList(reversed(levels))
        self.norm_out, self.conv_out = _norm(last), nn.Conv2d(last, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = _run_middle(self.mid, self.conv_in(x))
        for level in reversed(self.up):
            x = _run_level(level, x)
            if hasattr(level, "upsample"):
                x = level.upsample(x)  # type: ignore[operator]
        result: Tensor = self.conv_out(F.silu(self.norm_out(x)))
        return result


def _plan(state: Mapping[str, Tensor], half: str, latent: int) -> Plan:
    levels = "down" if half == "encoder" else "up"
    found = re.compile(rf"{half}\.{levels}\.(\d+)\.(block|attn)\.(\d+)\.")
    counts: dict[tuple[int, str], int] = {}
    for name in state:
        if match := found.match(name):
            key = int(match[1]), match[2]
            counts[key] = max(counts.get(key, 0), int(match[3]) + 1)
    depth = 1 + max((level for level, _ in counts), default=-1)
    if not depth:
        raise UserError(f"no {half} of a VQGAN (no tensors named {half}.{levels}.0.block.…)")
    outside = [state[f"{half}.{levels}.{place}.block.0.conv1.weight"].shape[0] for place in range(depth)]
    first = [state["encoder.conv_in.weight"].shape[0]] if half == "encoder" else []
    return Plan(
        (*first, *outside),
        tuple(counts.get((place, "block"), 0) for place in range(depth)),
        tuple(counts.get((place, "attn"), 0) for place in range(depth)),
        latent,
        f"{half}.mid.attn_1.q.weight" in state,
    )


class VQGAN(VQModel):
    """An encoder, a codebook and a decoder; it generates only with a transformer beside it.

    Args:
        state: Tensors by their original names.
        source: The file, for errors and as the name.
        image_size: Side in pixels of its images.
    """

    def __init__(self, state: Mapping[str, Tensor], source: str, image_size: int = 256) -> None:
        super().__init__()
        self.name, self.image_size = source, image_size
        needed = _kept(state)
        try:
            codes = needed["quantize.embedding.weight"]
            latent = needed["quant_conv.weight"].shape[1]
            plans = {half: _plan(needed, half, latent) for half in ("encoder", "decoder")}
        except KeyError as error:
            raise UserError(f"{source}: expected the tensors of a VQGAN; {error} is missing.") from None
        except UserError as error:
            raise UserError(f"{source}: expected the tensors of a VQGAN, found {error}.") from None
        if codes.ndim != 2 or needed["quant_conv.weight"].shape[0] != codes.shape[1]:
            raise UserError(
                f"{source}: the codebook's width {tuple(codes.shape)[-1]} is not what the encoder hands on "
                f"({needed['quant_conv.weight'].shape[0]})."
            )
        self.encoder, self.decoder = _Encoder(plans["encoder"]), _Decoder(plans["decoder"])
        self.quantize = nn.Module()
        self.quantize.embedding = nn.Embedding(*codes.shape)
        if "quantize.proj.weight" in needed:  # Gumbel: logits of codes instead of distances to them
            self.quantize.proj = nn.Conv2d(needed["quantize.proj.weight"].shape[1], len(codes), 1)
        size = needed["quant_conv.weight"].shape[-1]  # 1, or 3 in VAR
        self.quant_conv = nn.Conv2d(latent, codes.shape[1], size, padding=size // 2)
        self.post_quant_conv = nn.Conv2d(codes.shape[1], plans["decoder"].latent, size, padding=size // 2)
        load_weights(self, needed, source=source, hint="It is not a VQGAN of the original structure.")
        stride = 2 ** (len(plans["encoder"].channels) - 2)
        if image_size % stride:
            raise UserError(f"{source}: images must have a multiple of {stride} pixels a side, found {image_size}.")
        self.grid = (image_size // stride, image_size // stride)
        self.eval().requires_grad_(False)

    @property
    def codebook(self) -> Tensor:
        weight: Tensor = self.quantize.embedding.weight  # type: ignore[union-attr,assignment]
        return weight

    @torch.no_grad()
    def vectors(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) → what is quantized, (B, d, h, w)."""
        if images.shape[-2:] != (self.image_size, self.image_size):
            side = (self.image_size, self.image_size)
            images = F.interpolate(images, side, mode="bicubic", antialias=True).clamp(0, 1)
        vectors: Tensor = self.quant_conv(self.encoder(2 * images.to(self.codebook) - 1))
        return vectors

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        vectors = self.vectors(images)
        if hasattr(self.quantize, "proj"):
            tokens: Tensor = self.quantize.proj(vectors).argmax(1)  # type: ignore[operator]
            return tokens
        return self.nearest_codes(vectors)

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        painted: Tensor = self.decoder(self.post_quant_conv(embeddings))
        return ((painted + 1) / 2).clamp(0, 1)


def _kept(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the model itself: of a transformer's checkpoint its first stage, without losses."""
    first = "first_stage_model."
    if any(name.startswith(first) for name in state):
        state = {name.removeprefix(first): value for name, value in state.items() if name.startswith(first)}
    parts = ("encoder.", "decoder.", "quantize.", "quant_conv.", "post_quant_conv.")
    kept = {name: value.float() for name, value in state.items() if name.startswith(parts)}
    if "quantize.embed.weight" in kept:  # the Gumbel variant's name for its codebook
        kept["quantize.embedding.weight"] = kept.pop("quantize.embed.weight")
    return kept


_PARTS = (
    (r"\.conv_norm_out\.", ".norm_out."),
    (r"\.conv_shortcut\.", ".nin_shortcut."),
    (r"\.mid_block\.resnets\.0\.", ".mid.block_1."),
    (r"\.mid_block\.resnets\.1\.", ".mid.block_2."),
    (r"\.mid_block\.attentions\.0\.", ".mid.attn_1."),
    (r"\.resnets\.(\d+)\.", r".block.\1."),
    (r"\.attentions\.(\d+)\.", r".attn.\1."),
    (r"\.downsamplers\.0\.", ".downsample."),
    (r"\.upsamplers\.0\.", ".upsample."),
    (r"\.group_norm\.", ".norm."),
    (r"\.(?:to_q|query)\.", ".q."),
    (r"\.(?:to_k|key)\.", ".k."),
    (r"\.(?:to_v|value)\.", ".v."),
    (r"\.(?:to_out\.0|proj_attn)\.", ".proj_out."),
)


def diffusers_layout(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of Hugging Face's `VQModel` under the original names; its linear maps become 1 × 1 convolutions."""
    levels = 1 + max(
        (int(match[1]) for name in state if (match := re.match(r"decoder\.up_blocks\.(\d+)\.", name))), default=0
    )
    renamed = {}
    for name, value in state.items():
        new = re.sub(r"\.down_blocks\.", ".down.", name)
        new = re.sub(r"\.up_blocks\.(\d+)\.", lambda match: f".up.{levels - 1 - int(match[1])}.", new)
        for pattern, replacement in _PARTS:
            new = re.sub(pattern, replacement, new)
        is_map = re.search(r"\.(q|k|v|proj_out)\.weight$", new) and value.ndim == 2
        renamed[new] = value[:, :, None, None] if is_map else value
    return renamed
