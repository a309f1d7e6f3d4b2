"""VQGAN's class-conditional transformer (Esser et al., 2021): tokens one after the other, the class as the first.

Rebuilt from the tensors of a checkpoint that holds both stages. The number of heads and what the first token means
leave no trace in them: both come from the configuration or from the user (`taming_config`). Classes are numbers:
checkpoints carry no names.
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

PREFIX = "transformer."


class _CausalAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.key, self.query, self.value, self.proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = (
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.proj(mixed.transpose(1, 2).flatten(2)), (k, v)


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = _CausalAttention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        said, present = self.attn(self.ln1(x), past)
        x = x + said
        return x + self.mlp(self.ln2(x)), present


class CausalTransformer(nn.Module):
    """Logits of the next token; what was computed for earlier ones is handed in and out."""

    def __init__(self, state: Mapping[str, Tensor], source: str, heads: int) -> None:
        super().__init__()
        try:
            words, width = state["tok_emb.weight"].shape
            length = state["pos_emb"].shape[1]
        except KeyError as error:
            raise UserError(f"{source}: expected the tensors of a VQGAN's transformer; {error} is missing.") from None
        depth = 1 + max((int(match[1]) for name in state if (match := re.match(r"blocks\.(\d+)\.", name))), default=-1)
        if width % heads:
            raise UserError(f"{source}: a transformer of width {width} cannot have {heads} heads.")
        self.tok_emb = nn.Embedding(words, width)
        self.pos_emb = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList(_Block(width, heads) for _ in range(depth))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        kept = {name: value.float() for name, value in state.items() if not name.endswith("attn.mask")}
        load_weights(self, kept, source=source, hint="It is not a VQGAN's transformer of the original structure.")

    def forward(
        self, words: Tensor, past: list[tuple[Tensor, Tensor]] | None = None
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Logits (B, T, V) after each of the words (B, T) that follow what is past."""
        begin = 0 if past is None else past[0][0].shape[2]
        x = self.tok_emb(words) + self.pos_emb[:, begin : begin + words.shape[1]]
        present = []
        for place, block in enumerate(self.blocks):
            x, kept = block(x, None if past is None else past[place])
            present.append(kept)
        return self.head(self.ln_f(x)), present


class GenerativeVQGAN(VQGAN):
    """A VQGAN with its class-conditional transformer.

    Args:
        state: Tensors of both stages, as the checkpoint names them.
        source: The file.
        image_size: Side in pixels.
        heads: Of the transformer.
        classes: How many class numbers it was trained with.
    """

    generates = True
    sampling = Sampling(temperature=1.0, top_k=250, top_p=1.0)
    draws_with = ("temperature", "top_k", "top_p")

    def __init__(
        self, state: Mapping[str, Tensor], source: str, image_size: int = 256, *, heads: int, classes: int
    ) -> None:
        super().__init__(state, source, image_size)
        inner = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
        self.transformer = CausalTransformer(inner, source, heads).eval().requires_grad_(False)
        if classes > self.transformer.tok_emb.num_embeddings:
            raise UserError(
                f"{source}: its transformer knows {self.transformer.tok_emb.num_embeddings} words, too few for "
                f"{classes} classes."
            )
        self.classes = tuple(str(number) for number in range(classes))
        cells = self.grid[0] * self.grid[1]
        if self.transformer.pos_emb.shape[1] < cells:
            raise UserError(
                f"{source}: its transformer writes {self.transformer.pos_emb.shape[1]} tokens, an image of "
                f"{image_size} pixels has {cells}. Choose a smaller --image-size."
            )

    @torch.no_grad()
    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        """Token grids (n, h, w) of a class number; of no condition, every sample has a class drawn at random."""
        asked = class_number(condition, self.classes, self.name)
        device = self.codebook.device
        generator = torch.Generator(device).manual_seed(seed)
        if asked is None:
            words = torch.randint(len(self.classes), (n, 1), generator=generator, device=device)
        else:
            words = torch.full((n, 1), asked, device=device)
        past: list[tuple[Tensor, Tensor]] | None = None
        drawn = []
        for _ in range(self.grid[0] * self.grid[1]):
            logits, past = self.transformer(words, past)
            words = draw_tokens(logits[:, -1:, : len(self.codebook)], self.sampling, generator)
            drawn.append(words)
        return torch.cat(drawn, 1).view(n, *self.grid)
