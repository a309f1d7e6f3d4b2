"""LlamaGen (Sun et al., Autoregressive model beats diffusion, 2024): VQ-16 and its class-conditional models.

The tokenizer is a VQGAN under other names whose codes and vectors have unit length. The autoregressive model is a
Llama: RMS norms, SwiGLU, rotary positions in two dimensions, the class as the first token, a null class for guidance.
Text-conditional models are refused: what they are asked for is a text encoder's output.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.sampling import class_number, draw_tokens
from conceptlens.cortex.generators.settings import Sampling
from conceptlens.cortex.generators.vqgan import VQGAN
from conceptlens.encoders.weights_file import load_weights

MARK = "encoder.conv_blocks.0.res.0.conv1.weight"  # a tensor that only this tokenizer has
MODEL_MARK = "tok_embeddings.weight"
HEADS = {(12, 768): 12, (24, 1024): 16, (36, 1280): 20, (48, 1536): 24, (48, 2560): 40}  # as published, B to XXXL
Past = list[tuple[Tensor, Tensor]]
_PARTS = (
    (r"\.res\.", ".block."),
    (r"\.mid\.0\.", ".mid.block_1."),
    (r"\.mid\.1\.", ".mid.attn_1."),
    (r"\.mid\.2\.", ".mid.block_2."),
)


def vqgan_layout(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tokenizer's tensors under VQGAN's names; its decoder numbers levels from the coarsest."""
    decoder = [re.match(r"decoder\.conv_blocks\.(\d+)\.", name) for name in state]
    last = max((int(match[1]) for match in decoder if match), default=0)
    renamed = {}
    for name, value in state.items():
        new = re.sub(r"^encoder\.conv_blocks\.", "encoder.down.", name)
        new = re.sub(r"^decoder\.conv_blocks\.(\d+)\.", lambda match: f"decoder.up.{last - int(match[1])}.", new)
        for pattern, replacement in _PARTS:
            new = re.sub(pattern, replacement, new)
        if new != "quantize.codebook_used":  # a record of training
            renamed[new] = value
    return renamed


class LlamaGenTokenizer(VQGAN):
    """VQ-16 (or VQ-8): the nearest code by angle; what is decoded has unit length."""

    def __init__(self, state: Mapping[str, Tensor], source: str, image_size: int = 256) -> None:
        super().__init__(vqgan_layout(state), source, image_size)
        codes: nn.Embedding = self.quantize.embedding  # type: ignore[assignment]
        codes.weight.copy_(F.normalize(codes.weight, dim=1))


class _RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * self.weight


def rotations(side: int, width: int, base: float = 10_000.0) -> Tensor:
    """Angles as complex numbers (1 + side², width / 2): half of the pairs turn with the row, half with the column.

    Query and key of the class token are multiplied by 0, as in the published code: all see it alike.
    """
    half = width // 2
    speeds = base ** (-torch.arange(0, half, 2).float() / half)
    angles = torch.arange(side).float()[:, None] * speeds
    rows, columns = angles[:, None].expand(-1, side, -1), angles[None].expand(side, -1, -1)
    grid = torch.cat([rows, columns], -1).flatten(0, 1)
    return torch.cat([torch.zeros(1, half, dtype=torch.complex64), torch.polar(torch.ones_like(grid), grid)])


def _turn(x: Tensor, turns: Tensor) -> Tensor:
    """(B, H, T, D) turned by (T, D / 2); neighbors in D are a pair."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


class _Attention(nn.Module):
    def __init__(self, width: int, heads: int, keys: int) -> None:
        super().__init__()
        self.heads, self.keys, self.size = heads, keys, width // heads
        self.wqkv = nn.Linear(width, (heads + 2 * keys) * self.size, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, turns: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Past]:
        parts = self.wqkv(x).unflatten(2, (-1, self.size)).transpose(1, 2)  # (B, H + 2 keys, T, D)
        q, k, v = parts.split([self.heads, self.keys, self.keys], 1)
        q, k = _turn(q, turns), _turn(k, turns)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        times = self.heads // self.keys
        keys, values = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
        mixed = F.scaled_dot_product_attention(q, keys, values, is_causal=past is None)
        return self.wo(mixed.transpose(1, 2).flatten(2)), [(k, v)]


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, keys: int, hidden: int) -> None:
        super().__init__()
        self.attention = _Attention(width, heads, keys)
        self.feed_forward = nn.ModuleDict(
            {
                "w1": nn.Linear(width, hidden, bias=False),
                "w2": nn.Linear(hidden, width, bias=False),
                "w3": nn.Linear(width, hidden, bias=False),
            }
        )
        self.attention_norm, self.ffn_norm = _RMSNorm(width), _RMSNorm(width)

    def forward(self, x: Tensor, turns: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Past]:
        mixed, present = self.attention(self.attention_norm(x), turns, past)
        x = x + mixed
        seen, layers = self.ffn_norm(x), self.feed_forward
        return x + layers["w2"](F.silu(layers["w1"](seen)) * layers["w3"](seen)), present


class LlamaTransformer(nn.Module):
    """Logits of the next token after a class and tokens."""

    def __init__(self, state: Mapping[str, Tensor], source: str, side: int, heads: int | None = None) -> None:
        super().__init__()
        if "cls_embedding.cap_proj.fc1.weight" in state:
            raise UserError(f"{source}: a text-conditional LlamaGen; only class-conditional models (c2i) are read.")
        try:
            words, width = state[MODEL_MARK].shape
            labels = state["cls_embedding.embedding_table.weight"].shape[0]
            total = state["layers.0.attention.wqkv.weight"].shape[0]
            hidden = state["layers.0.feed_forward.w1.weight"].shape[0]
        except KeyError as error:
            raise UserError(f"{source}: expected the tensors of a LlamaGen model; {error} is missing.") from None
        depth = 1 + max(int(match[1]) for name in state if (match := re.match(r"layers\.(\d+)\.", name)))
        heads = heads or HEADS.get((depth, width))
        if heads is None:
            raise UserError(
                f"{source}: {depth} blocks of width {width} are none of the published sizes, and tensors do not say "
                "how many heads they have. Give --heads."
            )
        if width % heads or width // heads % 4:
            raise UserError(f"{source}: a LlamaGen model of width {width} cannot have {heads} heads.")
        keys = (total // (width // heads) - heads) // 2
        self.classes = labels - 1  # the last one is the null class
        self.cls_embedding = nn.ModuleDict({"embedding_table": nn.Embedding(labels, width)})
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList(_Block(width, heads, keys, hidden) for _ in range(depth))
        self.norm, self.output = _RMSNorm(width), nn.Linear(width, words, bias=False)
        self.register_buffer("turns", rotations(side, width // heads), persistent=False)
        kept = {name: value.float() for name, value in state.items() if name not in ("freqs_cis", "causal_mask")}
        load_weights(self, kept, source=source, hint="It is not a class-conditional LlamaGen as published.")

    def forward(
        self, labels: Tensor | None, tokens: Tensor | None, past: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, Past]:
        """Logits (B, T, V) after the class (B,), tokens (B, T), or both in a row, following what is past."""
        parts = []
        if labels is not None:
            parts.append(self.cls_embedding["embedding_table"](labels)[:, None])
        if tokens is not None:
            parts.append(self.tok_embeddings(tokens))
        x = torch.cat(parts, 1)
        begin = 0 if past is None else past[0][0].shape[2]
        turns: Tensor = self.turns[begin : begin + x.shape[1]]  # type: ignore[index]
        present: Past = []
        for place, block in enumerate(self.layers):
            x, kept = block(x, turns, None if past is None else past[place])
            present += kept
        return self.output(self.norm(x)), present


class LlamaGen(LlamaGenTokenizer):
    """The tokenizer with its autoregressive model. The null condition is the model's own null class.

    Args:
        state: Tensors of the tokenizer.
        transformer: Tensors of the autoregressive model.
        source: The tokenizer's file.
        image_size: Side in pixels: 256 or 384, as the model's name says.
        heads: Of the autoregressive model, where its size is not a published one.
    """

    generates = True
    sampling = Sampling(temperature=1.0, top_k=0, top_p=1.0, guidance=2.0)
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
        super().__init__(state, source, image_size)
        self.transformer = LlamaTransformer(transformer, source, self.grid[0], heads).eval().requires_grad_(False)
        if self.transformer.output.out_features != len(self.codebook):
            raise UserError(
                f"{source}: the codebook has {len(self.codebook)} codes, the autoregressive model writes "
                f"{self.transformer.output.out_features} words: they do not belong together."
            )
        self.classes = tuple(str(number) for number in range(self.transformer.classes))

    @torch.no_grad()
    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        """Token grids (n, h, w) of a class number, or of the null class."""
        asked = class_number(condition, self.classes, self.name)
        device, null = self.codebook.device, len(self.classes)
        generator = torch.Generator(device).manual_seed(seed)
        scale = self.sampling.guidance or 0.0
        guided = asked is not None and scale != 1
        labels = torch.full((n,), null if asked is None else asked, device=device)
        labels = torch.cat([labels, torch.full_like(labels, null)]) if guided else labels
        logits, past = self.transformer(labels, None)
        drawn: list[Tensor] = []
        while True:
            last = logits[:, -1:]
            if guided:
                asked_for, without = last.chunk(2)
                last = without + scale * (asked_for - without)
            words = draw_tokens(last, self.sampling, generator)
            drawn.append(words)
            if len(drawn) == self.grid[0] * self.grid[1]:
                return torch.cat(drawn, 1).view(n, *self.grid)
            logits, past = self.transformer(None, words.repeat(2, 1) if guided else words, past)
