"""all-MiniLM-L6-v2, sentence vectors: Wang et al., "MiniLM" (NeurIPS 2020); Reimers & Gurevych, "SBERT" (EMNLP 2019).

A six-layer BERT of width 384 (post-norm, exact GELU); the mean of its tokens, scaled to length one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.text.wordpiece import WordPiece
from pretraining.teachers.vocabulary import read_vocabulary
from pretraining.teachers.weights import fill, read_weights

NAME = "minilm"
LONGEST = 256  # tokens, the two marks included
HEADS = 12
EPS = 1e-12


class BertLayer(nn.Module):
    """Attention, then a perceptron, each added to its input and normed after."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm1 = nn.LayerNorm(width, eps=EPS)
        self.fc1 = nn.Linear(width, inner)
        self.fc2 = nn.Linear(inner, width)
        self.norm2 = nn.LayerNorm(width, eps=EPS)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """Tokens (B, L, D) -> the same shape; `real` (B, 1, 1, L) is false for padding."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=real)
        x = self.norm1(x + self.proj(mixed.transpose(1, 2).reshape(batch, length, width)))
        out: Tensor = self.norm2(x + self.fc2(F.gelu(self.fc1(x))))
        return out


class MiniLM(nn.Module):
    """Sentences to unit vectors.

    Args:
        tokenizer: Of the vocabulary the weights were trained with.
        vocabulary: How many pieces it has.
        width: Of the tokens and of the vectors.
        depth: Layers.
        heads: Attention heads.
        inner: Width inside the perceptrons.
        positions: The longest sequence there are position vectors for.
    """

    def __init__(
        self,
        tokenizer: WordPiece,
        *,
        vocabulary: int = 30522,
        width: int = 384,
        depth: int = 6,
        heads: int = HEADS,
        inner: int = 1536,
        positions: int = 512,
    ) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.pieces = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width, eps=EPS)
        self.layers = nn.ModuleList(BertLayer(width, inner, heads) for _ in range(depth))

    def forward(self, tokens: Tensor, real: Tensor) -> Tensor:
        """Token numbers (B, L) and which of them are not padding (B, L) -> unit vectors (B, D)."""
        x = self.norm(self.pieces(tokens) + self.positions.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, real[:, None, None, :])
        weight = real.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * weight).sum(1) / weight.sum(1), dim=-1)

    @torch.no_grad()
    def embed(self, texts: Sequence[str], batch: int = 256, device: torch.device | str | None = None) -> Tensor:
        """Unit vectors of texts, in their order.

        Args:
            texts: Any phrases; beyond 256 tokens they are cut.
            batch: How many at once; texts of like length go together, so that little is padding.
            device: Where to work; the weights move there. By default where they are.

        Returns:
            (n, D) float32, on the CPU.
        """
        if device is not None:
            self.to(device)
        where = self.pieces.weight.device
        tokens = [self.tokenizer.encode(text, longest=LONGEST) for text in texts]
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place]))
        out = torch.empty(len(tokens), self.pieces.embedding_dim)
        for start in range(0, len(order), batch):
            places = order[start : start + batch]
            padded = torch.full((len(places), len(tokens[places[-1]])), self.tokenizer.pad)
            for row, place in enumerate(places):
                padded[row, : len(tokens[place])] = torch.tensor(tokens[place])
            lengths = torch.tensor([len(tokens[place]) for place in places])
            real = torch.arange(padded.shape[1]) < lengths[:, None]
            out[places] = self(padded.to(where), real.to(where)).float().cpu()
        return F.normalize(out, dim=-1)


def load_minilm(folder: str | Path) -> MiniLM:
    """MiniLM at rest, from `folder/minilm.safetensors` and `folder/vocab.txt` as the converter writes them."""
    path = Path(folder) / f"{NAME}.safetensors"
    weights = read_weights(path)
    model = MiniLM(read_vocabulary(path.with_name("vocab.txt")))
    fill(model, weights, path)
    return model


def read_bert(weights: Mapping[str, Tensor], depth: int = 6) -> dict[str, Tensor]:
    """The state of `MiniLM` from a BERT's; the segment is always the first, so it joins the positions."""
    state: dict[str, Tensor] = {}

    def take(ours: str, theirs: str) -> None:
        for part in ("weight", "bias"):
            state[f"{ours}.{part}"] = weights[f"{theirs}.{part}"]

    try:
        state["pieces.weight"] = weights["embeddings.word_embeddings.weight"]
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        state["positions.weight"] = weights["embeddings.position_embeddings.weight"] + segment
        take("norm", "embeddings.LayerNorm")
        for number in range(depth):
            theirs, ours = f"encoder.layer.{number}", f"layers.{number}"
            for part in ("weight", "bias"):
                state[f"{ours}.qkv.{part}"] = torch.cat(
                    [weights[f"{theirs}.attention.self.{role}.{part}"] for role in ("query", "key", "value")]
                )
            take(f"{ours}.proj", f"{theirs}.attention.output.dense")
            take(f"{ours}.norm1", f"{theirs}.attention.output.LayerNorm")
            take(f"{ours}.fc1", f"{theirs}.intermediate.dense")
            take(f"{ours}.fc2", f"{theirs}.output.dense")
            take(f"{ours}.norm2", f"{theirs}.output.LayerNorm")
    except KeyError as error:
        raise UserError(f"MiniLM: the weights lack {error}; expected all-MiniLM-L6-v2's model.safetensors.") from None
    return state
