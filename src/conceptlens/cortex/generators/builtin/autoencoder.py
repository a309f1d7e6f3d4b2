"""The convolutional half: images in [0, 1] ↔ a grid of vectors that are quantized (Esser et al., 2021, made small)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.cortex.generators.builtin.quantizer import Quantized, Quantizer
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings


def _norm(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(max(group for group in range(1, 17) if channels % group == 0), channels)


class Residual(nn.Module):
    """x + conv(SiLU(norm(conv(SiLU(norm(x))))))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            _norm(channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            _norm(channels),
            nn.SiLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.path(x)
        return result


def _encoder(channels: tuple[int, ...], width: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(3, channels[0], 3, padding=1)]
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), Residual(after)]
    return nn.Sequential(
        *layers, Residual(channels[-1]), _norm(channels[-1]), nn.SiLU(), nn.Conv2d(channels[-1], width, 1)
    )


def _decoder(channels: tuple[int, ...], width: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(width, channels[-1], 1), Residual(channels[-1]), Residual(channels[-1])]
    for before, after in pairwise(channels[::-1]):
        layers += [nn.Upsample(scale_factor=2), nn.Conv2d(before, after, 3, padding=1), Residual(after)]
    return nn.Sequential(*layers, _norm(channels[0]), nn.SiLU(), nn.Conv2d(channels[0], 3, 3, padding=1))


class AutoEncoder(nn.Module):
    """Encoder, quantizer and decoder."""

    def __init__(self, settings: GeneratorSettings) -> None:
        super().__init__()
        self.encoder = _encoder(settings.channels, settings.width)
        self.quantizer = Quantizer(settings.codes, settings.width)
        self.decoder = _decoder(settings.channels, settings.width)

    def quantize(self, images: Tensor) -> Quantized:
        """Images (B, 3, H, W) in [0, 1] → their codes."""
        found: Quantized = self.quantizer(self.encoder(2 * images - 1))
        return found

    def paint(self, embeddings: Tensor) -> Tensor:
        """E (B, d, h, w) → images, not cut to [0, 1]: cutting would stop gradients."""
        painted: Tensor = self.decoder(embeddings)
        return (painted + 1) / 2

    def forward(self, images: Tensor) -> tuple[Tensor, Quantized]:
        quantized = self.quantize(images)
        return self.paint(quantized.embeddings), quantized

    @property
    def last_layer(self) -> nn.Parameter:
        """Where the weights of the adversarial and the other terms are compared."""
        last = self.decoder[-1]
        assert isinstance(last, nn.Conv2d)
        return last.weight  # type: ignore[return-value]


class Discriminator(nn.Module):
    """Judges patches of an image: real (high) or painted (low), (B, 1, h', w'). Needed in training only."""

    def __init__(self, channels: int = 48, layers: int = 3) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Conv2d(3, channels, 4, 2, 1), nn.LeakyReLU(0.2)]
        for _ in range(layers - 1):
            parts += [nn.Conv2d(channels, 2 * channels, 4, 2, 1), _norm(2 * channels), nn.LeakyReLU(0.2)]
            channels *= 2
        self.layers = nn.Sequential(*parts, nn.Conv2d(channels, 1, 4, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        judged: Tensor = self.layers(2 * images - 1)
        return judged


def fit_to(images: Tensor, side: int) -> Tensor:
    """Images (B, 3, H, W) resized to a square of that side, if they are not."""
    if images.shape[-2:] == (side, side):
        return images
    return F.interpolate(images, (side, side), mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)


def count_bytes(module: nn.Module) -> int:
    """Size of a module's weights in fp16."""
    return sum(2 * tensor.numel() for tensor in module.state_dict().values() if torch.is_floating_point(tensor))
