"""Spectral norm against singular values, its gradient against u vᵀ, and encoders that come back as they were."""

import copy

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.nn.regularizers.spectral_norm import (
    SpectralNorm,
    as_matrix,
    first_vector,
    largest_singular_value,
    power_iteration,
    weight_matrices,
)
from conceptlens.nn.setup import Setup


def mini() -> BuiltinViT:
    torch.manual_seed(0)
    return BuiltinViT(image_size=16, width=8, depth=2, heads=2, stem_width=4, text_width=6, name="builtin/vit-mini")


def sigmas(encoder: BuiltinViT) -> list[float]:
    return [
        float(torch.linalg.matrix_norm(as_matrix(getattr(module, name).detach()), 2))
        for module, name in weight_matrices(encoder)
    ]


def settle(regularizer: SpectralNorm, encoder: BuiltinViT, images: torch.Tensor, times: int = 200) -> None:
    with torch.no_grad():
        for _ in range(times):
            regularizer(encoder(images))


def test_singular_value_by_hand() -> None:
    # diag(3, 1): σ = 3 with u = v = (±1, 0).
    matrix = torch.diag(torch.tensor([3.0, 1.0]))
    left, right = power_iteration(matrix, first_vector(matrix))
    assert largest_singular_value(matrix, left, right).item() == pytest.approx(3.0)
    assert left.abs().tolist() == pytest.approx([1.0, 0.0], abs=1e-5)


def test_gradient_is_the_outer_product_of_the_singular_vectors() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(5, 4, requires_grad=True)
    left, right = power_iteration(matrix.detach(), first_vector(matrix), 500)
    largest_singular_value(matrix, left, right).square().mul(0.5).backward()
    u, s, vh = torch.linalg.svd(matrix.detach())
    torch.testing.assert_close(matrix.grad, s[0] * torch.outer(u[:, 0], vh[0]), atol=1e-4, rtol=1e-3)


def test_which_weights(setup: Setup) -> None:
    encoder = mini()
    shapes = [tuple(getattr(module, name).shape) for module, name in weight_matrices(encoder)]
    assert shapes.count((24, 8)) == 2  # qkv of both blocks
    assert (6, 8) not in shapes  # no token passes the map to the text space
    assert all(len(shape) > 1 for shape in shapes)
    assert (1, 2, 2, 8) not in shapes  # positions are no matrix
    encoder.requires_grad_(False)
    assert weight_matrices(encoder) == []


def test_penalty_is_half_the_sum_of_squares(setup: Setup) -> None:
    encoder, regularizer = mini(), SpectralNorm(setup, weight=0.5, iterations=3)
    images = torch.rand(3, 3, 16, 16)
    assert regularizer.train()(encoder(images)).losses == {}  # not attached
    regularizer.attach(encoder)
    settle(regularizer, encoder, images)
    losses = regularizer(encoder(images)).losses["spectral"]
    assert losses.shape == (3,)  # the same for every image: its mean is the penalty, however a batch is cut
    expected = 0.25 * sum(value**2 for value in sigmas(encoder))
    assert losses.mean().item() == pytest.approx(expected, rel=1e-3)
    assert regularizer.eval()(encoder(images)).losses == {}


def test_penalty_reaches_every_matrix_and_shrinks_it(setup: Setup) -> None:
    encoder, regularizer = mini(), SpectralNorm(setup, weight=1.0)
    regularizer.attach(encoder)
    before, images = sigmas(encoder), torch.rand(2, 3, 16, 16)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        regularizer.train()(encoder(images)).losses["spectral"].mean().backward()
        for module, name in weight_matrices(encoder):
            assert float(getattr(module, name).grad.abs().sum()) > 0
        optimizer.step()
    for start, end in zip(before, sigmas(encoder), strict=True):
        assert end < 0.95 * start  # the second singular value is left alone and soon becomes the first


def test_weights_that_rest_in_a_stage_are_left_out(setup: Setup) -> None:
    encoder, regularizer = mini(), SpectralNorm(setup)
    regularizer.attach(encoder)
    encoder.requires_grad_(False)
    assert regularizer.train()(encoder(torch.rand(1, 3, 16, 16))).losses == {}


@pytest.mark.parametrize("mode", ["penalty", "normalize"])
def test_nothing_is_left_behind(setup: Setup, mode: str) -> None:
    encoder, regularizer = mini(), SpectralNorm(setup, mode=mode)
    names, images = list(encoder.state_dict()), torch.rand(2, 3, 16, 16)
    regularizer.attach(encoder)
    assert set(regularizer.state_dict()) | set(encoder.state_dict()) != set(names)  # vectors are kept while it trains
    assert {id(value) for value in regularizer.parameters()} == set()
    encoder.train()
    regularizer.train()(encoder(images))
    seen = encoder.eval()(images).patches
    encoder.train()  # whatever mode training ended in
    regularizer.detach()
    assert regularizer.state_dict() == {}
    assert sorted(encoder.state_dict()) == sorted(names)
    torch.testing.assert_close(encoder.eval()(images).patches, seen)
    assert all(parameter.requires_grad for parameter in encoder.trunk.parameters())


def test_normalized_encoder_begins_as_it_was_and_cannot_grow(setup: Setup) -> None:
    encoder, images = mini(), torch.rand(2, 3, 16, 16)
    regularizer = SpectralNorm(setup, mode="normalize")
    before, start = sigmas(encoder), encoder.eval()(images).patches.detach()
    places = weight_matrices(encoder)
    regularizer.attach(encoder)
    torch.testing.assert_close(encoder(images).patches, start, atol=1e-4, rtol=1e-3)
    with torch.no_grad():
        for module, name in places:
            module.parametrizations[name].original.mul_(5)
    torch.testing.assert_close(encoder(images).patches, start, atol=1e-4, rtol=1e-3)
    assert regularizer(encoder.train()(images)).losses == {}
    regularizer.detach()
    assert sigmas(encoder) == pytest.approx(before, rel=1e-2)


def test_a_given_norm_is_that_of_every_matrix(setup: Setup) -> None:
    encoder, regularizer = mini(), SpectralNorm(setup, mode="normalize", norm=2.0)
    regularizer.attach(encoder)
    encoder.train()
    for _ in range(200):
        encoder(torch.rand(1, 3, 16, 16))
    regularizer.detach()
    assert sigmas(encoder) == pytest.approx([2.0] * len(sigmas(encoder)), rel=1e-3)


def test_gradients_pass_the_normalization(setup: Setup) -> None:
    """Growing a matrix changes nothing, so the gradient of a normalized weight is at right angles to the weight."""
    encoder, regularizer = mini(), SpectralNorm(setup, mode="normalize")
    places = weight_matrices(encoder)
    regularizer.attach(encoder)
    encoder.train()
    for _ in range(100):  # until u and v are the singular vectors
        encoder(torch.rand(1, 3, 16, 16))
    encoder(torch.rand(2, 3, 16, 16)).patches.square().sum().backward()
    for module, name in places:
        original = module.parametrizations[name].original
        assert original.grad is not None
        cosine = torch.cosine_similarity(original.grad.flatten(), original.detach().flatten(), dim=0)
        assert abs(float(cosine)) < 1e-2


def test_an_attached_pipeline_can_be_copied(setup: Setup) -> None:
    encoder, regularizer = mini(), SpectralNorm(setup)
    regularizer.attach(encoder)
    both = copy.deepcopy(torch.nn.ModuleDict({"encoder": encoder, "regularizer": regularizer}))
    both["regularizer"].train()(both["encoder"](torch.rand(1, 3, 16, 16))).losses["spectral"].sum().backward()
    assert both["encoder"].trunk[0].qkv.weight.grad is not None
    assert encoder.trunk[0].qkv.weight.grad is None


def test_options_out_of_range(setup: Setup) -> None:
    with pytest.raises(UserError, match=r"regularizer\.norm"):
        SpectralNorm(setup, norm=0.0)
    with pytest.raises(UserError, match=r"regularizer\.iterations"):
        SpectralNorm(setup, iterations=0)
