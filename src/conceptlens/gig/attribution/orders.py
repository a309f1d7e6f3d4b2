"""Other ways to rank a layer's concepts, to compare GIG with: chance, gradient × input, captum's layer attributions.

captum sees the coefficients as a layer of their own: Appendix H of the GIG paper notes that U Vᵀ is a 1 × 1 convolution
put before the network.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.integrated_gradients import Read, contributions
from conceptlens.gig.dictionaries.coded import Coded

Order = Callable[[Read, Coded, int], Tensor]  # targets, layer, seed → scores (T, A)


class FromCoefficients(nn.Module):
    """Coefficients (S, P, A) → targets (S, T), with the coefficients as a layer."""

    def __init__(self, read: Read, layer: Coded) -> None:
        super().__init__()
        self.read, self.layer = read, layer
        self.coefficients = nn.Identity()

    def forward(self, u: Tensor) -> Tensor:
        return self.read(self.coefficients(u) @ self.layer.vectors + self.layer.shift)


def _targets(read: Read, layer: Coded) -> int:
    with torch.no_grad():
        return int(read(layer.approximation[None]).shape[1])


def by_gig(read: Read, layer: Coded, seed: int) -> Tensor:
    return contributions(read, layer).total


def by_chance(read: Read, layer: Coded, seed: int) -> Tensor:
    """One order for all targets, so that its curves cost what those of one target cost."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(len(layer.concepts), generator=generator).to(layer.u).expand(_targets(read, layer), -1)


def by_gradient(read: Read, layer: Coded, seed: int) -> Tensor:
    """Gradient × input at X̃: the last point of the path alone."""
    features = layer.approximation[None].requires_grad_()
    with torch.enable_grad():
        values = read(features)
        rows = []
        for target in range(values.shape[1]):
            (gradient,) = torch.autograd.grad(values[0, target], features, retain_graph=True)
            rows.append((layer.u * (gradient[0] @ layer.vectors.T)).sum(0))
    return torch.stack(rows)


def _captum(name: str, **options: object) -> Order:
    """One of captum's layer attributions, at the coefficients."""

    def order(read: Read, layer: Coded, seed: int) -> Tensor:
        try:
            from captum import attr
        except ImportError:
            raise UserError(f"{name} is captum's, which is not installed: pip install 'conceptlens[captum]'.") from None
        model = FromCoefficients(read, layer)
        explainer = getattr(attr, name)(model, model.coefficients)
        u = layer.u[None]
        more = dict(options)
        if name == "LayerGradientShap":
            more |= {"baselines": torch.zeros_like(u)}
        rows = []
        with _seeded(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # captum warns of what it does to gradients, each time
            for target in range(_targets(read, layer)):
                found = explainer.attribute(u.clone().requires_grad_(), target=target, **more)
                rows.append(found.detach()[0].sum(0))
        return torch.stack(rows)

    return order


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """captum draws from the global generators of torch and numpy; they go on afterwards as if it had not."""
    state = np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def by_size(read: Read, layer: Coded, seed: int) -> Tensor:
    """Sum of coefficients: which concepts are there, whatever the target."""
    return layer.u.sum(0).expand(_targets(read, layer), -1)


ORDERS: dict[str, Order] = {
    "gig": by_gig,
    "random": by_chance,
    "gradient x input": by_gradient,
    "coefficients": by_size,
    "captum gradient shap": _captum("LayerGradientShap", n_samples=8, stdevs=0.0),
    "captum internal influence": _captum("InternalInfluence", n_steps=16),
    "captum gradient x activation": _captum("LayerGradientXActivation"),
}
