"""What the autoencoder is asked for: pixels, an encoder's view of them, and a discriminator's (Esser et al., 2021)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.cortex.generators.builtin.autoencoder import fit_to
from conceptlens.encoders.contract import Encoder, Tokens


class Perceptual(nn.Module):
    """Distance between images in the eyes of a frozen encoder: of patch tokens of unit length, over all its layers.

    Args:
        encoder: Any of the package's; `layers` chooses whose tokens are compared besides the last.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.eval().requires_grad_(False)

    def _seen(self, images: Tensor) -> list[Tensor]:
        tokens: Tokens = self.encoder(fit_to(images.float(), self.encoder.image_size).clamp(0, 1))
        return [F.normalize(layer.float(), dim=-1) for layer in (*tokens.layers, tokens.patches)]

    def forward(self, painted: Tensor, images: Tensor) -> Tensor:
        """Mean over images, layers and patches of 1 − cosine, ()."""
        with torch.no_grad():
            wanted = self._seen(images)
        gaps = [1 - (a * b).sum(-1).mean() for a, b in zip(self._seen(painted), wanted, strict=True)]
        return torch.stack(gaps).mean()


def reconstruction(painted: Tensor, images: Tensor) -> Tensor:
    """Mean absolute difference of pixels."""
    return (painted - images).abs().mean()


def discriminator_loss(real: Tensor, fake: Tensor) -> Tensor:
    """Hinge: real above 1, painted below −1."""
    return (F.relu(1 - real).mean() + F.relu(1 + fake).mean()) / 2


def generator_loss(fake: Tensor) -> Tensor:
    """The painter wants to be taken for real."""
    return -fake.mean()


def adversarial_weight(other: Tensor, adversarial: Tensor, last_layer: nn.Parameter, most: float = 1e4) -> Tensor:
    """λ at which both terms pull equally hard at the last layer: ‖∇other‖ / ‖∇adversarial‖."""
    (of_other,) = torch.autograd.grad(other, last_layer, retain_graph=True)
    (of_adversarial,) = torch.autograd.grad(adversarial, last_layer, retain_graph=True)
    balance: Tensor = of_other.norm() / (of_adversarial.norm() + 1e-4)
    return balance.clamp(0, most).detach()


def masked_token_loss(logits: Tensor, tokens: Tensor, masked: Tensor, smoothing: float = 0.1) -> Tensor:
    """Cross-entropy of logits (B, L, K) with tokens (B, L) where they were masked."""
    # Left out by a mark, not by choosing rows: how many there are would have to be known before a GPU could go on.
    wanted = torch.where(masked, tokens, -100).flatten()
    loss: Tensor = F.cross_entropy(logits.flatten(0, 1).float(), wanted, ignore_index=-100, label_smoothing=smoothing)
    return loss
