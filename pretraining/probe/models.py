"""Frozen networks under one contract: source pixels in, vectors and a grid of patch vectors out.

Every network gets the whole image, squashed to a square of its own size by antialiased bicubic interpolation.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.contract import Encoder
from pretraining.teachers import Teacher, load_teacher


@dataclass(frozen=True)
class Seen:
    """What a network says of B images."""

    features: Tensor  # (B, F): what a linear probe reads
    grid: Tensor  # (B, h, w, C)
    aligned: Tensor | None = None  # (B, 384), unit length: comparable with text vectors


class Model(ABC):
    """A frozen network, its input size and a key that changes with its weights."""

    def __init__(self, name: str, network: nn.Module, size: int) -> None:
        self.name, self.size = name, size
        self.network = network.eval().requires_grad_(False)
        self.key = weights_key(network, size)

    def pixels(self, image: Image.Image) -> Tensor:
        """The network's input (3, size, size), as bytes."""
        small = image.resize((self.size, self.size), Image.Resampling.BICUBIC, reducing_gap=None)
        return torch.from_numpy(np.array(small)).permute(2, 0, 1)

    @abstractmethod
    def see(self, images: Tensor) -> Seen:
        """Bytes (B, 3, size, size) → what is measured."""


class StudentModel(Model):
    """An encoder of the package: the class token and the mean patch side by side."""

    def __init__(self, name: str, encoder: Encoder) -> None:
        super().__init__(name, encoder, encoder.image_size)
        self.encoder = encoder

    @torch.inference_mode()
    def see(self, images: Tensor) -> Seen:
        tokens = self.encoder(images)
        aligned = self.encoder.embed(tokens) if self.encoder.text else None
        features = torch.cat([tokens.cls, tokens.patches.mean(1)], 1)
        return Seen(features, tokens.patches.unflatten(1, tokens.grid), aligned)


class TeacherModel(Model):
    """A teacher: its pooled vector where it has one, the mean of its grid otherwise."""

    def __init__(self, teacher: Teacher) -> None:
        super().__init__(teacher.name, teacher, teacher.size)
        self.teacher = teacher

    @torch.inference_mode()
    def see(self, images: Tensor) -> Seen:
        output = self.teacher(images.float() / 255)
        assert output.grid is not None
        grid = output.grid.permute(0, 2, 3, 1)
        return Seen(grid.mean((1, 2)) if output.pooled is None else output.pooled, grid)


def weights_key(network: nn.Module, size: int) -> str:
    """A hash of all tensors of a network, their names, and its input size."""
    norm = " normed" if getattr(network, "final_norm", False) else ""
    digest = hashlib.sha256(f"{type(network).__name__} {size}{norm}".encode())
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def student(name: str, weights: Path | None) -> StudentModel:
    """`builtin/vit` with a file's weights or the package's own; patches after the final norm, where they learned."""
    return StudentModel(name, BuiltinViT(weights=weights, final_norm=True))


def random_vit(seed: int) -> StudentModel:
    """The student's architecture as it starts."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return StudentModel("random", BuiltinViT(pretrained=False, final_norm=True))


def teacher(name: str, folder: Path) -> TeacherModel:
    return TeacherModel(load_teacher(name, folder))
