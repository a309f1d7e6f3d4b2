"""VAR's transformer (Tian et al., Visual autoregressive modeling, 2024): all tokens of a scale at once, coarse to fine.

Blocks with adaptive layer norm of the class; queries and keys of unit length with a learned scale a head in the
published models. A scale sees itself and the coarser ones. Guidance grows with the scale from 0 to its full strength.
"""

import math
import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.sampling import class_number, draw_tokens
from conceptlens.cortex.generators.settings import Sampling
from conceptlens.cortex.generators.var_tokenizer import VARTokenizer
from conceptlens.encoders.weights_file import load_weights

MODEL_MARK = "pos_1LC"
MOST_LEVELS = 1000
BUFFERS = ("lvl_1L", "attn_bias_for_masking")  # follow from the scales
MOST_SCALE = math.log(100)
Past = list[list[tuple[Tensor, Tensor]]]  # keys and values, of each block and scale


def scales_of(state: Mapping[str, Tensor], source: str) -> tuple[int, ...]:
    """Sides of the token maps: each token's level is in the file."""
    try:
        levels = state["lvl_1L"].flatten().long()
        counts = torch.bincount(levels, minlength=1).tolist() if int(levels.max()) < MOST_LEVELS else []
    except KeyError:
        raise UserError(f"{source}: expected the tensors of a VAR transformer; lvl_1L is missing.") from None
    except (RuntimeError, IndexError):
        counts = []
    if not counts or any(math.isqrt(count) ** 2 != count or not count for count in counts):
        raise UserError(f"{source}: lvl_1L: expected the level of each token of square maps, coarse to fine.")
    return tuple(math.isqrt(count) for count in counts)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, unit: bool) -> None:
        super().__init__()
        self.heads, self.unit = heads, unit
        self.mat_qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("zero_k_bias", torch.zeros(width))
        if unit:
            self.scale_mul_1H11 = nn.Parameter(torch.zeros(1, heads, 1, 1))

    def forward(self, x: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        bias = torch.cat([self.q_bias, self.zero_k_bias, self.v_bias])  # type: ignore[list-item]
        parts = F.linear(x, self.mat_qkv.weight, bias).view(*x.shape[:2], 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scale = 0.25 / math.sqrt(q.shape[-1])
        if self.unit:
            scale = 1.0
            q = F.normalize(q, dim=-1) * self.scale_mul_1H11.clamp_max(MOST_SCALE).exp()
            k = F.normalize(k, dim=-1)
        past.append((k, v))
        k, v = (torch.cat(parts, 2) for parts in zip(*past, strict=True))
        mixed = F.scaled_dot_product_attention(q, k, v, scale=scale)
        result: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return result


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, unit: bool, hidden: int, shared: bool) -> None:
        super().__init__()
        self.width = width
        self.attn = _Attention(width, heads, unit)
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "fc2": nn.Linear(hidden, width)})
        if shared:
            self.ada_gss = nn.Parameter(torch.zeros(1, 1, 6, width))
        else:
            self.ada_lin = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, condition: Tensor, past: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Condition: the class's vector (B, D), or its six shared vectors (B, 1, 6, D)."""
        shared = hasattr(self, "ada_gss")
        six = self.ada_gss + condition if shared else self.ada_lin(condition).view(-1, 1, 6, self.width)
        gate1, gate2, scale1, scale2, shift1, shift2 = six.unbind(2)
        x = x + gate1 * self.attn(_norm(x) * (1 + scale1) + shift1, past)
        seen = _norm(x) * (1 + scale2) + shift2
        result: Tensor = x + gate2 * self.ffn["fc2"](F.gelu(self.ffn["fc1"](seen), approximate="tanh"))
        return result


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=1e-6)


class ScaleTransformer(nn.Module):
    """Logits of all tokens of a scale, given the class and what the coarser scales came to."""

    def __init__(
        self, state: Mapping[str, Tensor], source: str, codes: tuple[int, int], heads: int | None = None
    ) -> None:
        super().__init__()
        self.scales = scales_of(state, source)
        try:
            labels, width = state["class_emb.weight"].shape
            hidden = len(state["blocks.0.ffn.fc1.weight"])
        except KeyError as error:
            raise UserError(f"{source}: expected the tensors of a VAR transformer; {error} is missing.") from None
        depth = 1 + max(int(match[1]) for name in state if (match := re.match(r"blocks\.(\d+)\.", name)))
        learned = state.get("blocks.0.attn.scale_mul_1H11")
        heads = int(learned.numel()) if learned is not None else heads
        if not heads or width % heads:
            raise UserError(f"{source}: tensors do not say how many heads this transformer has. Give --heads.")
        shared = "blocks.0.ada_gss" in state
        self.classes, length = labels - 1, sum(side * side for side in self.scales)
        self.word_embed, self.class_emb = nn.Linear(codes[1], width), nn.Embedding(labels, width)
        self.pos_start = nn.Parameter(torch.zeros(1, self.scales[0] ** 2, width))
        self.pos_1LC = nn.Parameter(torch.zeros(1, length, width))
        self.lvl_embed = nn.Embedding(len(self.scales), width)
        if shared:
            self.shared_ada_lin = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        self.blocks = nn.ModuleList(_Block(width, heads, learned is not None, hidden, shared) for _ in range(depth))
        self.head_nm = nn.ModuleDict({"ada_lin": nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))})
        self.head = nn.Linear(width, codes[0])
        kept = {name: value.float() for name, value in state.items() if name not in BUFFERS}
        load_weights(self, kept, source=source, hint="It is not a VAR transformer of the published structure.")

    def forward(self, labels: Tensor, scale: int, seen: Tensor | None, past: Past) -> Tensor:
        """Logits (B, s², V) of a scale.

        Args:
            labels: Classes (B,); the last one is the null class.
            scale: Which.
            seen: f̂ of the coarser scales at this scale's size, (B, d, s, s); None for the first.
            past: Keys and values of each block for the scales before; this one's are added.
        """
        begin = sum(side * side for side in self.scales[:scale])
        level = self.lvl_embed.weight[scale] + self.pos_1LC[:, begin : begin + self.scales[scale] ** 2]
        condition = self.class_emb(labels)
        if seen is None:
            x = condition[:, None] + self.pos_start + level
        else:
            x = self.word_embed(seen.flatten(2).transpose(1, 2)) + level
        spread = condition
        if hasattr(self, "shared_ada_lin"):
            spread = self.shared_ada_lin(condition).view(len(labels), 1, 6, -1)
        for block, kept in zip(self.blocks, past, strict=True):
            x = block(x, spread, kept)
        weight, shift = self.head_nm["ada_lin"](condition)[:, None].chunk(2, -1)
        logits: Tensor = self.head(_norm(x) * (1 + weight) + shift)
        return logits


class VAR(VARTokenizer):
    """The tokenizer with its transformer. The null condition is the model's own null class.

    Args:
        state: Tensors of the tokenizer.
        transformer: Tensors of the transformer.
        source: The tokenizer's file.
        image_size: Side in pixels.
        heads: Of the transformer, where its tensors do not say.
    """

    generates = True
    sampling = Sampling(temperature=1.0, top_k=900, top_p=0.96, guidance=1.5)
    draws_with = ("temperature", "top_k", "top_p", "guidance")

    def __init__(
        self,
        state: Mapping[str, Tensor],
        transformer: Mapping[str, Tensor],
        source: str,
        image_size: int = 256,
        *,
        heads: int | None = None,
    ) -> None:
        super().__init__(state, source, image_size, scales=scales_of(transformer, source))
        codes: tuple[int, int] = tuple(self.codebook.shape)  # type: ignore[assignment]
        self.transformer = ScaleTransformer(transformer, source, codes, heads).eval().requires_grad_(False)
        self.classes = tuple(str(number) for number in range(self.transformer.classes))

    @torch.no_grad()
    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        """Token rows (n, 1, Σ s²) of a class number, or of the null class."""
        asked = class_number(condition, self.classes, self.name)
        device, null = self.codebook.device, len(self.classes)
        generator = torch.Generator(device).manual_seed(seed)
        guidance = self.sampling.guidance or 0.0
        guided = asked is not None and guidance > 0
        labels = torch.full((n,), null if asked is None else asked, device=device)
        labels = torch.cat([labels, torch.full_like(labels, null)]) if guided else labels
        past: Past = [[] for _ in self.transformer.blocks]
        total = torch.zeros(n, self.codebook.shape[1], self.finest, self.finest, device=device)
        seen, rows = None, []
        for scale, side in enumerate(self.scales):
            logits = self.transformer(labels, scale, seen, past)
            if guided:
                strength = guidance * scale / max(1, len(self.scales) - 1)
                asked_for, without = logits.chunk(2)
                logits = (1 + strength) * asked_for - strength * without
            tokens = draw_tokens(logits, self.sampling, generator)
            rows.append(tokens)
            total = total + self.added(scale, self.codebook[tokens.view(n, side, side)].movedim(-1, 1))
            if scale + 1 < len(self.scales):
                following = self.scales[scale + 1]
                seen = F.interpolate(total, (following, following), mode="area")
                seen = seen.repeat(2, 1, 1, 1) if guided else seen
        return torch.cat(rows, 1)[:, None]
