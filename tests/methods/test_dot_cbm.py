"""DOT-CBM's equations, image by image and patch by patch, and what its priors do."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.dot_cbm import DOTCBM, overlap
from conceptlens.nn.setup import Setup


def tokens(batch: int = 3) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    return Tokens(torch.randn(batch, 9, 8, generator=generator), (3, 3), torch.randn(batch, 8, generator=generator))


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def naive(
    model: DOTCBM, patches: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """Cosines s_j (K,) and maps (K, L) of one image, by Cuturi's scaling in float64."""
    weights = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}
    x = unit(patches @ weights["adapt_patches.weight"].T + weights["adapt_patches.bias"])
    t = unit(weights["text"] @ weights["adapt_text.weight"].T + weights["adapt_text.bias"])
    kernel = np.exp(-(1 - x @ t.T) / eps)
    v = np.ones(len(b))
    for _ in range(2000):
        u = a / (kernel @ v)
        v = b / (kernel.T @ u)
    plan = u[:, None] * kernel * v
    scores = [sum(plan[i, j] * (x[i] @ t[j]) for i in range(len(a))) / b[j] for j in range(len(b))]
    return np.array(scores), (plan / b).T


def test_scores_and_maps_are_the_transported_similarity(setup: Setup) -> None:
    """With everything at once: saliency, label statistics, a scale and a bias."""
    model = DOTCBM(setup, eps=0.2, iterations=300, adapter="linear", adapter_width=7)
    counts = torch.tensor([[7.0, 1.0, 3.0, 5.0, 0.0], [8.0, 8.0, 8.0, 8.0, 8.0]])
    model.label_counts.copy_(counts)
    with torch.no_grad():
        model.bias.copy_(torch.arange(5.0))
    given = tokens()
    output = model(given)
    b = (counts[0].double() + 1).numpy() / 10
    b = b / b.sum()
    for image in range(3):
        z, cls = given.patches[image].double().numpy(), given.cls[image].double().numpy()  # type: ignore[index]
        salient = unit(z) @ unit(cls)
        logits = (salient - salient.mean()) / salient.std()
        a = np.exp(logits) / np.exp(logits).sum()
        cosines, maps = naive(model, z, a, b, 0.2)
        found = output.attention[image].detach().numpy()
        np.testing.assert_allclose(found, maps, atol=1e-6)
        np.testing.assert_allclose(
            output.concept_logits[image].detach().numpy(), 10 * cosines + np.arange(5), atol=1e-4
        )
        np.testing.assert_allclose(
            output.assignment[image].detach().numpy(), (maps * b[:, None]).T / a[:, None], atol=1e-5
        )
    torch.testing.assert_close(output.bottleneck, output.concept_logits)
    torch.testing.assert_close(output.logits, model.head(output.concept_logits))


def test_a_patch_that_shows_a_concept_goes_to_it(setup: Setup) -> None:
    """Each of five patches is one concept's own vector: with little entropy the plan is that permutation."""
    model = DOTCBM(setup, eps=0.01, visual_prior="uniform", adapter="linear", adapter_width=8)
    with torch.no_grad():
        for adapter, width in ((model.adapt_patches, 8), (model.adapt_text, 6)):
            adapter.weight.copy_(torch.eye(8, width))
            adapter.bias.zero_()
    order = [3, 0, 4, 1, 2]
    model.text.copy_(torch.eye(5, 6))
    patches = torch.eye(5, 8)[order].unsqueeze(0)
    output = model(Tokens(patches, (1, 5), patches[:, 0]))
    assert output.attention[0].argmax(1).tolist() == [order.index(concept) for concept in range(5)]
    torch.testing.assert_close(output.concept_logits, torch.full((1, 5), 10.0))
    torch.testing.assert_close(output.losses["orthogonal_patches"], torch.zeros(1))
    torch.testing.assert_close(output.losses["orthogonal_concepts"], torch.zeros(1))


def test_overlap_by_hand() -> None:
    """Cosines of the three pairs: 0, ½ and −½·√3, so a mean of (0 + 0.5 + 0.866) / 3."""
    angles = torch.tensor([0.0, math.pi / 2, -math.pi / 3])
    vectors = torch.stack([angles.cos(), angles.sin()], -1).unsqueeze(0)
    torch.testing.assert_close(overlap(vectors), torch.tensor([(0.5 + math.sqrt(3) / 2) / 3]))
    assert float(overlap(vectors[:, :1])) == 0


def test_projection_losses_are_weighted_and_left_out(setup: Setup) -> None:
    once = DOTCBM(setup, orthogonal_patches=1.0, orthogonal_concepts=1.0)
    losses = once(tokens()).losses
    for name in ("orthogonal_patches", "orthogonal_concepts"):
        other = DOTCBM(setup, **({"orthogonal_patches": 0.0, "orthogonal_concepts": 0.0} | {name: 0.3}))
        other.load_state_dict(once.state_dict())
        found = other(tokens()).losses
        assert list(found) == [name]
        torch.testing.assert_close(found[name], 0.3 * losses[name])
    text = torch.nn.functional.normalize(once.adapt_text(once.text), dim=-1).detach()
    pairs = [abs(float(text[i] @ text[j])) for i in range(5) for j in range(5) if i != j]
    torch.testing.assert_close(losses["orthogonal_concepts"], torch.full((3,), sum(pairs) / 20))


@pytest.mark.parametrize("prior", ["cls", "contrast"])
def test_the_visual_prior_looks_where_it_should(setup: Setup, prior: str) -> None:
    patches = torch.zeros(1, 9, 8)
    patches[..., 0] = 1
    patches[0, 4, :2] = torch.tensor([0.0, 2.0])  # the only patch that stands out, and like the class token
    given = Tokens(patches, (3, 3), torch.eye(8)[1:2])
    mass = DOTCBM(setup, visual_prior=prior).patch_masses(given)[0]  # type: ignore[arg-type]
    # standardized: √8 for it, −1/√8 for the eight others
    share = math.exp(math.sqrt(8)) / (math.exp(math.sqrt(8)) + 8 * math.exp(-1 / math.sqrt(8)))
    assert float(mass[4]) == pytest.approx(share, rel=1e-4)
    assert float(mass.sum()) == pytest.approx(1)
    even = DOTCBM(setup, visual_prior=prior, saliency=0.0).patch_masses(given)  # type: ignore[arg-type]
    torch.testing.assert_close(even, DOTCBM(setup, visual_prior="uniform").patch_masses(given))


@pytest.mark.parametrize(
    ("prior", "expected"),
    [("frequency", [4, 1, 2.5, 2.5, 2.5]), ("rarity", [1 / 0.8, 1 / 0.2, 2, 2, 2]), ("uniform", [1, 1, 1, 1, 1])],
)
def test_label_statistics_are_counted_while_training(setup: Setup, prior: str, expected: list[float]) -> None:
    """Of three known labels the first concept has 3, the second 0; the third is half unknown: (n⁺ + 1) / (n + 2)."""
    model = DOTCBM(setup, concept_prior=prior)  # type: ignore[arg-type]
    labels = torch.tensor([[1, 0, 1, -1, -1], [1, 0, 0, -1, -1], [1, 0, -1, -1, -1]], dtype=torch.int8)
    model.train().teach(model(tokens()), labels)  # a piece of a batch: the next one must not see other statistics
    torch.testing.assert_close(model.concept_masses(), torch.full((5,), 0.2))
    model.see_labels(labels)
    masses = torch.tensor(expected)
    torch.testing.assert_close(model.concept_masses(), masses / masses.sum())


def test_no_gradient_goes_through_the_priors(setup: Setup) -> None:
    given = tokens()
    assert given.cls is not None
    cls = given.cls.requires_grad_()
    model = DOTCBM(setup)
    output = model(Tokens(given.patches.requires_grad_(), given.grid, cls))
    output.concept_logits.square().sum().backward()
    assert cls.grad is None
    assert given.patches.grad is not None


def test_unrolled_and_implicit_learn_the_same(setup: Setup) -> None:
    grads: list[list[Tensor]] = []
    for gradient in ("implicit", "unrolled"):
        torch.manual_seed(0)
        model = DOTCBM(setup, gradient=gradient)  # type: ignore[arg-type]
        model(tokens()).logits.square().sum().backward()
        grads.append([value.grad for value in model.parameters() if value.grad is not None])
    for implicit, unrolled in zip(*grads, strict=True):
        torch.testing.assert_close(implicit, unrolled, rtol=1e-3, atol=1e-4)


def test_the_history_tells_whether_the_plan_has_converged(setup: Setup) -> None:
    torch.manual_seed(0)
    assert DOTCBM(setup).end_epoch(tokens())["transport_error"] < 1e-5
    assert DOTCBM(setup, eps=0.005, iterations=2).end_epoch(tokens())["transport_error"] > 0.05


@pytest.mark.parametrize(
    "option",
    [
        {"eps": 0.0},
        {"iterations": 0},
        {"saliency": -1.0},
        {"adapter_width": 0},
        {"orthogonal_patches": -1.0},
        {"logit_scale": 0.0},
    ],
)
def test_bad_options(setup: Setup, option: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"method.{next(iter(option))}: expected"):
        DOTCBM(setup, **option)  # type: ignore[arg-type]


def test_a_missing_class_token(setup: Setup) -> None:
    with pytest.raises(UserError, match="contrast or uniform"):
        DOTCBM(setup)(Tokens(torch.randn(2, 9, 8), (3, 3)))
