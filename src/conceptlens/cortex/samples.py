"""Token grids with the concepts they show: made by the model itself as they are asked for, or encoded from images.

Only ids are kept (two bytes each up to 32,768 codes): a million 16 × 16 grids are half a gigabyte; their embeddings
would be a quarter of a terabyte.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save as serialize
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.cortex.drawn import Drawn
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel, check_tokens
from conceptlens.encoders.weights_file import read_weights

SPLITS = ("train", "val", "test")


class TokenBatches(Protocol):
    """What an extractor is trained on."""

    @property
    def concepts(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def batches(self, size: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Tokens (b, h, w) and concepts (b,), every sample once, in an order of the epoch's own."""
        ...


def id_type(codes: int) -> torch.dtype:
    """The smallest type for ids of so many codes that every reader knows."""
    return torch.int16 if codes <= 2**15 else torch.int32


@dataclass(frozen=True)
class Samples:
    """Tokens of N images on the CPU, each with its concept."""

    tokens: Tensor  # (N, h, w)
    labels: Tensor  # (N,)
    concepts: tuple[str, ...]
    rows: Tensor | None = None  # (N,): which image of the data each is, where they were encoded

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.labels):
            raise UserError(f"Expected a concept for each of {len(self.tokens)} samples, found {len(self.labels)}.")

    def __len__(self) -> int:
        return len(self.tokens)

    def batches(self, size: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self), generator=torch.Generator().manual_seed(epoch))
        for rows in torch.split(order, size):
            yield self.tokens[rows].long(), self.labels[rows]

    def of(self, concept: int, limit: int | None = None) -> Tensor:
        """Tokens (n, h, w) of the samples of one concept."""
        return self.tokens[(self.labels == concept).nonzero()[:limit, 0]].long()

    def take(self, some: Tensor) -> "Samples":
        """Those at some positions (n,)."""
        rows = None if self.rows is None else self.rows[some]
        return Samples(self.tokens[some], self.labels[some], self.concepts, rows)

    def save(self, path: Path) -> None:
        """As `path` (.safetensors) and a JSON of the same name."""
        tensors = {"tokens": self.tokens, "labels": self.labels} | ({} if self.rows is None else {"rows": self.rows})
        write_bytes(path, serialize({name: tensor.contiguous() for name, tensor in tensors.items()}))
        write_json(path.with_suffix(".json"), {"concepts": list(self.concepts), "samples": len(self)})

    @classmethod
    def load(cls, path: Path, codes: int) -> "Samples":
        raw: dict[str, Any] = read_json(path.with_suffix(".json"))
        tensors = read_weights(path)
        if absent := {"tokens", "labels"} - set(tensors):
            raise UserError(f"{path}: expected tokens and labels, found no {sorted(absent)[0]}.")
        check_tokens(tensors["tokens"], codes)
        return cls(tensors["tokens"], tensors["labels"], tuple(raw["concepts"]), tensors.get("rows"))


class Generated:
    """Samples that the model makes when they are first read, then kept as ids.

    Args:
        model: Generates.
        concepts: What is asked for, by name.
        per_concept: Samples of each.
        seed: Every chunk is drawn from it and from the chunk's number: the same whenever it is made.
        chunk: Samples made at once of one concept.
        place: A folder that keeps every chunk as soon as it is made, so that sampling can be continued.
    """

    def __init__(
        self,
        model: VQModel,
        concepts: Mapping[str, Condition],
        per_concept: int,
        *,
        seed: int = 0,
        chunk: int = 32,
        place: Path | None = None,
    ) -> None:
        if not concepts or per_concept < 1:
            raise UserError(f"Expected concepts and at least one sample of each; found {len(concepts)}, {per_concept}.")
        self.model, self.conditions = model, tuple(concepts.values())
        self.concepts = tuple(concepts)
        self.per_concept, self.seed, self.size = per_concept, seed, chunk
        self._chunks: dict[int, tuple[Tensor, Tensor]] = {}
        words = [condition.text() for condition in self.conditions]
        self.kept = Drawn(place, model, conditions=words, samples=per_concept, seed=seed, chunk=chunk)

    def __len__(self) -> int:
        return self.per_concept * len(self.conditions)

    @property
    def chunks(self) -> int:
        return -(-self.per_concept // self.size)

    def chunk(self, index: int) -> tuple[Tensor, Tensor]:
        """Tokens and concepts of one chunk: every concept equally often."""
        if index not in self._chunks:
            n = min(self.size, self.per_concept - index * self.size)
            tokens = self.kept.chunk(index, lambda: self._draw(index, n))
            labels = torch.arange(len(self.conditions)).repeat_interleave(n)
            self._chunks[index] = tokens, labels
        return self._chunks[index]

    def _draw(self, index: int, n: int) -> Tensor:
        made = [
            self.model.generate(condition, n, seed=draw_seed(self.seed, index, place)).cpu()
            for place, condition in enumerate(self.conditions)
        ]
        return torch.cat(made).to(id_type(len(self.model.codebook)))

    def batches(self, size: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The first time through, batches are handed on as chunks are made; later ones are drawn from all."""
        if len(self._chunks) == self.chunks:
            yield from self.all().batches(size, epoch)
            return
        generator = torch.Generator().manual_seed(epoch)
        waiting: list[tuple[Tensor, Tensor]] = []
        for index in range(self.chunks):
            waiting.append(self.chunk(index))
            if sum(len(labels) for _, labels in waiting) >= size or index == self.chunks - 1:
                tokens, labels = (torch.cat(parts) for parts in zip(*waiting, strict=True))
                order = torch.randperm(len(labels), generator=generator)
                last = index == self.chunks - 1
                whole = len(order) if last else len(order) // size * size
                for rows in torch.split(order[:whole], size):
                    yield tokens[rows].long(), labels[rows]
                waiting = [] if last else [(tokens[order[whole:]], labels[order[whole:]])]

    def all(self) -> Samples:
        """Every sample, made where it is not yet."""
        parts = [self.chunk(index) for index in range(self.chunks)]
        tokens, labels = (torch.cat(part) for part in zip(*parts, strict=True))
        return Samples(tokens, labels, self.concepts)


def draw_seed(*parts: int) -> int:
    """One seed from several numbers, below 2⁶³."""
    seed = 0
    for part in parts:
        seed = (seed * 6_364_136_223_846_793_005 + part + 1_442_695_040_888_963_407) % 2**63
    return seed


def split_samples(samples: Samples, shares: Sequence[float] = (0.8, 0.1, 0.1), *, seed: int = 0) -> dict[str, Samples]:
    """Train, val and test, by the same shares within each concept (the paper's 8,000/1,000/1,000)."""
    generator = torch.Generator().manual_seed(seed)
    rows: dict[str, list[Tensor]] = {name: [] for name in SPLITS}
    for concept in range(len(samples.concepts)):
        own = (samples.labels == concept).nonzero()[:, 0]
        own = own[torch.randperm(len(own), generator=generator)]
        edges = [round(sum(shares[: index + 1]) * len(own)) for index in range(len(SPLITS))]
        for name, start, stop in zip(SPLITS, (0, *edges[:-1]), edges, strict=True):
            rows[name].append(own[start:stop])
    return {name: samples.take(torch.cat(parts)) for name, parts in rows.items()}
