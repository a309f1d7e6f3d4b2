"""A baseline for concept vectors: a sparse autoencoder on pointwise feature vectors (GIG paper, Eq. 11).

L = mean_x ‖x − x̂‖² + λ Σ_i f_i(x) ‖W_{d,i}‖ with f(x) = ReLU(W_e x + b_e), x̂ = W_d f(x) + b_d. As in Templeton et al.,
Scaling Monosemanticity, 2024, to which the paper points: decoder columns start in random directions, the encoder as
their transpose, data are scaled to a mean squared length of C, λ rises over the first twentieth of the steps and the
learning rate falls to zero over the last fifth. Concept vectors are the decoder's columns.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError


@dataclass(frozen=True)
class Autoencoder:
    """What was learned, in the units of the data."""

    concepts: Tensor  # (k, C) columns of W_d
    encoder: Tensor  # (k, C) W_e
    threshold: Tensor  # (k,) b_e
    offset: Tensor  # (C,) b_d
    losses: tuple[float, ...]  # one an epoch

    def encode(self, features: Tensor) -> Tensor:
        """f(x), (n, k)."""
        return torch.relu(features @ self.encoder.T + self.threshold)

    def decode(self, codes: Tensor) -> Tensor:
        """x̂, (n, C)."""
        return codes @ self.concepts + self.offset


def loss(
    x: Tensor, encoder: Tensor, threshold: Tensor, decoder: Tensor, offset: Tensor, sparsity: float | Tensor
) -> Tensor:
    """Eq. 11 for vectors (n, C); `decoder` holds the columns of W_d as rows (k, C)."""
    codes = torch.relu(x @ encoder.T + threshold)
    error = (x - codes @ decoder - offset).square().sum(1)
    lengths: Tensor = torch.linalg.vector_norm(decoder, dim=1)
    return (error + sparsity * (codes * lengths).sum(1)).mean()


def fit_autoencoder(
    features: Tensor,
    k: int,
    *,
    sparsity: float = 5.0,
    epochs: int = 10,
    batch: int = 1024,
    rate: float = 5e-4,
    seed: int = 0,
) -> Autoencoder:
    """Learn k concept vectors of features (N, C), which should be without their shift.

    Args:
        features: (N, C).
        k: Concepts.
        sparsity: λ, for data scaled to a mean squared length of C.
        epochs: Over the data.
        batch: Vectors a step.
        rate: Of Adam.
        seed: Of the start and of the order.
    """
    if features.ndim != 2 or len(features) == 0 or k < 1:
        raise UserError(f"Autoencoder: expected vectors (N, C) and k ≥ 1, got {tuple(features.shape)} and {k}.")
    n, channels = features.shape
    scale = float(features.square().sum(1).mean().div(channels).sqrt())
    if not 0 < scale < float("inf"):
        raise UserError("Autoencoder: the vectors are all zero, or not finite.")
    generator = torch.Generator().manual_seed(seed)
    columns = torch.randn(k, channels, generator=generator)
    columns = (0.1 * columns / torch.linalg.vector_norm(columns, dim=1, keepdim=True)).to(features)
    decoder, encoder = columns.clone().requires_grad_(), columns.clone().requires_grad_()
    threshold, offset = features.new_zeros(k, requires_grad=True), features.new_zeros(channels, requires_grad=True)
    weights = [encoder, threshold, decoder, offset]
    optimizer = torch.optim.Adam(weights, lr=rate)
    steps = epochs * -(-n // batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, max(0.0, 5 * (1 - step / steps))))
    history, step = [], 0
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator).to(features.device)
        total = features.new_zeros(())
        for chosen in torch.split(order, batch):
            risen = sparsity * min(1.0, 20 * (step + 1) / steps)
            value = loss(features[chosen] / scale, encoder, threshold, decoder, offset, risen)
            optimizer.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            schedule.step()
            total += value.detach() * len(chosen)
            step += 1
        history.append(float(total / n))
    w, b, d, o = (weight.detach() for weight in weights)
    # In the units of the data: the codes stay as they are, so that both maps carry the scale.
    return Autoencoder(d * scale, w / scale, b, o * scale, tuple(history))
