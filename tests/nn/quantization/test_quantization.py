"""IVQ against numbers worked out by hand and naive float64 loops (Eq. 3, 4, 10, 11, 17, 18)."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.quantization.quantization import ExplicitVQ, ImplicitVQ, PlainL2, ivq_loss, nearest_codes


def test_nearest_code_by_hand() -> None:
    # Codes at 0 and 10 on a line: 4 is nearer to 0, 6 to 10.
    codebook = torch.tensor([[0.0], [10.0]])
    assert nearest_codes(torch.tensor([[[4.0], [6.0]]]), codebook).tolist() == [[0, 1]]


def test_nearest_code_equals_naive_search() -> None:
    torch.manual_seed(0)
    patches, codebook = torch.randn(3, 17, 5, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)
    found = nearest_codes(patches, codebook)
    for b in range(3):
        for j in range(17):
            assert found[b, j] == min(range(7), key=lambda k: float((patches[b, j] - codebook[k]).square().sum()))


def test_loss_by_hand() -> None:
    # One patch (1, 2), its code (0, 0): squared distance 5; codebook loss 5, commitment 0.25 · 5.
    patches, codebook, codes = torch.tensor([[[1.0, 2.0]]]), torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.long)
    assert ivq_loss(patches, codebook, codes, 0.25, "sum").item() == pytest.approx(6.25)
    assert ivq_loss(patches, codebook, codes, 0.25, "mean").item() == pytest.approx(6.25 / 2)


def test_gradients_of_the_sum_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    beta = 0.25
    patches = torch.randn(1, 9, 4, dtype=torch.float64, requires_grad=True)
    codebook = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    codes = nearest_codes(patches, codebook)
    ivq_loss(patches, codebook, codes, beta, "sum").sum().backward()
    assert patches.grad is not None
    assert codebook.grad is not None
    # Eq. 11 and 18: 2 β (z_j − c_{k_j}).
    torch.testing.assert_close(patches.grad, 2 * beta * (patches - codebook[codes]).detach())
    # Eq. 17: each code is drawn to the patches that chose it, Σ 2 (c_k − z_j).
    for k in range(3):
        chosen = patches.detach()[codes == k]
        torch.testing.assert_close(codebook.grad[k], 2 * (codebook.detach()[k] - chosen).sum(0))


def test_mean_is_the_sum_over_patches_and_channels() -> None:
    torch.manual_seed(1)
    patches, codebook = torch.randn(2, 6, 4), torch.randn(3, 4)
    codes = nearest_codes(patches, codebook)
    torch.testing.assert_close(
        ivq_loss(patches, codebook, codes, 0.5, "mean") * 24, ivq_loss(patches, codebook, codes, 0.5, "sum")
    )


def test_implicit_leaves_tokens_alone_and_explicit_replaces_them(setup) -> None:
    tokens = Tokens(torch.randn(2, 9, 8, requires_grad=True), (3, 3))
    implicit, explicit = ImplicitVQ(setup), ExplicitVQ(setup)
    explicit.load_state_dict(implicit.state_dict())
    assert implicit(tokens).tokens.patches is tokens.patches
    replaced = explicit(tokens)
    torch.testing.assert_close(replaced.tokens.patches, explicit.codebook[replaced.codes])
    # Straight-through: the gradient of the output reaches the patches unchanged.
    replaced.tokens.patches.sum().backward()
    torch.testing.assert_close(tokens.patches.grad, torch.ones(2, 9, 8))


def test_codebook_sizes(setup) -> None:
    assert len(ImplicitVQ(setup).codebook) == len(setup.concepts)  # M = K
    assert len(ImplicitVQ(setup, codebook_multiple=5).codebook) == 5 * len(setup.concepts)
    assert len(ImplicitVQ(setup, per="group").codebook) == len(setup.concepts.groups)
    assert len(ImplicitVQ(setup, codebook_size=1).codebook) == 1
    with pytest.raises(UserError, match="at least one code"):
        ImplicitVQ(setup, codebook_multiple=0)


def test_kmeans_start_puts_every_code_in_use(setup) -> None:
    torch.manual_seed(0)
    tokens = Tokens(torch.randn(8, 16, 8) + 5, (4, 4))
    regularizer = ImplicitVQ(setup)
    assert nearest_codes(tokens.patches, regularizer.codebook).unique().numel() < len(setup.concepts)
    regularizer.prepare([tokens])
    assert nearest_codes(tokens.patches, regularizer.codebook).unique().numel() == len(setup.concepts)


def test_dead_codes_are_counted_and_revived(setup) -> None:
    torch.manual_seed(0)
    regularizer = ImplicitVQ(setup).train()
    tokens = Tokens(torch.randn(4, 16, 8), (4, 4))
    with torch.no_grad():
        regularizer.codebook.fill_(0.0)
        regularizer.codebook[1:] = 1000.0  # no patch will choose these
    regularizer(tokens)
    assert regularizer.uses.tolist() == [64, 0, 0, 0, 0]
    notes = regularizer.end_epoch(tokens, torch.clone)
    assert notes == {"codes_dead": 4.0, "codes_perplexity": pytest.approx(1.0)}
    assert regularizer.uses.sum() == 0
    regularizer(tokens)
    assert int((regularizer.uses == 0).sum()) == 0


def test_frozen_codebook_is_never_moved(setup) -> None:
    regularizer = ImplicitVQ(setup, learn=False, init="uniform").train()
    before = regularizer.codebook.clone()
    tokens = Tokens(torch.randn(2, 4, 8), (2, 2))
    regularizer.prepare([tokens])
    regularizer(tokens)
    regularizer.end_epoch(tokens, torch.clone)
    assert torch.equal(before, regularizer.codebook)
    assert not regularizer.codebook.requires_grad
    assert float(before.detach().abs().max()) <= 1 / len(before)


def test_plain_l2_by_hand(setup) -> None:
    tokens = Tokens(torch.full((1, 2, 8), 3.0), (1, 2))
    assert PlainL2(setup, weight=0.5)(tokens).losses["l2"].item() == pytest.approx(4.5)
    assert PlainL2(setup, weight=0.5, reduction="sum")(tokens).losses["l2"].item() == pytest.approx(72.0)


def test_ivq_with_codes_at_zero_is_plain_l2(setup) -> None:
    """The control: commitment to a code at zero is an L2 penalty of weight β."""
    patches = torch.randn(2, 5, 8, requires_grad=True)
    regularizer = ImplicitVQ(setup, codebook_size=1, learn=False, beta=0.25)
    with torch.no_grad():
        regularizer.codebook.zero_()
    (from_ivq,) = torch.autograd.grad(regularizer(Tokens(patches, (1, 5))).losses["ivq"].sum(), patches)
    (from_l2,) = torch.autograd.grad(PlainL2(setup, weight=0.25)(Tokens(patches, (1, 5))).losses["l2"].sum(), patches)
    torch.testing.assert_close(from_ivq, from_l2)
