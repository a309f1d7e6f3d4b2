"""Eq. 4 in closed form against its two terms as torch differentiates them."""

import pytest
import torch
from torch import Tensor

from conceptlens.encoders.contract import Tokens
from conceptlens.nn.quantization.quantization import ImplicitVQ, chosen, ivq_loss, nearest_codes
from conceptlens.nn.setup import Setup


def two_terms(patches: Tensor, codebook: Tensor, codes: Tensor, beta: float) -> Tensor:
    """‖sg(Z) − Z_q‖² + β ‖Z − sg(Z_q)‖² as printed, per image."""
    quantized = codebook[codes]
    return ((patches.detach() - quantized) ** 2 + beta * (patches - quantized.detach()) ** 2).sum((1, 2))


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    patches = torch.randn(3, 9, 4, generator=generator, dtype=dtype).requires_grad_()
    return patches, torch.randn(5, 4, generator=generator, dtype=dtype).requires_grad_()


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_value_and_gradients_are_those_of_the_two_terms(dtype: torch.dtype, close: float) -> None:
    patches, codebook = inputs(dtype)
    codes, weights = nearest_codes(patches, codebook), torch.tensor([1.0, -2.0, 0.5], dtype=dtype)
    results = []
    for loss in (ivq_loss(patches, codebook, codes, 0.25, "sum"), two_terms(patches, codebook, codes, 0.25)):
        gradients = torch.autograd.grad((loss * weights).sum(), (patches, codebook))
        results.append((loss.detach(), *gradients))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=close, atol=close)


def test_a_frozen_side_gets_no_gradient() -> None:
    patches, codebook = inputs(torch.float32)
    codes = nearest_codes(patches, codebook)
    ivq_loss(patches, codebook.detach(), codes, 0.25).sum().backward()
    assert patches.grad is not None
    assert codebook.grad is None
    ivq_loss(patches.detach(), codebook, codes, 0.25).sum().backward()
    assert codebook.grad is not None


def test_codes_that_no_patch_chose_get_zero() -> None:
    patches, codebook = torch.zeros(1, 2, 3), torch.eye(3, requires_grad=True)
    ivq_loss(patches, codebook, torch.tensor([[1, 1]]), 0.25, "sum").sum().backward()
    assert codebook.grad is not None
    assert codebook.grad.tolist() == [[0, 0, 0], [0, 4, 0], [0, 0, 0]]  # 2 (c − z), twice


def test_uses_are_counted_by_hand(setup: Setup) -> None:
    assert chosen(torch.tensor([[0, 2], [2, 2]]), 4).sum(0).tolist() == [1, 0, 3, 0]
    ivq = ImplicitVQ(setup).train()
    for _ in range(2):
        codes = ivq(Tokens(torch.randn(3, 9, 8), (3, 3))).codes
    assert ivq.uses.sum() == 2 * 27
    ivq.uses.zero_()
    codes = ivq(Tokens(torch.randn(3, 9, 8), (3, 3))).codes
    assert codes is not None
    assert torch.equal(ivq.uses, torch.bincount(codes.flatten(), minlength=len(ivq.codebook)))


def test_under_autocast_distances_and_gradients_stay_exact(setup: Setup) -> None:
    ivq, tokens = ImplicitVQ(setup), Tokens(torch.randn(2, 9, 8, requires_grad=True), (3, 3))
    plain = ivq(tokens).losses["ivq"]
    with torch.autocast("cpu", torch.bfloat16):
        half = ivq(tokens).losses["ivq"]
        gradient = torch.autograd.grad(half.sum(), ivq.codebook)[0]
    assert torch.equal(plain, half)
    assert torch.equal(gradient, torch.autograd.grad(plain.sum(), ivq.codebook)[0])


def test_no_images_no_loss(setup: Setup) -> None:
    ivq, tokens = ImplicitVQ(setup), Tokens(torch.zeros(0, 9, 8, requires_grad=True), (3, 3))
    loss = ivq(tokens).losses["ivq"]
    assert loss.shape == (0,)
    loss.sum().backward()
    assert ivq.codebook.grad is not None
    assert not ivq.codebook.grad.any()
