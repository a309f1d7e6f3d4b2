"""Sample-level explanation (CORTEX paper, section 3.3): which tokens of an image make its concept.

Eq. 3: S = 1/N Σ ∇_E f_y(E + ε), ε ~ N(0, σ²), σ = α (max E − min E).
Eq. 4: TIS(t_j) = max over channels of |S(·, p_j)|.

The paper differentiates the probability, takes σ from each embedding and the largest absolute value; its published code
differentiates the logit, takes one σ for the whole batch and the largest signed value, or the mean, over channels.

All images and noise samples pass the extractor together, `batch` at a time: in evaluation mode they do not see each
other, so the gradient of the sum of their scores holds each one's own. Weights get no gradient.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.cortex.frozen import frozen

Of = Literal["probability", "logit"]
Noise = Literal["embedding", "batch"]
Channels = Literal["max-abs", "max", "mean"]


@dataclass(frozen=True)
class SmoothGrad:
    """Settings of Eq. 3 and 4; the defaults are the paper's, with N and α of its code."""

    samples: int = 20  # N
    alpha: float = 0.2
    of: Of = "probability"  # what is differentiated
    noise: Noise = "embedding"  # whose range gives σ
    channels: Channels = "max-abs"

    def __post_init__(self) -> None:
        if self.samples < 1 or self.alpha < 0:
            raise UserError(f"Expected at least one noise sample and alpha ≥ 0, found {self.samples} and {self.alpha}.")
        for kind, value, known in (
            ("score to differentiate", self.of, get_args(Of)),
            ("range of the noise", self.noise, get_args(Noise)),
            ("reduction over channels", self.channels, get_args(Channels)),
        ):
            if value not in known:
                raise unknown_name(kind, value, known)


PAPER = SmoothGrad()
RELEASED = SmoothGrad(of="logit", noise="batch", channels="max")
VARIANTS = {
    "paper": PAPER,
    "released": RELEASED,
    "released-mean": SmoothGrad(of="logit", noise="batch", channels="mean"),
    "logit": SmoothGrad(of="logit"),
}


def noise_scale(embeddings: Tensor, settings: SmoothGrad) -> Tensor:
    """σ of each embedding (B, d, h, w): (B,)."""
    if settings.noise == "batch":
        return (settings.alpha * (embeddings.max() - embeddings.min())).expand(len(embeddings))
    flat = embeddings.flatten(1)
    return settings.alpha * (flat.amax(1) - flat.amin(1))


def image_noise(shape: torch.Size, image: int, settings: SmoothGrad, seed: int, device: torch.device) -> Tensor:
    """Standard normal noise (N, d, h, w) of one image: the same in whatever batch the image comes."""
    generator = torch.Generator(device).manual_seed((seed * 1_000_003 + image) % 2**63)
    return torch.randn(settings.samples, *shape, generator=generator, device=device)


def token_importance(
    extractor: nn.Module,
    embeddings: Tensor,
    concepts: Tensor,
    settings: SmoothGrad = PAPER,
    *,
    seed: int = 0,
    batch: int = 320,
    first: int = 0,
    precision: torch.dtype = torch.float32,
) -> Tensor:
    """Eq. 3 and 4: the importance of each token to its image's concept, (B, h, w).

    Args:
        extractor: f, in evaluation mode: (B, d, h, w) → logits (B, n).
        embeddings: E (B, d, h, w).
        concepts: (B,), the concept y of each image.
        settings: N, α and the variant.
        seed: Of the noise.
        batch: Noisy embeddings that pass the extractor together.
        first: Place of the first image in a longer list that is worked off in pieces: its noise follows from it.
        precision: Of the extractor's arithmetic; sums over samples are float32.
    """
    if len(concepts) != len(embeddings):
        raise UserError(f"Expected a concept for each of {len(embeddings)} images, found {len(concepts)}.")
    sigma = noise_scale(embeddings, settings)
    saliency = torch.zeros_like(embeddings, dtype=torch.float32)
    with frozen(extractor, "Token importance"):
        for images, noisy in _noisy(embeddings, sigma, settings, seed, batch, first):
            gradient = _gradient(extractor, noisy, concepts[images], settings.of, precision)
            saliency.index_add_(0, images, gradient)
    return importance_of(saliency / settings.samples, settings.channels)


def _noisy(
    embeddings: Tensor, sigma: Tensor, settings: SmoothGrad, seed: int, batch: int, first: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Pieces of at most `batch` noisy embeddings, and whose they are."""
    device = embeddings.device
    together = max(1, batch // settings.samples)
    for start in range(0, len(embeddings), together):
        some = range(start, min(start + together, len(embeddings)))
        noise = torch.stack([image_noise(embeddings.shape[1:], first + i, settings, seed, device) for i in some])
        window = slice(some.start, some.stop)
        noisy = embeddings[window, None] + noise.mul_(sigma[window].view(-1, 1, 1, 1, 1))
        images = torch.arange(some.start, some.stop, device=device).repeat_interleave(settings.samples)
        yield from zip(torch.split(images, batch), torch.split(noisy.flatten(0, 1), batch), strict=True)


def _gradient(extractor: nn.Module, noisy: Tensor, concepts: Tensor, of: Of, precision: torch.dtype) -> Tensor:
    with torch.enable_grad(), torch.autocast(noisy.device.type, precision, enabled=precision != torch.float32):
        # Tensor cores read channels last; a CPU is as fast either way.
        layout = torch.channels_last if noisy.is_cuda else torch.contiguous_format
        leaf = noisy.detach().contiguous(memory_format=layout).requires_grad_()
        logits = extractor(leaf).float()
        scores = logits.softmax(1) if of == "probability" else logits
        (gradient,) = torch.autograd.grad(scores.gather(1, concepts[:, None]).sum(), leaf)
    return gradient.float()


def importance_of(saliency: Tensor, channels: Channels = "max-abs") -> Tensor:
    """Eq. 4: TIS (B, h, w) from saliency (B, d, h, w)."""
    if channels == "mean":
        return saliency.mean(1)
    return (saliency.abs() if channels == "max-abs" else saliency).amax(1)
